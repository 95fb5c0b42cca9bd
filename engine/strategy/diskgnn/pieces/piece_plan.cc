#include "engine/strategy/diskgnn/pieces/piece_plan.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/base/sha256.h"
#include "engine/base/status.h"
#include "engine/io/whole_file.h"
#include "engine/sample/batch_shape.h"
#include "engine/store/strict_json.h"
#include "engine/strategy/diskgnn/packing/plan_reader.h"
#include "engine/strategy/packing/pass_digest.h"
#include "engine/strategy/sampling.h"
#include "nlohmann/json.hpp"

// The folder of pieces:
//
//   samples.json     round 1: passes, their shards, the dataset
//   seeds            seeds of all passes, 8 bytes each, one behind the other
//   samples-000000/  a piece of round 1
//   packs.json       round 2: segments, digests of the two files below
//   levels           nodes of the GPU cache, then of the CPU cache, 8 bytes
//   each index            the layout as PackBatches takes it, without checksums
//   packs-000000/    a piece of round 2
//
// A plan's .json is written last, behind all that it refers to.

namespace hearth::strategy {

namespace {

using store::NodeId;

constexpr absl::string_view kFormat = "plan in pieces";
constexpr char kSeedsFile[] = "seeds";
constexpr char kLevelsFile[] = "levels";
constexpr uint64_t kMaxPlanBytes = 64 << 20;
constexpr uint64_t kMaxLevelsBytes = uint64_t{64} << 30;

absl::Span<const std::byte> BytesOf(absl::Span<const NodeId> nodes) {
  return {reinterpret_cast<const std::byte*>(nodes.data()),
          nodes.size() * sizeof(NodeId)};
}

std::string FolderOf(const PiecePlan& plan) {
  return io::ParentDirectory(plan.path);
}

std::string PathIn(const PiecePlan& plan, const char* name) {
  return io::JoinPath(FolderOf(plan), name);
}

std::string DigestOf(absl::Span<const absl::Span<const std::byte>> parts) {
  Sha256 hash;
  for (const absl::Span<const std::byte> part : parts) hash.Update(part);
  return hash.HexDigest();
}

/// Element i of count + 1 bounds that cut `total` units into equal parts.
std::vector<int64_t> CutEvenly(int64_t total, int64_t wanted) {
  const int64_t count = std::clamp<int64_t>(
      wanted, 1, std::min(PiecePlan::kMaxPieces, std::max<int64_t>(total, 1)));
  std::vector<int64_t> bounds;
  for (int64_t i = 0; i <= count; ++i) {
    bounds.push_back(
        static_cast<int64_t>(static_cast<__int128>(total) * i / count));
  }
  return bounds;
}

/// Fan-outs as JSON has them: one more, since all neighbors are -1.
std::vector<int64_t> AboveZero(const std::vector<int32_t>& fanouts) {
  std::vector<int64_t> out;
  for (const int32_t fanout : fanouts) out.push_back(int64_t{fanout} + 1);
  return out;
}

std::vector<int32_t> FromZero(const std::vector<int64_t>& numbers) {
  std::vector<int32_t> out;
  for (const int64_t number : numbers) {
    out.push_back(
        static_cast<int32_t>(std::min<int64_t>(number, INT32_MAX) - 1));
  }
  return out;
}

nlohmann::ordered_json JsonOf(const PassOfPieces& of) {
  const Pass& pass = of.pass;
  nlohmann::ordered_json by_type = nlohmann::ordered_json::array();
  for (const std::vector<int32_t>& fanouts : pass.sampler.fanouts_of) {
    by_type.push_back({{"fanouts_plus_1", AboveZero(fanouts)}});
  }
  return {{"digest", of.digest},
          {"seeds", of.num_seeds},
          {"shards", of.num_shards},
          {"epoch_key", pass.epoch_key},
          {"batch_size", pass.batch_size},
          {"shards_of_batch", pass.shards},
          {"window_first", pass.window.first},
          {"window_all", pass.window.all},
          {"data_seed", pass.sampler.data_seed},
          {"fanouts_plus_1", AboveZero(pass.sampler.fanouts)},
          {"layer_nodes_plus_1", AboveZero(pass.sampler.layer_nodes)},
          {"by_edge_type", std::move(by_type)},
          {"once", pass.sampler.once}};
}

PassOfPieces ParsePass(store::JsonFields& fields, int64_t first_shard) {
  PassOfPieces of;
  of.first_shard = first_shard;
  of.digest = fields.String("digest");
  of.num_seeds = fields.Int("seeds", 0, INT64_MAX / 16);
  of.num_shards = fields.Int("shards", 0, INT32_MAX);
  of.pass.epoch_key = fields.Uint("epoch_key", UINT64_MAX);
  of.pass.batch_size = fields.Int("batch_size", 1, INT64_MAX / 16);
  of.pass.shards = fields.Int("shards_of_batch", 1, sample::kMostShards);
  of.pass.window.first = fields.Int("window_first", 0, sample::kMostShards);
  of.pass.window.all = fields.Int("window_all", 0, sample::kMostShards);
  of.pass.sampler.data_seed = fields.Uint("data_seed", UINT64_MAX);
  of.pass.sampler.fanouts = FromZero(fields.NonNegativeInts("fanouts_plus_1"));
  of.pass.sampler.layer_nodes =
      FromZero(fields.NonNegativeInts("layer_nodes_plus_1"));
  for (store::JsonFields& by_type : fields.Objects("by_edge_type")) {
    of.pass.sampler.fanouts_of.push_back(
        FromZero(by_type.NonNegativeInts("fanouts_plus_1")));
    fields.Absorb(by_type);
  }
  of.pass.sampler.once = fields.Bool("once");
  return of;
}

std::string Serialize(const PiecePlan& plan) {
  const bool is_samples = plan.round == PiecePlan::Round::kSamples;
  nlohmann::ordered_json json = {{"format", kFormat},
                                 {"version", PiecePlan::kVersion},
                                 {"round", is_samples ? 1 : 2},
                                 {"plan", plan.origin.plan},
                                 {"plan_id", plan.origin.plan_id},
                                 {"dataset", plan.origin.dataset},
                                 {"dataset_path", plan.origin.dataset_path},
                                 {"fingerprint", plan.origin.fingerprint},
                                 {"target", plan.origin.target},
                                 {"nodes", plan.origin.num_nodes},
                                 {"bounds", plan.bounds}};
  if (is_samples) {
    json["sample_bytes"] = plan.memory.sample_bytes;
    json["sampler_bytes"] = plan.memory.sampler_bytes;
    nlohmann::ordered_json passes = nlohmann::ordered_json::array();
    for (const PassOfPieces& pass : plan.passes) passes.push_back(JsonOf(pass));
    json["passes"] = std::move(passes);
  } else {
    json["samples_sha256"] = plan.samples_sha256;
    json["levels_sha256"] = plan.levels_sha256;
    json["layout_sha256"] = plan.layout_sha256;
    json["segment_size"] = plan.segmentation.segment_size;
    json["max_rows"] = plan.segmentation.max_rows;
    json["seed"] = plan.segmentation.seed;
    json["disk_rows"] = plan.disk_rows;
    json["reason"] = plan.reason;
  }
  return store::SealJson(json);
}

bool IsAscending(const std::vector<int64_t>& numbers) {
  return std::is_sorted(numbers.begin(), numbers.end()) && !numbers.empty() &&
         numbers.front() == 0;
}

void ParseSamples(store::JsonFields& fields, PiecePlan& plan) {
  plan.memory.sample_bytes = fields.Uint("sample_bytes", UINT64_MAX / 4);
  plan.memory.sampler_bytes = fields.Uint("sampler_bytes", UINT64_MAX / 4);
  int64_t shards = 0;
  for (store::JsonFields& pass : fields.Objects("passes")) {
    plan.passes.push_back(ParsePass(pass, shards));
    shards += plan.passes.back().num_shards;
    fields.Absorb(pass);
  }
  if (fields.status().ok() && shards != plan.num_batches()) {
    fields.Fail("passes", "do not have the shards of the pieces");
  }
}

void ParsePacks(store::JsonFields& fields, PiecePlan& plan) {
  plan.samples_sha256 = fields.String("samples_sha256");
  plan.levels_sha256 = fields.String("levels_sha256");
  plan.layout_sha256 = fields.String("layout_sha256");
  plan.segmentation.num_batches = plan.num_batches();
  plan.segmentation.segment_size = fields.Int("segment_size", 1, INT64_MAX);
  plan.segmentation.max_rows = fields.Int("max_rows", 0, INT64_MAX);
  plan.segmentation.seed = fields.Uint("seed", UINT64_MAX);
  plan.disk_rows = fields.NonNegativeInts("disk_rows");
  plan.reason = fields.String("reason");
  if (!fields.status().ok()) return;
  if (!IsAscending(plan.disk_rows) ||
      plan.disk_rows.size() != plan.bounds.size()) {
    fields.Fail("disk_rows", "are not those of the pieces");
  }
  for (size_t i = 0; i + 1 < plan.bounds.size(); ++i) {
    if (plan.bounds[i] % plan.segmentation.segment_size != 0) {
      fields.Fail("bounds", "do not begin segments");
    }
  }
}

absl::StatusOr<PiecePlan> Parse(absl::string_view contents) {
  HEARTH_ASSIGN_OR_RETURN(const nlohmann::json json,
                          store::OpenSealedJson(contents));
  store::JsonFields fields(json, "plan");
  if (fields.String("format") != kFormat) {
    fields.Fail("format", "is not that of a plan in pieces");
  }
  const int64_t version = fields.Int("version", 0, INT64_MAX);
  HEARTH_RETURN_IF_ERROR(fields.status());
  if (version != PiecePlan::kVersion) {
    return absl::FailedPreconditionError(
        absl::StrCat("has format version ", version,
                     "; this version of Hearth reads ", PiecePlan::kVersion));
  }
  PiecePlan plan;
  plan.round = fields.Int("round", 1, 2) == 1 ? PiecePlan::Round::kSamples
                                              : PiecePlan::Round::kPacks;
  plan.origin.plan = fields.String("plan");
  plan.origin.plan_id = fields.Uint("plan_id", UINT64_MAX);
  plan.origin.dataset = fields.String("dataset");
  plan.origin.dataset_path = fields.String("dataset_path");
  plan.origin.fingerprint = fields.String("fingerprint");
  plan.origin.target = fields.String("target");
  plan.origin.num_nodes = fields.Int("nodes", 0, INT64_MAX / 16);
  plan.bounds = fields.NonNegativeInts("bounds");
  if (plan.bounds.size() < 2 || plan.num_pieces() > PiecePlan::kMaxPieces ||
      !IsAscending(plan.bounds)) {
    fields.Fail("bounds", "are not those of pieces");
  }
  HEARTH_RETURN_IF_ERROR(fields.status());
  if (plan.round == PiecePlan::Round::kSamples) {
    ParseSamples(fields, plan);
  } else {
    ParsePacks(fields, plan);
  }
  HEARTH_RETURN_IF_ERROR(fields.status());
  plan.sha256 = DigestOf(
      {{reinterpret_cast<const std::byte*>(contents.data()), contents.size()}});
  return plan;
}

/// FAILED_PRECONDITION unless the plan is of `origin`, but for the path of the
/// dataset, which may have moved.
absl::Status CheckOrigin(const PiecePlan& plan, const PieceOrigin& origin) {
  const PieceOrigin& there = plan.origin;
  if (there.fingerprint != origin.fingerprint) {
    return absl::FailedPreconditionError(
        absl::StrCat(plan.path, ": has pieces of dataset ", there.dataset,
                     " with fingerprint ", there.fingerprint, ", not of ",
                     origin.dataset, " with ", origin.fingerprint));
  }
  if (there.plan != origin.plan || there.plan_id != origin.plan_id) {
    return absl::FailedPreconditionError(absl::StrCat(
        plan.path, ": has pieces of plan ", there.plan, ", not of ",
        origin.plan, ": other options need another folder"));
  }
  return absl::OkStatus();
}

absl::StatusOr<PiecePlan> Write(io::FileSystem& files, const PiecePlan& plan) {
  HEARTH_RETURN_IF_ERROR(
      io::WriteFileAtomically(files, plan.path, Serialize(plan)));
  return ReadPiecePlan(files, plan.path);
}

}  // namespace

std::string PieceName(PiecePlan::Round round, int64_t index) {
  return absl::StrFormat(
      "%s-%06d", round == PiecePlan::Round::kSamples ? "samples" : "packs",
      index);
}

absl::StatusOr<PiecePlan> PlanSamplePieces(io::FileSystem& files,
                                           const PieceOrigin& origin,
                                           absl::Span<const Pass> passes,
                                           int64_t num_pieces,
                                           const std::string& folder) {
  HEARTH_RETURN_IF_ERROR(files.CreateDirectory(folder));
  PiecePlan plan;
  plan.path = io::JoinPath(folder, PiecePlan::kSamplesFile);
  absl::StatusOr<PiecePlan> there = ReadPiecePlan(files, plan.path);
  if (there.ok()) {
    HEARTH_RETURN_IF_ERROR(CheckOrigin(*there, origin));
    return there;
  }
  if (!absl::IsNotFound(there.status())) return there;
  plan.origin = origin;
  std::vector<std::vector<NodeId>> seeds;
  std::vector<absl::Span<const std::byte>> seed_bytes;
  int64_t shards = 0;
  for (const Pass& pass : passes) {
    if (pass.history != nullptr) {
      return absl::InvalidArgumentError(
          "a pass with a history is not sampled in pieces: what a batch reuses "
          "depends on all batches before it");
    }
    seeds.push_back(SeedsOf(pass));
    const int64_t count = ShardsOf(pass, std::ssize(seeds.back())).count;
    plan.passes.push_back({.pass = pass,
                           .digest = DigestOfPass(pass, seeds.back()),
                           .num_seeds = std::ssize(seeds.back()),
                           .first_shard = shards,
                           .num_shards = count});
    shards += count;
    const sample::BatchShape shape = pass.batches.WithMargin();
    plan.memory.sample_bytes =
        std::max(plan.memory.sample_bytes, shape.MemoryBytes());
    plan.memory.sampler_bytes =
        std::max(plan.memory.sampler_bytes, shape.SamplerBytes());
  }
  for (const std::vector<NodeId>& of : seeds) seed_bytes.push_back(BytesOf(of));
  plan.bounds = CutEvenly(shards, num_pieces);
  HEARTH_RETURN_IF_ERROR(io::WritePiecesAtomically(
      files, io::JoinPath(folder, kSeedsFile), seed_bytes));
  return Write(files, plan);
}

absl::StatusOr<PiecePlan> PlanPackPieces(io::FileSystem& files,
                                         const PiecePlan& samples,
                                         const PackDecision& decision,
                                         const std::string& reason,
                                         int64_t num_pieces) {
  PiecePlan plan;
  plan.reason = reason;
  plan.round = PiecePlan::Round::kPacks;
  plan.path = PathIn(samples, PiecePlan::kPacksFile);
  plan.origin = samples.origin;
  plan.samples_sha256 = samples.sha256;
  plan.segmentation = decision.segmentation;
  const PackedLayout& layout = decision.layout;
  for (const int64_t segment :
       CutEvenly(decision.segmentation.num_segments(), num_pieces)) {
    plan.bounds.push_back(std::min(segment * decision.segmentation.segment_size,
                                   decision.segmentation.num_batches));
    int64_t rows = 0;
    for (int64_t i = 0; i < segment; ++i) rows += layout.segment_rows[i];
    plan.disk_rows.push_back(rows);
  }
  // An earlier plan must not stand beside the files of this one.
  HEARTH_RETURN_IF_ERROR(files.RemoveTree(plan.path));
  HEARTH_RETURN_IF_ERROR(files.SyncDirectory(FolderOf(plan)));
  const absl::Span<const std::byte> levels[] = {
      BytesOf(decision.levels.gpu_nodes()),
      BytesOf(decision.levels.cpu_nodes())};
  plan.levels_sha256 = DigestOf(levels);
  HEARTH_RETURN_IF_ERROR(
      io::WritePiecesAtomically(files, PathIn(plan, kLevelsFile), levels));
  PackedLayout numbered = layout;
  numbered.plan_id = plan.origin.plan_id;
  HEARTH_RETURN_IF_ERROR(WriteLayoutIndex(files, FolderOf(plan), numbered));
  HEARTH_ASSIGN_OR_RETURN(
      const std::string written,
      io::ReadWholeFile(files, PathIn(plan, kIndexFile), kMaxLevelsBytes));
  plan.layout_sha256 = DigestOf(
      {{reinterpret_cast<const std::byte*>(written.data()), written.size()}});
  return Write(files, plan);
}

absl::StatusOr<PiecePlan> ReadPiecePlan(io::FileSystem& files,
                                        const std::string& path) {
  HEARTH_ASSIGN_OR_RETURN(const std::string contents,
                          io::ReadWholeFile(files, path, kMaxPlanBytes));
  absl::StatusOr<PiecePlan> plan = Parse(contents);
  if (!plan.ok()) return Annotate(plan.status(), path);
  plan->path = path;
  return plan;
}

absl::StatusOr<bool> IsPiecePlan(io::FileSystem& files,
                                 const std::string& path) {
  HEARTH_ASSIGN_OR_RETURN(const std::string contents,
                          io::ReadWholeFile(files, path, kMaxPlanBytes));
  return absl::StrContains(contents.substr(0, 100),
                           absl::StrCat("\"", kFormat, "\""));
}

absl::StatusOr<std::optional<PiecePlan>> FindPackPlan(
    io::FileSystem& files, const PiecePlan& samples) {
  absl::StatusOr<PiecePlan> plan =
      ReadPiecePlan(files, PathIn(samples, PiecePlan::kPacksFile));
  if (absl::IsNotFound(plan.status())) return std::nullopt;
  HEARTH_RETURN_IF_ERROR(plan.status());
  if (plan->samples_sha256 != samples.sha256) return std::nullopt;
  return std::optional(*std::move(plan));
}

absl::StatusOr<std::vector<NodeId>> ReadSeeds(io::FileSystem& files,
                                              const PiecePlan& plan,
                                              size_t index) {
  const PassOfPieces& of = plan.passes[index];
  uint64_t first = 0;
  for (size_t i = 0; i < index; ++i) {
    first += static_cast<uint64_t>(plan.passes[i].num_seeds);
  }
  const std::string path = PathIn(plan, kSeedsFile);
  HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<io::ReadableFile> file,
                          files.OpenForRead(path));
  HEARTH_ASSIGN_OR_RETURN(const io::FileInfo info, file->Info());
  const uint64_t bytes = static_cast<uint64_t>(of.num_seeds) * sizeof(NodeId);
  const uint64_t offset = first * sizeof(NodeId);
  if (info.size_bytes < offset || info.size_bytes - offset < bytes) {
    return absl::DataLossError(absl::StrCat(path, ": is cut short"));
  }
  std::vector<NodeId> seeds(static_cast<size_t>(of.num_seeds));
  HEARTH_RETURN_IF_ERROR(
      file->Read(offset, {reinterpret_cast<std::byte*>(seeds.data()), bytes}));
  if (DigestOfPass(of.pass, seeds) != of.digest) {
    return absl::DataLossError(absl::StrCat(path, ": the seeds of pass ", index,
                                            " are not those of ", plan.path));
  }
  return seeds;
}

absl::StatusOr<MemoryLevels> ReadLevels(io::FileSystem& files,
                                        const PiecePlan& plan) {
  HEARTH_ASSIGN_OR_RETURN(const PackedLayout layout, ReadLayout(files, plan));
  const std::string path = PathIn(plan, kLevelsFile);
  HEARTH_ASSIGN_OR_RETURN(const std::string bytes,
                          io::ReadWholeFile(files, path, kMaxLevelsBytes));
  const auto held = static_cast<size_t>(layout.rows.gpu + layout.rows.cpu);
  const absl::Span<const std::byte> span = {
      reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()};
  if (bytes.size() != held * sizeof(NodeId) ||
      DigestOf({span}) != plan.levels_sha256) {
    return absl::DataLossError(
        absl::StrCat(path, ": is not the file of ", plan.path));
  }
  std::vector<NodeId> nodes(held);
  if (held > 0) std::memcpy(nodes.data(), bytes.data(), bytes.size());
  const absl::Span<const NodeId> all = nodes;
  const auto num_gpu = static_cast<size_t>(layout.rows.gpu);
  return MemoryLevels::Of(plan.origin.num_nodes, all.first(num_gpu),
                          all.subspan(num_gpu));
}

absl::StatusOr<PackedLayout> ReadLayout(io::FileSystem& files,
                                        const PiecePlan& plan) {
  const std::string path = PathIn(plan, kIndexFile);
  HEARTH_ASSIGN_OR_RETURN(const std::string bytes,
                          io::ReadWholeFile(files, path, kMaxLevelsBytes));
  if (DigestOf({{reinterpret_cast<const std::byte*>(bytes.data()),
                 bytes.size()}}) != plan.layout_sha256) {
    return absl::DataLossError(
        absl::StrCat(path, ": is not the file of ", plan.path));
  }
  HEARTH_ASSIGN_OR_RETURN(
      PackedLayout layout,
      ReadIndexAlone(files, FolderOf(plan), plan.origin.plan_id));
  if (layout.num_batches() == plan.num_batches() &&
      layout.rows.disk == plan.disk_rows.back()) {
    return layout;
  }
  return absl::DataLossError(
      absl::StrCat(path, ": is not the layout of ", plan.path));
}

PackPart PartOf(const PiecePlan& plan, const PackedLayout& layout,
                int64_t index) {
  const auto share = [&](int64_t rows, int64_t before) {
    return static_cast<int64_t>(static_cast<__int128>(rows) * before /
                                plan.num_pieces());
  };
  PackPart part;
  part.first_batch = plan.first_batch(index);
  part.first_segment = part.first_batch / plan.segmentation.segment_size;
  part.first = {.gpu = share(layout.rows.gpu, index),
                .cpu = share(layout.rows.cpu, index),
                .disk = plan.disk_rows[index]};
  part.rows = {.gpu = share(layout.rows.gpu, index + 1) - part.first.gpu,
               .cpu = share(layout.rows.cpu, index + 1) - part.first.cpu,
               .disk = plan.disk_rows[index + 1] - part.first.disk};
  return part;
}

}  // namespace hearth::strategy
