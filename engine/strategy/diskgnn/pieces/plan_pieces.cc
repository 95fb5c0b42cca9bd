#include "engine/strategy/diskgnn/pieces/plan_pieces.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <variant>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "engine/base/byte_size.h"
#include "engine/base/crc32c.h"
#include "engine/base/sha256.h"
#include "engine/base/status.h"
#include "engine/io/whole_file.h"
#include "engine/sample/seed_order.h"
#include "engine/store/dataset.h"
#include "engine/store/labels.h"
#include "engine/store/strict_json.h"
#include "engine/strategy/diskgnn/packing/join_packs.h"
#include "engine/strategy/diskgnn/packing/pack_batches.h"
#include "engine/strategy/diskgnn/packing/plan_reader.h"
#include "engine/strategy/packing/offline_sampling.h"
#include "engine/strategy/sampling.h"
#include "nlohmann/json.hpp"

// A piece is a folder: the files of a sample spool, or those of a part of a
// plan (PackPart), and what the piece says of itself:
//
//   1. Make the files in a folder of a random name, durably.
//   2. Write piece.json there.
//   3. Move an earlier piece aside, rename the folder, remove the earlier one.
//
// Two processes that make the same piece at the same time have equal bytes: the
// one that comes second to 3. leaves the other's.

namespace hearth::strategy {

namespace {

using store::NodeId;

constexpr char kPieceFile[] = "piece.json";
constexpr char kSpoolFile[] = "samples";
constexpr uint64_t kMaxPieceFileBytes = 64 << 10;
// Memory of the program, of buffers of files, and of the plan itself.
constexpr uint64_t kBaseBytes = 32 << 20;

/// `status` of a piece that has to be made, with how to do that.
absl::Status ToBeMade(const absl::Status& status, const PiecePlan& plan,
                      int64_t index) {
  const std::string remedy = absl::StrCat(
      "; make the piece: hearth piece --of ", plan.path, " --index ", index);
  if (absl::EndsWith(status.message(), remedy)) return status;
  return absl::Status(status.code(), absl::StrCat(status.message(), remedy));
}

std::string FolderOfPiece(const PiecePlan& plan, const std::string& folder,
                          int64_t index) {
  return io::JoinPath(folder, PieceName(plan.round, index));
}

/// What the piece at `path` says of itself, without the command in errors.
absl::Status CheckPieceFile(io::FileSystem& files, const PiecePlan& plan,
                            int64_t index, const std::string& path) {
  const std::string file = io::JoinPath(path, kPieceFile);
  absl::StatusOr<std::string> text =
      io::ReadWholeFile(files, file, kMaxPieceFileBytes);
  if (absl::IsNotFound(text.status())) {
    return absl::NotFoundError(absl::StrCat(path, ": is missing"));
  }
  HEARTH_RETURN_IF_ERROR(text.status());
  const absl::StatusOr<nlohmann::json> json = store::OpenSealedJson(*text);
  if (!json.ok()) {
    return absl::DataLossError(
        absl::StrCat(file, ": is damaged: ", json.status().message()));
  }
  store::JsonFields fields(*json, "piece");
  const std::string sha256 = fields.String("plan_sha256");
  const int64_t number = fields.Int("piece", 0, PiecePlan::kMaxPieces);
  if (!fields.status().ok()) {
    return absl::DataLossError(
        absl::StrCat(file, ": ", fields.status().message()));
  }
  if (sha256 == plan.sha256 && number == index) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(path, ": belongs to another plan than ", plan.path));
}

/// Makes the files of a piece in a folder of its own, and moves it to its
/// place. Single-owner.
class PieceFolder {
 public:
  static absl::StatusOr<std::unique_ptr<PieceFolder>> Create(
      io::FileSystem& files, const PiecePlan& plan, int64_t index,
      const std::string& folder) {
    HEARTH_ASSIGN_OR_RETURN(const std::string random, RandomHex(8));
    const std::string path = FolderOfPiece(plan, folder, index);
    std::unique_ptr<PieceFolder> piece(new PieceFolder(files, path, random));
    HEARTH_RETURN_IF_ERROR(files.CreateDirectory(piece->scratch()));
    return piece;
  }

  const std::string& scratch() const { return scratch_.path(); }

  absl::Status Finish(const PiecePlan& plan, int64_t index) {
    HEARTH_RETURN_IF_ERROR(io::WriteFileAtomically(
        files_, io::JoinPath(scratch(), kPieceFile),
        store::SealJson({{"plan_sha256", plan.sha256}, {"piece", index}})));
    const absl::Status aside = files_.Rename(path_, earlier_.path());
    if (!aside.ok() && !absl::IsNotFound(aside)) return aside;
    const absl::Status renamed = files_.Rename(scratch(), path_);
    if (!renamed.ok() && !CheckPieceFile(files_, plan, index, path_).ok()) {
      return renamed;
    }
    return files_.SyncDirectory(io::ParentDirectory(path_));
  }

 private:
  PieceFolder(io::FileSystem& files, const std::string& path,
              const std::string& random)
      : files_(files),
        path_(path),
        earlier_(files, absl::StrCat(path, ".", random, ".earlier",
                                     io::kTemporarySuffix)),
        scratch_(files, absl::StrCat(path, ".", random, io::kTemporarySuffix)) {
  }

  io::FileSystem& files_;
  const std::string path_;
  const io::ScratchFile earlier_;
  const io::ScratchFile scratch_;
};

absl::StatusOr<std::unique_ptr<store::Dataset>> OpenDataset(
    const PieceMaking& making, const PiecePlan& plan) {
  const std::string& path = making.dataset_path.empty()
                                ? plan.origin.dataset_path
                                : making.dataset_path;
  HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<store::Dataset> dataset,
                          store::Dataset::Open(making.files, path));
  if (dataset->manifest().fingerprint != plan.origin.fingerprint) {
    return absl::FailedPreconditionError(absl::StrCat(
        path, ": has fingerprint ", dataset->manifest().fingerprint,
        ", not that of ", plan.origin.dataset, " in ", plan.path, ", ",
        plan.origin.fingerprint));
  }
  HEARTH_RETURN_IF_ERROR(dataset->ChooseTarget(plan.origin.target));
  return dataset;
}

absl::Status TooLittle(absl::string_view what, uint64_t needed,
                       uint64_t limit) {
  return absl::ResourceExhaustedError(
      absl::StrCat(what, " needs ", FormatByteSize(needed),
                   " of memory; the limit is ", FormatByteSize(limit)));
}

/// Passes of a piece of round 1, with their seeds, and the shards of the piece.
struct PiecePasses {
  std::vector<std::unique_ptr<sample::SeedOrder>> orders;
  std::vector<Pass> passes;
  std::vector<ShardPick> picks;
};

absl::StatusOr<PiecePasses> PassesOf(io::FileSystem& files,
                                     const PiecePlan& plan, int64_t index) {
  PiecePasses out;
  const int64_t begin = plan.first_batch(index);
  const int64_t end = begin + plan.num_batches_of(index);
  for (size_t i = 0; i < plan.passes.size(); ++i) {
    const PassOfPieces& of = plan.passes[i];
    const int64_t first = std::max(begin - of.first_shard, int64_t{0});
    const int64_t last = std::min(end - of.first_shard, of.num_shards);
    if (first >= last) continue;
    HEARTH_ASSIGN_OR_RETURN(std::vector<NodeId> seeds,
                            ReadSeeds(files, plan, i));
    out.orders.push_back(sample::NewSequentialOrder(std::move(seeds)));
    out.passes.push_back(of.pass);
    out.passes.back().order = out.orders.back().get();
    for (int64_t shard = first; shard < last; ++shard) {
      out.picks.push_back({.pass = out.passes.size() - 1, .number = shard});
    }
  }
  return out;
}

/// Memory of sampling by `threads` from neighbor lists in mapped files.
uint64_t SamplingBytes(const store::Dataset& dataset, const PiecePlan& plan,
                       const PiecePasses& passes, int threads) {
  uint64_t bytes = kBaseBytes;
  for (const store::EdgeTypeEntry& type : dataset.manifest().edge_types) {
    bytes += type.indptr.file_size_bytes;
  }
  bytes += dataset.manifest()
               .node_types[dataset.target_type()]
               .labels.file_size_bytes;
  // Of each order: all seeds, their epoch, and one that is read.
  for (const auto& order : passes.orders) {
    bytes += 3 * static_cast<uint64_t>(order->size()) * sizeof(NodeId);
  }
  const auto width = static_cast<uint64_t>(threads);
  return bytes + width * plan.memory.sampler_bytes +
         (width + 3) * plan.memory.sample_bytes;
}

absl::Status MakeSamples(const PieceMaking& making, const PiecePlan& plan,
                         int64_t index, const std::string& folder) {
  HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<store::Dataset> dataset,
                          OpenDataset(making, plan));
  HEARTH_ASSIGN_OR_RETURN(const PiecePasses passes,
                          PassesOf(making.files, plan, index));
  int threads = making.threads;
  while (threads > 1 &&
         SamplingBytes(*dataset, plan, passes, threads) > making.memory_bytes) {
    --threads;
  }
  const uint64_t needed = SamplingBytes(*dataset, plan, passes, threads);
  if (needed > making.memory_bytes) {
    return TooLittle("sampling a piece", needed, making.memory_bytes);
  }
  HEARTH_ASSIGN_OR_RETURN(const store::Labels labels, dataset->LoadLabels());
  HEARTH_ASSIGN_OR_RETURN(
      const OpenedSource opened,
      OpenSource(*dataset, labels, TopologyPlace::kMapped, making.files,
                 io::JoinPath(folder, "slabs"), making.stop));
  return SampleOffline({.files = making.files,
                        .clock = Clock::Real(),
                        .source = opened.source,
                        .samplers = threads,
                        .path = io::JoinPath(folder, kSpoolFile)},
                       passes.passes, passes.picks, making.stop);
}

absl::Status MakePacks(const PieceMaking& making, const PiecePlan& plan,
                       int64_t index, const std::string& folder) {
  io::FileSystem& files = making.files;
  const std::string beside = io::ParentDirectory(plan.path);
  HEARTH_ASSIGN_OR_RETURN(
      const PiecePlan samples,
      ReadPiecePlan(files, io::JoinPath(beside, PiecePlan::kSamplesFile)));
  if (samples.sha256 != plan.samples_sha256) {
    return absl::FailedPreconditionError(absl::StrCat(
        plan.path, ": was not made from the samples of ", samples.path));
  }
  HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<store::Dataset> dataset,
                          OpenDataset(making, plan));
  HEARTH_ASSIGN_OR_RETURN(const PackedLayout layout, ReadLayout(files, plan));
  HEARTH_ASSIGN_OR_RETURN(const MemoryLevels levels, ReadLevels(files, plan));
  const int64_t count = plan.num_batches_of(index);
  HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<SamplePieces> trace,
                          SamplePieces::Open(files, samples, beside,
                                             plan.first_batch(index), count));
  HEARTH_ASSIGN_OR_RETURN(const store::ScannedFeatures features,
                          dataset->ScanFeatures(making.stop));
  const PackPart part = PartOf(plan, layout, index);
  const uint64_t kept =
      kBaseBytes + 2 * layout.index_bytes() +
      static_cast<uint64_t>(levels.num_nodes()) * sizeof(uint32_t) +
      static_cast<uint64_t>(layout.rows.gpu + layout.rows.cpu) * sizeof(NodeId);
  if (kept >= making.memory_bytes) {
    return TooLittle("packing a piece", kept, making.memory_bytes);
  }
  const PackOptions options = {.folder = folder,
                               .plan_id = plan.origin.plan_id,
                               .memory_limit_bytes = making.memory_bytes - kept,
                               .progress = nullptr,
                               .threads = making.threads,
                               .stop = making.stop};
  return PackBatches(files,
                     {.trace = trace.get(),
                      .levels = &levels,
                      .samples = trace.get(),
                      .features = features.file.get(),
                      .rows = features.rows},
                     plan.segmentation, part, LayoutOfPart(part, layout, count),
                     options)
      .status();
}

/// Reads all samples of a piece against their checksums.
absl::Status ReadSamples(io::FileSystem& files, const PiecePlan& plan,
                         const std::string& folder, int64_t index,
                         const std::stop_token& stop) {
  HEARTH_ASSIGN_OR_RETURN(
      const std::unique_ptr<SamplePieces> pieces,
      SamplePieces::Open(files, plan, folder, plan.first_batch(index),
                         plan.num_batches_of(index)));
  std::vector<std::byte> bytes;
  for (int64_t batch = 0; batch < pieces->num_batches(); ++batch) {
    if (stop.stop_requested()) {
      return absl::CancelledError("checking pieces: stopped on request");
    }
    bytes.resize(pieces->sizes()[batch]);
    HEARTH_RETURN_IF_ERROR(pieces->Read(batch, absl::MakeSpan(bytes)));
  }
  return absl::OkStatus();
}

/// The part that piece `index` of round 2 has, for JoinPacks.
PackedPart PartToJoin(const PiecePlan& plan, const PackedLayout& layout,
                      const std::string& folder, int64_t index) {
  const PackPart part = PartOf(plan, layout, index);
  return {.folder = FolderOfPiece(plan, folder, index),
          .part = part,
          .num_batches = plan.num_batches_of(index)};
}

}  // namespace

absl::Status MakePlanPiece(const PieceMaking& making, const PiecePlan& plan,
                           int64_t index, const std::string& folder) {
  if (index < 0 || index >= plan.num_pieces()) {
    return absl::InvalidArgumentError(
        absl::StrCat(plan.path, ": has pieces 0 .. ", plan.num_pieces() - 1,
                     ", no piece ", index));
  }
  HEARTH_ASSIGN_OR_RETURN(
      const std::unique_ptr<PieceFolder> piece,
      PieceFolder::Create(making.files, plan, index, folder));
  HEARTH_RETURN_IF_ERROR(
      plan.round == PiecePlan::Round::kSamples
          ? MakeSamples(making, plan, index, piece->scratch())
          : MakePacks(making, plan, index, piece->scratch()));
  return piece->Finish(plan, index);
}

absl::StatusOr<std::vector<MissingPlanPiece>> FindMissingPlanPieces(
    io::FileSystem& files, const PiecePlan& plan, const std::string& folder,
    bool read_all, const std::stop_token& stop) {
  std::vector<MissingPlanPiece> missing;
  std::optional<PackedLayout> layout;
  if (read_all && plan.round == PiecePlan::Round::kPacks) {
    HEARTH_ASSIGN_OR_RETURN(layout, ReadLayout(files, plan));
  }
  for (int64_t index = 0; index < plan.num_pieces(); ++index) {
    absl::Status status =
        CheckPieceFile(files, plan, index, FolderOfPiece(plan, folder, index));
    if (status.ok() && read_all) {
      status = layout.has_value()
                   ? CheckPart(files, PartToJoin(plan, *layout, folder, index),
                               *layout, stop)
                   : ReadSamples(files, plan, folder, index, stop);
    }
    if (absl::IsNotFound(status) || absl::IsDataLoss(status) ||
        absl::IsFailedPrecondition(status)) {
      missing.push_back({index, ToBeMade(status, plan, index)});
      continue;
    }
    HEARTH_RETURN_IF_ERROR(status);
  }
  return missing;
}

absl::StatusOr<std::unique_ptr<SamplePieces>> SamplePieces::Open(
    io::FileSystem& files, const PiecePlan& plan, const std::string& folder,
    int64_t first, int64_t count) {
  std::unique_ptr<SamplePieces> pieces(new SamplePieces(plan));
  for (int64_t index = 0; index < plan.num_pieces(); ++index) {
    const int64_t begin = plan.first_batch(index) - first;
    const int64_t end = begin + plan.num_batches_of(index);
    if (begin >= count || end <= 0 || begin == end) continue;
    const std::string path = FolderOfPiece(plan, folder, index);
    const absl::Status status = CheckPieceFile(files, plan, index, path);
    if (!status.ok()) return ToBeMade(status, plan, index);
    absl::StatusOr<std::unique_ptr<SampleSpool>> spool =
        SampleSpool::Open(files, io::JoinPath(path, kSpoolFile));
    if (!spool.ok()) return ToBeMade(spool.status(), plan, index);
    if ((*spool)->num_batches() != end - begin) {
      return ToBeMade(absl::DataLossError(
                          absl::StrCat(path, ": has ", (*spool)->num_batches(),
                                       " batches, not ", end - begin)),
                      plan, index);
    }
    for (int64_t batch = std::max<int64_t>(begin, 0);
         batch < std::min(end, count); ++batch) {
      pieces->sizes_.push_back((*spool)->sizes()[batch - begin]);
    }
    pieces->pieces_.push_back(
        {.index = index, .begin = begin, .spool = *std::move(spool)});
  }
  return pieces;
}

SamplePieces::Piece& SamplePieces::PieceOf(int64_t batch) {
  const auto behind = std::upper_bound(
      pieces_.begin(), pieces_.end(), batch,
      [](int64_t wanted, const Piece& piece) { return wanted < piece.begin; });
  return *(behind - 1);
}

absl::Status SamplePieces::Told(const absl::Status& status,
                                const Piece& piece) const {
  return absl::IsDataLoss(status) ? ToBeMade(status, plan_, piece.index)
                                  : status;
}

absl::StatusOr<absl::Span<const NodeId>> SamplePieces::Load(int64_t batch) {
  Piece& piece = PieceOf(batch);
  absl::StatusOr<absl::Span<const NodeId>> nodes =
      piece.spool->Load(batch - piece.begin);
  if (!nodes.ok()) return Told(nodes.status(), piece);
  return nodes;
}

absl::Status SamplePieces::Read(int64_t batch, absl::Span<std::byte> out) {
  Piece& piece = PieceOf(batch);
  return Told(piece.spool->Read(batch - piece.begin, out), piece);
}

absl::StatusOr<PackedLayout> JoinPackPieces(const PieceJoin& join,
                                            const PiecePlan& plan) {
  HEARTH_ASSIGN_OR_RETURN(PackedLayout layout, ReadLayout(join.files, plan));
  std::vector<PackedPart> parts;
  for (int64_t index = 0; index < plan.num_pieces(); ++index) {
    const absl::Status status = CheckPieceFile(
        join.files, plan, index, FolderOfPiece(plan, join.from, index));
    if (!status.ok()) return ToBeMade(status, plan, index);
    parts.push_back(PartToJoin(plan, layout, join.from, index));
  }
  return JoinPacks(join.files, parts, std::move(layout),
                   {.folder = join.folder,
                    .threads = join.threads,
                    .progress = join.progress,
                    .stop = join.stop});
}

}  // namespace hearth::strategy
