#include "engine/strategy/foresight/generation.h"

#include <algorithm>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "engine/base/byte_size.h"
#include "engine/base/sha256.h"
#include "engine/base/status.h"
#include "engine/base/thread_team.h"
#include "engine/io/aligned_memory.h"
#include "engine/plan/access_trace.h"
#include "engine/plan/plan_records.h"
#include "engine/sample/dispatch_spool.h"
#include "engine/strategy/packing/append_rows.h"
#include "engine/strategy/packing/feature_scan.h"
#include "engine/strategy/packing/offline_sampling.h"
#include "engine/strategy/packing/pass_digest.h"
#include "engine/strategy/packing/plan_key.h"
#include "engine/strategy/packing/region_writer.h"
#include "engine/strategy/sampling.h"

namespace hearth::strategy {

namespace {

using plan::OptimalCache;
using plan::PlanLease;
using store::NodeId;

constexpr char kPlans[] = "foresight";
constexpr char kSamplesFile[] = "samples";
constexpr char kSlabsFolder[] = "slabs";
// Scratch files of planning and of packing.
constexpr char kNextUsesFile[] = "next_uses.tmp";
constexpr char kDispatchFile[] = "dispatch.tmp";
// The version of names, and of how plans are made; files have versions of their
// own.
constexpr char kFormat[] = "hearth foresight plan 2";
// Batches of the smallest generation whose rows are packed.
constexpr int64_t kLeastBatches = 8;
// Bytes of a partition of the features, of which three are in memory; bytes of
// the blocks that dispatch rows to them, in all, and of one.
constexpr uint64_t kPartitionBytes = uint64_t{32} << 20;
constexpr uint64_t kBlocksBytes = uint64_t{32} << 20;
constexpr uint64_t kMostBlockBytes = uint64_t{1} << 20;
constexpr int kMostWorkers = 16;

// The division of memory for packing.
struct PackDivision {
  int64_t partition_nodes = 0;
  int64_t num_partitions = 0;
  uint64_t block_bytes = 0;
  int workers = 1;

  static PackDivision Of(int64_t num_nodes, int64_t row_bytes, int threads) {
    PackDivision division;
    division.partition_nodes =
        std::clamp<int64_t>(static_cast<int64_t>(kPartitionBytes) / row_bytes,
                            1, std::max<int64_t>(num_nodes, 1));
    division.num_partitions =
        (num_nodes + division.partition_nodes - 1) / division.partition_nodes;
    division.workers = std::clamp(threads, 1, kMostWorkers);
    const uint64_t blocks =
        static_cast<uint64_t>(division.num_partitions + 1 + division.workers);
    division.block_bytes =
        std::clamp(kBlocksBytes / blocks / kPageBytes * kPageBytes, kPageBytes,
                   kMostBlockBytes);
    return division;
  }

  uint64_t MemoryBytes(int64_t row_bytes, int64_t num_shards) const {
    const auto threads = static_cast<uint64_t>(workers);
    return static_cast<uint64_t>(FeatureScan::kPartitionsHeld) *
               (static_cast<uint64_t>(partition_nodes * row_bytes) +
                2 * kPageBytes) +
           (static_cast<uint64_t>(num_partitions) + 1 + threads) * block_bytes +
           threads * RegionWriter::kStagingBytes +
           static_cast<uint64_t>(num_shards) * RegionWriter::kBytesPerRegion;
  }
};

// Adds the time from its construction to its destruction to a report, as a
// phase.
class PhaseTimer {
 public:
  PhaseTimer(const Clock& clock, const char* name, PreparationReport& report)
      : clock_(clock),
        start_(clock.SteadySeconds()),
        name_(name),
        report_(report) {}
  ~PhaseTimer() { report_.phases.push_back({name_, seconds()}); }
  PhaseTimer(const PhaseTimer&) = delete;
  PhaseTimer& operator=(const PhaseTimer&) = delete;

  double seconds() const { return clock_.SteadySeconds() - start_; }

 private:
  const Clock& clock_;
  const double start_;
  const char* const name_;
  PreparationReport& report_;
};

// The shards of a span as a trace, from the samples of their passes.
class SpanTrace final : public plan::AccessTrace {
 public:
  SpanTrace(const Timeline& timeline, const GenerationSpan& span,
            const std::map<size_t, std::shared_ptr<PassSamples>>& samples)
      : timeline_(timeline), span_(span), samples_(samples) {}

  int64_t num_batches() const override { return span_.look_end - span_.begin; }

  absl::StatusOr<absl::Span<const NodeId>> Load(int64_t batch) override {
    const Timeline::Place place = timeline_.At(span_.begin + batch);
    return samples_.at(place.pass)->trace->Load(place.shard);
  }

 private:
  const Timeline& timeline_;
  const GenerationSpan& span_;
  const std::map<size_t, std::shared_ptr<PassSamples>>& samples_;
};

}  // namespace

uint64_t MakingBytes(int64_t num_nodes, int64_t num_slots, int64_t row_bytes,
                     int64_t largest_batch, int64_t num_shards, int samplers) {
  return std::max(OptimalCache::MemoryBytes(num_nodes, num_slots, largest_batch,
                                            num_shards),
                  PackDivision::Of(num_nodes, row_bytes, samplers)
                      .MemoryBytes(row_bytes, num_shards));
}

absl::Status Generation::Checked(absl::Status status, size_t pass) const {
  if (!absl::IsDataLoss(status)) return status;
  // If this fails, the next reader finds the damage again.
  lease_.records().WriteDamage(status.message()).IgnoreError();
  samples_.at(pass)
      ->lease.records()
      .WriteDamage(status.message())
      .IgnoreError();
  return status;
}

// What the attempts to make a generation work with.
struct GenerationMaker::Attempt {
  const PreparationListener& listener;
  const std::stop_token& stop;
  PreparationReport report = {};

  void Log(const std::string& line) const {
    if (listener.log) listener.log(line);
  }
  std::function<void(uint64_t done, uint64_t total)> Progress(
      const char* phase) const {
    return [this, phase](uint64_t done, uint64_t total) {
      if (listener.progress) listener.progress(phase, done, total);
    };
  }
};

absl::StatusOr<GenerationMaker::Made> GenerationMaker::MakeNext(
    RowSlots* fill, const PreparationListener& listener,
    const std::stop_token& stop) {
  Attempt attempt = {.listener = listener, .stop = stop};
  const double start = context_.clock.SteadySeconds();
  GenerationSpan span = timeline_.GenerationAt(end_, timeline_.size());
  // Whole passes are sampled: a smaller generation needs no fewer samples.
  HEARTH_RETURN_IF_ERROR(TakeSamples(span, attempt));
  const Timeline::Place place = timeline_.At(end_);
  const int64_t shards = timeline_.passes()[place.pass].shards;
  bool may_pack = true;
  bool again = false;
  for (;;) {
    absl::StatusOr<Made> made = Make(span, may_pack, fill, attempt);
    if (made.ok()) {
      end_ = span.end;
      last_ = made->generation;
      made->report.seconds = context_.clock.SteadySeconds() - start;
      return made;
    }
    if (absl::IsDataLoss(made.status()) && samples_.empty() && !again) {
      attempt.Log(absl::StrCat("sampling again: ", made.status().message()));
      HEARTH_RETURN_IF_ERROR(TakeSamples(span, attempt));
      again = true;
      continue;
    }
    if (!absl::IsResourceExhausted(made.status()) || !may_pack) return made;
    const int64_t batches = (span.end - span.begin) / shards;
    if (batches > kLeastBatches) {
      span = timeline_.GenerationAt(
          end_, std::max(kLeastBatches, batches / 2) * shards);
      attempt.Log(absl::StrCat("preparing ", (span.end - span.begin) / shards,
                               " batches instead of ", batches, ": ",
                               made.status().message()));
    } else {
      may_pack = false;
      attempt.Log(absl::StrCat("rows are read directly, not packed: ",
                               made.status().message()));
    }
  }
}

absl::StatusOr<GenerationMaker::Made> GenerationMaker::Make(
    const GenerationSpan& span, bool may_pack, RowSlots* fill,
    Attempt& attempt) {
  const PlanKey key = KeyOf(span);
  HEARTH_ASSIGN_OR_RETURN(PlanLease lease,
                          context_.plans.Take(key.name, attempt.stop));
  auto reader = Find(lease, key.id);
  attempt.report.plan = key.name;
  attempt.report.reused = reader.ok();
  if (reader.ok()) {
    slots_ = {};
    attempt.Log(absl::StrCat("plan ", key.name, " reused"));
  } else {
    if (!absl::IsNotFound(reader.status())) {
      if (!absl::IsDataLoss(reader.status())) return reader.status();
      attempt.Log(absl::StrCat(
          "plan ", key.name,
          " is removed and made again: ", reader.status().message()));
    }
    HEARTH_RETURN_IF_ERROR(lease.Clear());
    GenerationIndex index;
    index.plan_id = key.id;
    index.row_bytes = context_.rows.row_bytes;
    absl::Status status = Plan(span, lease.folder(), attempt, index);
    if (absl::IsDataLoss(status)) {
      DropSamples(status);
    } else if (status.ok()) {
      status = Pack(span, lease, may_pack, fill, attempt, index);
    }
    if (!status.ok()) {
      slots_ = {};
      lease.Clear().IgnoreError();
      return status;
    }
    reader = GenerationReader::Open(context_.files, lease.folder(), index);
    HEARTH_RETURN_IF_ERROR(reader.status());
  }
  const GenerationIndex& index = (*reader)->index();
  attempt.report.disk_bytes = index.DiskBytes() + plan::PlanStore::kRecordBytes;
  attempt.report.reason = absl::StrFormat(
      "%d shards, %s; %d of %d rows are read, at most %d more than by an "
      "optimal cache",
      span.end - span.begin, Name(index.fetching), index.totals.misses,
      index.totals.accesses, index.totals.uncertified);
  if (!attempt.report.reused) {
    HEARTH_RETURN_IF_ERROR(
        lease.Publish({{"dataset", context_.dataset.manifest().name},
                       {"shards", absl::StrCat(span.end - span.begin)},
                       {"rows in memory", absl::StrCat(index.num_slots)},
                       {"rows read", absl::StrCat(index.totals.misses)},
                       {"rows needed", absl::StrCat(index.totals.accesses)},
                       {"fetching", Name(index.fetching)}}));
    if (attempt.listener.durable) attempt.listener.durable();
    attempt.Log(absl::StrCat(
        "plan ", key.name, " made: ", attempt.report.reason, "; ",
        absl::StrJoin(attempt.report.phases, ", ",
                      [](std::string* out, const PhaseSeconds& phase) {
                        absl::StrAppendFormat(out, "%s %.1f s", phase.name,
                                              phase.seconds);
                      })));
  }
  HEARTH_RETURN_IF_ERROR(lease.Share());
  attempt.report.more = span.end < timeline_.size();
  std::map<size_t, std::shared_ptr<PassSamples>> samples;
  for (int64_t at = span.begin; at < span.end;) {
    const Timeline::Place place = timeline_.At(at);
    samples[place.pass] = samples_.at(place.pass);
    at += samples_.at(place.pass)->spool->num_batches() - place.shard;
  }
  return Made{
      .generation = std::make_shared<Generation>(
          span, std::move(lease), *std::move(reader), std::move(samples)),
      .report = std::move(attempt.report)};
}

absl::Status GenerationMaker::TakeSamples(const GenerationSpan& span,
                                          Attempt& attempt) {
  for (int64_t at = span.begin; at < span.look_end;) {
    const Timeline::Place place = timeline_.At(at);
    std::shared_ptr<PassSamples>& samples = samples_[place.pass];
    if (samples == nullptr) {
      HEARTH_ASSIGN_OR_RETURN(samples, SamplesOfPass(place.pass, attempt));
    }
    at += samples->spool->num_batches() - place.shard;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<PassSamples>> GenerationMaker::SamplesOfPass(
    size_t index, Attempt& attempt) {
  Pass pass = timeline_.passes()[index];
  pass.first_batch = 0;
  const std::vector<NodeId> seeds = SeedsOf(pass);
  Sha256 hash;
  hash.AddField(kFormat, "samples");
  hash.AddField(context_.dataset.manifest().fingerprint);
  hash.AddField(DigestOfPass(pass, seeds));
  HEARTH_ASSIGN_OR_RETURN(
      PlanLease lease,
      context_.plans.Take(
          PlanKeyOf(kPlans, context_.dataset.manifest().fingerprint, hash).name,
          attempt.stop));
  const std::string path = io::JoinPath(lease.folder(), kSamplesFile);
  const auto open = [&]() -> absl::StatusOr<std::unique_ptr<SampleSpool>> {
    HEARTH_RETURN_IF_ERROR(lease.records().CheckUndamaged());
    return SampleSpool::Open(context_.files, path);
  };
  absl::StatusOr<std::unique_ptr<SampleSpool>> spool = open();
  const int64_t num_shards = ShardsOf(pass, std::ssize(seeds)).count;
  if (!spool.ok() || (*spool)->num_batches() != num_shards) {
    if (!spool.ok() && !absl::IsNotFound(spool.status()) &&
        !absl::IsDataLoss(spool.status())) {
      return spool.status();
    }
    HEARTH_RETURN_IF_ERROR(lease.Clear());
    const PhaseTimer timer(context_.clock, "sampling", attempt.report);
    HEARTH_ASSIGN_OR_RETURN(
        const std::shared_ptr<const OpenedSource> opened,
        context_.open_source(io::JoinPath(lease.folder(), kSlabsFolder),
                             attempt.stop));
    const Pass passes[] = {pass};
    HEARTH_RETURN_IF_ERROR(SampleOffline(
        {.files = context_.files,
         .clock = context_.clock,
         .source = opened->source,
         .samplers = context_.samplers,
         .path = path,
         .reserve = [&](uint64_t bytes) { return lease.MakeRoom(bytes); },
         .progress = attempt.Progress("sampling")},
        passes, attempt.stop));
    HEARTH_RETURN_IF_ERROR(
        lease.Publish({{"dataset", context_.dataset.manifest().name},
                       DescribeSampler(pass.sampler),
                       {"batch size", absl::StrCat(pass.batch_size)},
                       {"data seed", absl::StrCat(pass.sampler.data_seed)},
                       {"samples", absl::StrCat(num_shards)}}));
    spool = open();
    HEARTH_RETURN_IF_ERROR(spool.status());
  }
  HEARTH_RETURN_IF_ERROR(lease.Share());
  HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<SampleSpool> trace,
                          SampleSpool::Open(context_.files, path));
  return std::make_shared<PassSamples>(PassSamples{.lease = std::move(lease),
                                                   .spool = *std::move(spool),
                                                   .trace = std::move(trace)});
}

// The key of the plan of a span, by everything that it depends on.
PlanKey GenerationMaker::KeyOf(const GenerationSpan& span) const {
  Sha256 hash;
  hash.AddField(kFormat, "generation");
  hash.AddField(context_.dataset.manifest().fingerprint);
  hash.AddField(context_.rows.row_bytes, ",", context_.num_slots, ",",
                ReuseDistance(timeline_));
  // The slots at the beginning follow from the generation before.
  hash.AddField(span.fills ? "filled" : last_->name());
  for (int64_t at = span.begin; at < span.look_end;) {
    const Timeline::Place place = timeline_.At(at);
    const PassSamples& samples = *samples_.at(place.pass);
    const int64_t count = std::min(samples.spool->num_batches() - place.shard,
                                   span.look_end - at);
    hash.AddField(samples.lease.name(), ",", place.shard, ",", count);
    at += count;
  }
  hash.AddField(span.end - span.begin, ",", span.look_end == timeline_.size());
  return PlanKeyOf(kPlans, context_.dataset.manifest().fingerprint, hash);
}

absl::StatusOr<std::unique_ptr<GenerationReader>> GenerationMaker::Find(
    const PlanLease& lease, uint64_t plan_id) const {
  HEARTH_RETURN_IF_ERROR(lease.records().CheckUndamaged());
  HEARTH_ASSIGN_OR_RETURN(GenerationIndex index,
                          ReadIndex(context_.files, lease.folder(), plan_id));
  return GenerationReader::Open(context_.files, lease.folder(),
                                std::move(index));
}

absl::Status GenerationMaker::Plan(const GenerationSpan& span,
                                   const std::string& folder, Attempt& attempt,
                                   GenerationIndex& index) {
  const PhaseTimer timer(context_.clock, "planning", attempt.report);
  const OptimalCache::Options options = {
      .num_nodes = context_.rows.num_rows,
      .num_slots = context_.num_slots,
      .reuse_distance = ReuseDistance(timeline_),
      .scratch_path = io::JoinPath(folder, kNextUsesFile)};
  if (span.fills) {
    slots_ = OptimalCache::FreeSlots(options);
  } else if (slots_.nodes.empty()) {
    // The last generation was found, not planned.
    HEARTH_ASSIGN_OR_RETURN(
        slots_,
        last_->reader().StateBefore(std::ssize(last_->reader().index().shards),
                                    options.reuse_distance));
  }
  HEARTH_ASSIGN_OR_RETURN(
      const std::unique_ptr<ShardPlanWriter> writer,
      ShardPlanWriter::Create(context_.files, folder, slots_));
  SpanTrace trace(timeline_, span, samples_);
  HEARTH_ASSIGN_OR_RETURN(
      index.totals,
      OptimalCache::Plan(context_.files, trace, span.end - span.begin,
                         span.look_end == timeline_.size(), span.fills, options,
                         slots_, *writer, attempt.stop));
  return writer->Finish(index);
}

uint64_t GenerationMaker::SampleBytes() const {
  uint64_t bytes = 0;
  for (const auto& [pass, samples] : samples_) {
    for (const uint64_t size : samples->spool->sizes()) bytes += size;
  }
  return bytes;
}

// Chooses how rows are fetched, packs them if that is cheaper, and writes the
// index.
absl::Status GenerationMaker::Pack(const GenerationSpan& span, PlanLease& lease,
                                   bool may_pack, RowSlots* fill,
                                   Attempt& attempt, GenerationIndex& index) {
  index.fetching = Fetching::kDirect;
  HEARTH_RETURN_IF_ERROR(
      lease.MakeRoom(index.DiskBytes() + plan::PlanStore::kRecordBytes));
  const FetchNeed need = {
      .feature_bytes = static_cast<uint64_t>(context_.rows.num_rows) *
                       context_.rows.row_bytes,
      .rows = index.totals.misses + index.totals.filled,
      .row_bytes = context_.rows.row_bytes};
  if (may_pack && index.totals.misses > 0 &&
      context_.prices.Choose(need) == Fetching::kPacked) {
    HEARTH_ASSIGN_OR_RETURN(
        const std::unique_ptr<GenerationReader> reader,
        GenerationReader::Open(context_.files, lease.folder(), index));
    index.fetching = Fetching::kPacked;
    const uint64_t bytes = index.DiskBytes();
    // Two generations are on disk at a time.
    const uint64_t samples = SampleBytes();
    if (context_.disk_limit_bytes > 0 &&
        samples + 2 * bytes > context_.disk_limit_bytes) {
      return absl::ResourceExhaustedError(
          absl::StrCat("disk limit: ", span.end - span.begin, " shards take ",
                       FormatByteSize(bytes), ", twice, and samples ",
                       FormatByteSize(samples), "; the limit is ",
                       FormatByteSize(context_.disk_limit_bytes)));
    }
    HEARTH_RETURN_IF_ERROR(lease.MakeRoom(index.Packs().back().end()));
    const PhaseTimer timer(context_.clock, "packing", attempt.report);
    HEARTH_RETURN_IF_ERROR(Scan(lease.folder(), *reader,
                                span.fills ? fill : nullptr, attempt, index));
    // Reading the packs is not among what was measured; both are as fast.
    context_.prices.Correct(Fetching::kPacked,
                            context_.prices.Seconds(Fetching::kPacked, need),
                            timer.seconds());
  }
  return WriteIndex(context_.files, lease.folder(), index);
}

absl::Status GenerationMaker::Scan(const std::string& folder,
                                   const GenerationReader& reader,
                                   RowSlots* fill, Attempt& attempt,
                                   GenerationIndex& index) {
  const auto row_bytes = static_cast<int64_t>(context_.rows.row_bytes);
  const PackDivision division =
      PackDivision::Of(context_.rows.num_rows, row_bytes, context_.samplers);
  HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<ThreadTeam> team,
                          ThreadTeam::Create(division.workers));
  HEARTH_ASSIGN_OR_RETURN(
      const std::unique_ptr<sample::DispatchSpool> dispatch,
      sample::DispatchSpool::Create(
          context_.files, io::JoinPath(folder, kDispatchFile),
          {.num_partitions = division.num_partitions,
           .partition_nodes = division.partition_nodes,
           .block_bytes = division.block_bytes}));
  cache::AlignedBuffer buffer;
  std::vector<NodeId> nodes;
  for (int64_t shard = 0; shard < std::ssize(index.shards); ++shard) {
    HEARTH_RETURN_IF_ERROR(buffer.Resize(reader.PlanMemory(shard)));
    HEARTH_ASSIGN_OR_RETURN(
        const ShardPlan plan,
        reader.ReadPlan(shard, absl::MakeSpan(buffer.data(), buffer.size())));
    nodes.assign(plan.reads.begin(), plan.reads.end());
    HEARTH_RETURN_IF_ERROR(dispatch->Add(static_cast<uint32_t>(shard), nodes));
  }
  HEARTH_RETURN_IF_ERROR(dispatch->EndAdding(team->size()));
  // Rows that the cache holds at the beginning, by node.
  std::vector<RowSlots::Placed> filled;
  if (fill != nullptr) {
    HEARTH_ASSIGN_OR_RETURN(const plan::CacheSlots state,
                            reader.StateBefore(0, ReuseDistance(timeline_)));
    for (size_t slot = 0; slot < state.nodes.size(); ++slot) {
      if (state.nodes[slot] == RowSlots::kFree) continue;
      filled.push_back({state.nodes[slot], static_cast<uint32_t>(slot)});
    }
    std::sort(filled.begin(), filled.end(),
              [](const auto& a, const auto& b) { return a.node < b.node; });
  }
  HEARTH_ASSIGN_OR_RETURN(
      const std::unique_ptr<io::WritableFile> packs,
      context_.files.CreateUncached(io::JoinPath(folder, kShardPacksFile)));
  HEARTH_RETURN_IF_ERROR(packs->Allocate(index.Packs().back().end()));
  HEARTH_ASSIGN_OR_RETURN(
      RegionWriter writer,
      RegionWriter::Make(*packs, index.Packs(), team->size()));
  HEARTH_ASSIGN_OR_RETURN(const store::ScannedFeatures features,
                          context_.dataset.ScanFeatures(attempt.stop));
  HEARTH_ASSIGN_OR_RETURN(FeatureScan scan,
                          FeatureScan::Make(*features.file, features.rows,
                                            division.partition_nodes));
  const auto progress = attempt.Progress("packing");
  const auto workers = static_cast<uint32_t>(team->size());
  size_t next_filled = 0;
  HEARTH_RETURN_IF_ERROR(scan.Run(
      [&](const FeatureScan::Partition& partition) -> absl::Status {
        const int64_t end = partition.first + partition.num_rows;
        const size_t first_filled = next_filled;
        while (next_filled < filled.size() && filled[next_filled].node < end) {
          ++next_filled;
        }
        HEARTH_RETURN_IF_ERROR(
            team->TryRun(team->size() + 1, [&](int64_t part) -> absl::Status {
              if (part == team->size()) {
                for (size_t i = first_filled; i < next_filled; ++i) {
                  fill->Put(filled[i].node, filled[i].slot,
                            partition.rows +
                                (filled[i].node - partition.first) * row_bytes);
                }
                return absl::OkStatus();
              }
              const auto worker = static_cast<int>(part);
              return dispatch->ForEach(
                  partition.index,
                  [&](uint32_t shard, absl::Span<const uint32_t> rows) {
                    // Each pack has one worker, so that its rows stay in order.
                    if (shard % workers != static_cast<uint32_t>(worker)) {
                      return absl::OkStatus();
                    }
                    return AppendRows(partition, rows, row_bytes, shard, writer,
                                      worker);
                  },
                  worker);
            }));
        progress(static_cast<uint64_t>(end * row_bytes),
                 static_cast<uint64_t>(features.rows.num_rows * row_bytes));
        return absl::OkStatus();
      },
      context_.clock, attempt.stop));
  HEARTH_RETURN_IF_ERROR(writer.CheckFull());
  HEARTH_RETURN_IF_ERROR(packs->Sync());
  HEARTH_RETURN_IF_ERROR(packs->Close());
  for (int64_t shard = 0; shard < std::ssize(index.shards); ++shard) {
    index.shards[shard].pack_crc = writer.crc(shard);
  }
  return absl::OkStatus();
}

// Drops all samples, of which some are damaged: they are sampled again.
void GenerationMaker::DropSamples(const absl::Status& damage) {
  for (const auto& [pass, samples] : samples_) {
    samples->lease.records().WriteDamage(damage.message()).IgnoreError();
  }
  samples_.clear();
}

void GenerationMaker::Forget(int64_t position) {
  std::erase_if(samples_, [&](const auto& entry) {
    return !timeline_.Comes(entry.first, position);
  });
}

}  // namespace hearth::strategy
