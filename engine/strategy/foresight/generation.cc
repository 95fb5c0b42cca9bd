#include "engine/strategy/foresight/generation.h"

#include <algorithm>
#include <cstring>
#include <functional>
#include <optional>
#include <system_error>
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
#include "engine/store/remote_rows.h"
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
constexpr char kFormat[] = "hearth foresight plan 3";
// Batches of the smallest generation whose rows are packed.
constexpr int64_t kLeastBatches = 8;
// Bytes of a partition of the features, of which three are in memory, of all
// blocks that dispatch rows to partitions, and of all blocks of packs: this
// share of the features, and within these bounds. Memory takes time to get, and
// the cache lacks it.
constexpr uint64_t kPartitions = 128;
constexpr uint64_t kLeastPartitionBytes = uint64_t{4} << 20;
constexpr uint64_t kMostPartitionBytes = uint64_t{32} << 20;
constexpr uint64_t kMostBlockBytes = uint64_t{1} << 20;
constexpr int kMostWorkers = 16;
// All blocks of packs, by this share, where the memory of shards is free: they
// are those of more shards then, and larger blocks are written faster.
constexpr uint64_t kPackShareApart = 4;

// The division of memory for packing.
struct PackDivision {
  int64_t partition_nodes = 0;
  int64_t num_partitions = 0;
  uint64_t block_bytes = 0;
  int workers = 1;
  uint64_t pack_bytes = 0;

  static PackDivision Of(int64_t num_nodes, int64_t row_bytes, int threads,
                         bool apart) {
    PackDivision division;
    const auto features = static_cast<uint64_t>(num_nodes * row_bytes);
    const uint64_t bytes = std::clamp(
        features / kPartitions, kLeastPartitionBytes, kMostPartitionBytes);
    const uint64_t share = apart ? kPackShareApart : 1;
    division.partition_nodes =
        std::clamp<int64_t>(static_cast<int64_t>(bytes) / row_bytes, 1,
                            std::max<int64_t>(num_nodes, 1));
    division.num_partitions =
        (num_nodes + division.partition_nodes - 1) / division.partition_nodes;
    division.workers = std::clamp(threads, 1, kMostWorkers);
    division.pack_bytes =
        std::clamp(share * features / kPartitions, kLeastPartitionBytes,
                   share * kMostPartitionBytes);
    const uint64_t blocks =
        static_cast<uint64_t>(division.num_partitions + 1 + division.workers);
    division.block_bytes = std::clamp(bytes / blocks / kPageBytes * kPageBytes,
                                      kPageBytes, kMostBlockBytes);
    return division;
  }

  // Bytes of a block of one of `num_shards` packs.
  uint64_t PackBlockBytes(int64_t num_shards) const {
    const auto shards = static_cast<uint64_t>(std::max<int64_t>(num_shards, 1));
    return std::clamp(pack_bytes / shards / kPageBytes * kPageBytes, kPageBytes,
                      RegionWriter::kMostBlockBytes);
  }

  uint64_t MemoryBytes(int64_t row_bytes, int64_t num_shards) const {
    const auto threads = static_cast<uint64_t>(workers);
    return static_cast<uint64_t>(FeatureScan::kPartitionsHeld) *
               (static_cast<uint64_t>(partition_nodes * row_bytes) +
                2 * kPageBytes) +
           (static_cast<uint64_t>(num_partitions) + 1 + threads) * block_bytes +
           threads * RegionWriter::kStagingBytes +
           std::max(pack_bytes,
                    static_cast<uint64_t>(num_shards) * kPageBytes) +
           static_cast<uint64_t>(num_shards) * RegionWriter::BytesPerRegion(0);
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

  int64_t num_batches() const override {
    return span_.look_end - span_.plan_begin;
  }

  absl::StatusOr<absl::Span<const NodeId>> Load(int64_t batch) override {
    const Timeline::Place place = timeline_.At(span_.plan_begin + batch);
    return samples_.at(place.pass)->trace->Load(place.shard);
  }

 private:
  const Timeline& timeline_;
  const GenerationSpan& span_;
  const std::map<size_t, std::shared_ptr<PassSamples>>& samples_;
};

int64_t RowsFetched(const GenerationIndex& index) {
  return index.totals.misses + index.totals.filled + index.RefillRows();
}

}  // namespace

uint64_t PackingBytes(int64_t num_nodes, int64_t row_bytes, int samplers,
                      bool apart) {
  return PackDivision::Of(num_nodes, row_bytes, samplers, apart)
      .MemoryBytes(row_bytes, /*num_shards=*/0);
}

uint64_t MakingBytes(int64_t num_nodes, int64_t num_slots, int64_t row_bytes,
                     int64_t largest_batch, int64_t num_shards, int samplers,
                     bool apart) {
  const uint64_t planning = OptimalCache::MemoryBytes(
      num_nodes, num_slots, largest_batch, num_shards);
  const uint64_t packing =
      PackDivision::Of(num_nodes, row_bytes, samplers, apart)
          .MemoryBytes(row_bytes, num_shards);
  return apart ? std::max(planning, packing) : planning + packing;
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
  // As Demand::is_awaited.
  bool is_awaited = false;
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

// A generation whose slots are planned, or that was found whole.
struct GenerationMaker::Planned {
  GenerationSpan span;
  PlanKey key;
  PlanLease lease;
  // Null unless the plan was found whole.
  std::unique_ptr<GenerationReader> found = nullptr;
  GenerationIndex index = {};
  // Behind the generation; none if the plan was found.
  plan::CacheSlots slots = {};
  // [slots] the node in each slot before it, if it begins passes that come
  // again.
  std::vector<uint32_t> first_nodes = {};
};

// Works on the generation behind the one that is packed: on a thread of its
// own, while the disk is busy and processors are not. It is an attempt: where
// it fails, the work is done again, or fails again, when its turn comes.
struct GenerationMaker::Ahead {
  GenerationSpan span = {};
  // Name of the plan of the generation before, and the slots behind it.
  std::string before = {};
  plan::CacheSlots slots = {};
  SamplesByPass samples = {};
  absl::StatusOr<Planned> planned = absl::UnavailableError("not planned");
  PreparationReport report = {};
  // None where an earlier run has done the work.
  std::jthread thread = {};
};

GenerationMaker::GenerationMaker(const ForesightContext& context,
                                 const Timeline& timeline)
    : context_(context), timeline_(timeline) {}

GenerationMaker::~GenerationMaker() { DropAhead(); }

absl::StatusOr<GenerationMaker::Made> GenerationMaker::MakeNext(
    const Demand& demand, RowSlots* fill, const PreparationListener& listener,
    const std::stop_token& stop) {
  Attempt attempt = {
      .listener = listener, .stop = stop, .is_awaited = demand.is_awaited};
  const double start = context_.clock.SteadySeconds();
  GenerationSpan span = timeline_.GenerationAt(end_, timeline_.size());
  absl::StatusOr<Planned> planned = TakeAhead(attempt);
  std::erase_if(samples_, [&](const auto& entry) {
    return !timeline_.Comes(entry.first, demand.position);
  });
  HEARTH_RETURN_IF_ERROR(TakeSamples(span, samples_, attempt));
  const Timeline::Place place = timeline_.At(end_);
  const int64_t shards = timeline_.passes()[place.pass].shards;
  bool may_pack = true;
  bool again = false;
  for (;;) {
    if (!planned.ok()) planned = PlanNext(span, attempt);
    absl::StatusOr<Made> made =
        planned.ok() ? Make(*std::move(planned), may_pack, fill, attempt)
                     : planned.status();
    if (made.ok()) {
      end_ = span.end;
      last_ = made->generation;
      made->report.seconds = context_.clock.SteadySeconds() - start;
      return made;
    }
    planned = made.status();
    DropAhead();
    if (absl::IsDataLoss(made.status()) && samples_.empty() && !again) {
      attempt.Log(absl::StrCat("sampling again: ", made.status().message()));
      HEARTH_RETURN_IF_ERROR(TakeSamples(span, samples_, attempt));
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
    } else if (context_.dataset.manifest().is_sharded()) {
      return made;
    } else {
      may_pack = false;
      attempt.Log(absl::StrCat("rows are read directly, not packed: ",
                               made.status().message()));
    }
  }
}

// What was sampled and planned ahead of the generation that is next.
absl::StatusOr<GenerationMaker::Planned> GenerationMaker::TakeAhead(
    Attempt& attempt) {
  if (ahead_ == nullptr) return absl::NotFoundError("nothing is planned ahead");
  {
    const std::stop_callback forward(attempt.stop,
                                     [this] { ahead_->thread.request_stop(); });
    if (ahead_->thread.joinable()) ahead_->thread.join();
  }
  const std::unique_ptr<Ahead> ahead = std::move(ahead_);
  samples_.merge(ahead->samples);
  attempt.report.phases = std::move(ahead->report.phases);
  return std::move(ahead->planned);
}

void GenerationMaker::DropAhead() {
  if (ahead_ == nullptr) return;
  ahead_->thread.request_stop();
  if (ahead_->thread.joinable()) ahead_->thread.join();
  absl::StatusOr<Planned>& planned = ahead_->planned;
  if (planned.ok() && planned->found == nullptr) {
    Discard(std::move(planned->lease));
  }
  ahead_ = nullptr;
}

// Removes a plan that could not be finished, unless another job wants it.
void GenerationMaker::Discard(PlanLease lease) const {
  const std::string name = lease.name();
  { const PlanLease ended = std::move(lease); }
  context_.plans.Remove(name).IgnoreError();
}

// Begins to sample, and perhaps to plan, the generation behind `planned`, which
// is about to be packed.
void GenerationMaker::BeginAhead(Planned& planned, bool plan) {
  if (planned.span.end == timeline_.size() || context_.free_shards) return;
  ahead_ = std::make_unique<Ahead>(
      Ahead{.span = timeline_.GenerationAt(planned.span.end, timeline_.size()),
            .before = planned.key.name,
            .samples = samples_});
  Ahead& ahead = *ahead_;
  if (plan) ahead.slots = std::move(planned.slots);
  const auto work = [this, &ahead, plan](const std::stop_token& stop) {
    const PreparationListener silent;
    Attempt attempt = {.listener = silent, .stop = stop};
    absl::Status status = TakeSamples(ahead.span, ahead.samples, attempt);
    if (status.ok() && plan) {
      ahead.planned = Plan(ahead.span, ahead.samples, ahead.before,
                           std::move(ahead.slots), attempt);
    }
    ahead.report = std::move(attempt.report);
  };
  try {
    ahead.thread = std::jthread(work);
  } catch (const std::system_error&) {
    // The system gives no thread.
    ahead_ = nullptr;
  }
}

// The next generation's plan, after samples of its span were taken. Damaged
// samples are dropped.
absl::StatusOr<GenerationMaker::Planned> GenerationMaker::PlanNext(
    const GenerationSpan& span, Attempt& attempt) {
  plan::CacheSlots slots = std::move(slots_);
  slots_ = {};
  if (slots.nodes.empty() && !span.fills) {
    // The generation before was found, not planned.
    const GenerationReader& last = last_->reader();
    HEARTH_ASSIGN_OR_RETURN(slots, last.StateBefore(last.index().FirstRefill(),
                                                    ReuseDistance(timeline_)));
  }
  auto planned = Plan(span, samples_, last_ == nullptr ? "" : last_->name(),
                      std::move(slots), attempt);
  if (absl::IsDataLoss(planned.status())) DropSamples(planned.status());
  return planned;
}

absl::StatusOr<GenerationMaker::Made> GenerationMaker::Make(Planned planned,
                                                            bool may_pack,
                                                            RowSlots* fill,
                                                            Attempt& attempt) {
  const GenerationSpan& span = planned.span;
  const std::string& name = planned.key.name;
  if (span.fills) cycle_nodes_ = std::move(planned.first_nodes);
  std::unique_ptr<GenerationReader> reader = std::move(planned.found);
  attempt.report.plan = name;
  attempt.report.reused = reader != nullptr;
  if (reader != nullptr) {
    attempt.Log(absl::StrCat("plan ", name, " reused"));
  } else {
    const absl::Status status = Pack(planned, may_pack, fill, attempt);
    if (!status.ok()) {
      Discard(std::move(planned.lease));
      return status;
    }
    HEARTH_ASSIGN_OR_RETURN(
        reader, GenerationReader::Open(context_.files, planned.lease.folder(),
                                       planned.index));
  }
  const GenerationIndex& index = reader->index();
  attempt.report.disk_bytes = index.DiskBytes() + plan::PlanStore::kRecordBytes;
  attempt.report.reason = absl::StrFormat(
      "%d shards, %s; %d of %d rows are read, at most %d more than by an "
      "optimal cache",
      span.end - span.begin, Name(index.fetching), index.totals.misses,
      index.totals.accesses, index.totals.uncertified);
  if (!attempt.report.reused) {
    HEARTH_RETURN_IF_ERROR(planned.lease.Publish(
        {{"dataset", context_.dataset.manifest().name},
         {"shards", absl::StrCat(span.end - span.begin)},
         {"rows in memory", absl::StrCat(index.num_slots)},
         {"rows read", absl::StrCat(index.totals.misses)},
         {"rows needed", absl::StrCat(index.totals.accesses)},
         {"fetching", Name(index.fetching)}}));
    if (attempt.listener.durable) attempt.listener.durable();
    attempt.Log(absl::StrCat(
        "plan ", name, " made: ", attempt.report.reason, "; ",
        absl::StrJoin(attempt.report.phases, ", ",
                      [](std::string* out, const PhaseSeconds& phase) {
                        absl::StrAppendFormat(out, "%s %.1f s", phase.name,
                                              phase.seconds);
                      })));
  }
  HEARTH_RETURN_IF_ERROR(planned.lease.Share());
  attempt.report.more = span.end < timeline_.size();
  std::map<size_t, std::shared_ptr<PassSamples>> samples;
  for (int64_t at = span.begin; at < span.end;) {
    const Timeline::Place place = timeline_.At(at);
    samples[place.pass] = samples_.at(place.pass);
    at += samples_.at(place.pass)->spool->num_batches() - place.shard;
  }
  slots_ = std::move(planned.slots);
  return Made{.generation = std::make_shared<Generation>(
                  span, std::move(planned.lease), std::move(reader),
                  std::move(samples)),
              .report = std::move(attempt.report)};
}

absl::Status GenerationMaker::TakeSamples(const GenerationSpan& span,
                                          SamplesByPass& samples,
                                          Attempt& attempt) const {
  for (int64_t at = span.plan_begin; at < span.look_end;) {
    const Timeline::Place place = timeline_.At(at);
    auto found = samples.find(place.pass);
    if (found == samples.end()) {
      HEARTH_ASSIGN_OR_RETURN(std::shared_ptr<PassSamples> taken,
                              SamplesOfPass(place.pass, attempt));
      found = samples.emplace(place.pass, std::move(taken)).first;
    }
    at += found->second->spool->num_batches() - place.shard;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::shared_ptr<PassSamples>> GenerationMaker::SamplesOfPass(
    size_t index, Attempt& attempt) const {
  Pass pass = timeline_.passes()[index];
  pass.first_batch = 0;
  HEARTH_ASSIGN_OR_RETURN(
      PlanLease lease, context_.plans.Take(SamplesName(index), attempt.stop));
  const std::string path = io::JoinPath(lease.folder(), kSamplesFile);
  const auto open = [&]() -> absl::StatusOr<std::unique_ptr<SampleSpool>> {
    HEARTH_RETURN_IF_ERROR(lease.records().CheckUndamaged());
    return SampleSpool::Open(context_.files, path);
  };
  absl::StatusOr<std::unique_ptr<SampleSpool>> spool = open();
  const int64_t num_shards = ShardsOf(pass, pass.order->size()).count;
  if (!spool.ok() || (*spool)->num_batches() != num_shards) {
    if (!spool.ok() && !absl::IsNotFound(spool.status()) &&
        !absl::IsDataLoss(spool.status())) {
      return spool.status();
    }
    const absl::Status status = Sample(pass, path, lease, attempt);
    if (!status.ok()) {
      Discard(std::move(lease));
      return status;
    }
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

absl::Status GenerationMaker::Sample(const Pass& pass, const std::string& path,
                                     PlanLease& lease, Attempt& attempt) const {
  HEARTH_RETURN_IF_ERROR(lease.Clear());
  const PhaseTimer timer(context_.clock, "sampling", attempt.report);
  HEARTH_ASSIGN_OR_RETURN(
      const std::shared_ptr<const OpenedSource> opened,
      context_.source.Open(io::JoinPath(lease.folder(), kSlabsFolder),
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
  const int64_t shards = ShardsOf(pass, pass.order->size()).count;
  return lease.Publish({{"dataset", context_.dataset.manifest().name},
                        DescribeSampler(pass.sampler),
                        {"batch size", absl::StrCat(pass.batch_size)},
                        {"data seed", absl::StrCat(pass.sampler.data_seed)},
                        {"samples", absl::StrCat(shards)}});
}

// The name of the plan that has the samples of a pass.
std::string GenerationMaker::SamplesName(size_t index) const {
  Pass pass = timeline_.passes()[index];
  pass.first_batch = 0;
  Sha256 hash;
  hash.AddField(kFormat, "samples");
  hash.AddField(context_.dataset.manifest().fingerprint);
  hash.AddField(DigestOfPass(pass, SeedsOf(pass)));
  return PlanKeyOf(kPlans, context_.dataset.manifest().fingerprint, hash).name;
}

// The key of the plan of a span, by everything that it depends on; `before` is
// the name of the plan of the generation before.
PlanKey GenerationMaker::KeyOf(
    const GenerationSpan& span, const std::string& before,
    absl::FunctionRef<std::string(size_t pass)> samples_name) const {
  Sha256 hash;
  hash.AddField(kFormat, "generation");
  hash.AddField(context_.dataset.manifest().fingerprint);
  hash.AddField(context_.rows.row_bytes, ",", context_.num_slots, ",",
                ReuseDistance(timeline_));
  // The slots at the beginning follow from the generation before.
  hash.AddField(span.fills ? "filled" : before);
  for (int64_t at = span.plan_begin; at < span.look_end;) {
    const Timeline::Place place = timeline_.At(at);
    const Pass& pass = timeline_.passes()[place.pass];
    const int64_t count =
        std::min(ShardsOf(pass, pass.order->size()).count - place.shard,
                 span.look_end - at);
    hash.AddField(samples_name(place.pass), ",", place.shard, ",", count);
    at += count;
  }
  hash.AddField(span.end - span.begin, ",", span.look_end == timeline_.size(),
                ",", span.closes);
  return PlanKeyOf(kPlans, context_.dataset.manifest().fingerprint, hash);
}

// The plan of a span if it is on disk, whole.
absl::StatusOr<std::optional<GenerationMaker::Planned>>
GenerationMaker::FindWhole(const GenerationSpan& span, const PlanKey& key,
                           const std::stop_token& stop) const {
  const auto info = context_.plans.Get(key.name);
  if (absl::IsNotFound(info.status())) return std::nullopt;
  HEARTH_RETURN_IF_ERROR(info.status());
  if (info->state != plan::PlanInfo::State::kWhole) return std::nullopt;
  HEARTH_ASSIGN_OR_RETURN(PlanLease lease, context_.plans.Take(key.name, stop));
  auto found = Find(lease, key.id);
  if (absl::IsNotFound(found.status()) || absl::IsDataLoss(found.status())) {
    return std::nullopt;
  }
  HEARTH_RETURN_IF_ERROR(found.status());
  Planned planned = {.span = span,
                     .key = key,
                     .lease = std::move(lease),
                     .found = *std::move(found)};
  HEARTH_RETURN_IF_ERROR(TakeFirstNodes(planned));
  return planned;
}

// Of a plan that was found.
absl::Status GenerationMaker::TakeFirstNodes(Planned& planned) const {
  if (!planned.span.fills || !planned.span.repeats) return absl::OkStatus();
  HEARTH_ASSIGN_OR_RETURN(
      plan::CacheSlots state,
      planned.found->StateBefore(0, ReuseDistance(timeline_)));
  planned.first_nodes = std::move(state.nodes);
  return absl::OkStatus();
}

absl::StatusOr<std::optional<int64_t>> GenerationMaker::ContinueAt(
    int64_t position, const std::stop_token& stop) {
  // Names of generations follow from the samples' and from each other.
  std::map<size_t, std::string> names;
  const auto name_of = [&](size_t pass) {
    std::string& name = names[pass];
    if (name.empty()) name = SamplesName(pass);
    return name;
  };
  GenerationSpan span =
      timeline_.GenerationAt(timeline_.CycleBegin(position), timeline_.size());
  PlanKey key = KeyOf(span, "", name_of);
  if (span.repeats && position >= span.end) {
    HEARTH_ASSIGN_OR_RETURN(std::optional<Planned> first,
                            FindWhole(span, key, stop));
    if (!first.has_value()) return std::nullopt;
    cycle_nodes_ = std::move(first->first_nodes);
  }
  GenerationSpan before;
  PlanKey before_key;
  while (position >= span.end) {
    before =
        std::exchange(span, timeline_.GenerationAt(span.end, timeline_.size()));
    before_key = std::exchange(key, KeyOf(span, key.name, name_of));
  }
  HEARTH_ASSIGN_OR_RETURN(std::optional<Planned> found,
                          FindWhole(span, key, stop));
  if (found.has_value()) {
    ahead_ = std::make_unique<Ahead>();
    ahead_->planned = *std::move(found);
    end_ = span.begin;
    return end_;
  }
  if (before_key.name.empty()) return std::nullopt;
  HEARTH_ASSIGN_OR_RETURN(found, FindWhole(before, before_key, stop));
  if (!found.has_value()) return std::nullopt;
  HEARTH_RETURN_IF_ERROR(found->lease.Share());
  last_ =
      std::make_shared<Generation>(before, std::move(found->lease),
                                   std::move(found->found), SamplesByPass());
  end_ = span.begin;
  return end_;
}

absl::StatusOr<std::unique_ptr<GenerationReader>> GenerationMaker::Find(
    const PlanLease& lease, uint64_t plan_id) const {
  HEARTH_RETURN_IF_ERROR(lease.records().CheckUndamaged());
  HEARTH_ASSIGN_OR_RETURN(GenerationIndex index,
                          ReadIndex(context_.files, lease.folder(), plan_id));
  if (context_.dataset.manifest().is_sharded() &&
      index.fetching == Fetching::kDirect && RowsFetched(index) > 0) {
    return absl::NotFoundError("rows are not packed, and not all are here");
  }
  return GenerationReader::Open(context_.files, lease.folder(),
                                std::move(index));
}

OptimalCache::Options GenerationMaker::CacheOptions(
    const std::string& folder) const {
  return {.num_nodes = context_.rows.num_rows,
          .num_slots = context_.num_slots,
          .reuse_distance = ReuseDistance(timeline_),
          .scratch_path = io::JoinPath(folder, kNextUsesFile)};
}

// Finds the plan of a span, or plans its slots; `before` is the name of the
// plan of the generation before, and `slots` are those behind it.
absl::StatusOr<GenerationMaker::Planned> GenerationMaker::Plan(
    const GenerationSpan& span, const SamplesByPass& samples,
    const std::string& before, plan::CacheSlots slots, Attempt& attempt) const {
  const PlanKey key = KeyOf(span, before, [&](size_t pass) {
    return samples.at(pass)->lease.name();
  });
  HEARTH_ASSIGN_OR_RETURN(PlanLease lease,
                          context_.plans.Take(key.name, attempt.stop));
  Planned planned = {.span = span, .key = key, .lease = std::move(lease)};
  auto found = Find(planned.lease, key.id);
  if (found.ok()) {
    planned.found = *std::move(found);
    HEARTH_RETURN_IF_ERROR(TakeFirstNodes(planned));
    return planned;
  }
  if (!absl::IsNotFound(found.status())) {
    if (!absl::IsDataLoss(found.status())) return found.status();
    attempt.Log(absl::StrCat("plan ", key.name, " is removed and made again: ",
                             found.status().message()));
  }
  HEARTH_RETURN_IF_ERROR(planned.lease.Clear());
  planned.index.plan_id = key.id;
  planned.index.row_bytes = context_.rows.row_bytes;
  planned.slots = std::move(slots);
  const absl::Status status = PlanSlots(samples, planned, attempt);
  if (!status.ok()) {
    Discard(std::move(planned.lease));
    return status;
  }
  return planned;
}

absl::Status GenerationMaker::PlanSlots(const SamplesByPass& samples,
                                        Planned& planned,
                                        Attempt& attempt) const {
  const PhaseTimer timer(context_.clock, "planning", attempt.report);
  const GenerationSpan& span = planned.span;
  const std::string folder = planned.lease.folder();
  const OptimalCache::Options options = CacheOptions(folder);
  if (span.fills) planned.slots = OptimalCache::FreeSlots(options);
  HEARTH_ASSIGN_OR_RETURN(
      const std::unique_ptr<ShardPlanWriter> writer,
      ShardPlanWriter::Create(context_.files, folder, planned.slots));
  SpanTrace trace(timeline_, span, samples);
  HEARTH_ASSIGN_OR_RETURN(
      planned.index.totals,
      OptimalCache::Plan(context_.files, trace, span.end - span.begin,
                         span.look_end == timeline_.size(), span.fills, options,
                         planned.slots, *writer, attempt.stop));
  if (span.repeats && span.fills) planned.first_nodes = writer->first_nodes();
  if (span.closes) HEARTH_RETURN_IF_ERROR(Refill(planned, *writer));
  return writer->Finish(planned.index);
}

// Where passes come again behind a generation, adds the rows that the cache
// held at their beginning and lacks now: they are packed in the same scan.
absl::Status GenerationMaker::Refill(Planned& planned,
                                     ShardPlanWriter& writer) const {
  std::vector<bool> held(static_cast<size_t>(context_.rows.num_rows), false);
  for (const uint32_t node : planned.slots.nodes) {
    if (node != RowSlots::kFree) held[node] = true;
  }
  std::vector<uint32_t> lacking;
  for (const uint32_t node :
       planned.span.fills ? planned.first_nodes : cycle_nodes_) {
    if (node != RowSlots::kFree && !held[node]) lacking.push_back(node);
  }
  std::sort(lacking.begin(), lacking.end());
  return writer.Refill(lacking, static_cast<int64_t>(context_.rows.row_bytes));
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
absl::Status GenerationMaker::Pack(Planned& planned, bool may_pack,
                                   RowSlots* fill, Attempt& attempt) {
  const GenerationSpan& span = planned.span;
  PlanLease& lease = planned.lease;
  GenerationIndex& index = planned.index;
  index.fetching = Fetching::kDirect;
  HEARTH_RETURN_IF_ERROR(
      lease.MakeRoom(index.DiskBytes() + plan::PlanStore::kRecordBytes));
  const FetchNeed need = {
      .feature_bytes = static_cast<uint64_t>(context_.rows.num_rows) *
                       context_.rows.row_bytes,
      .rows = RowsFetched(index),
      .row_bytes = context_.rows.row_bytes};
  if (may_pack && context_.packs && need.rows > 0 &&
      (context_.dataset.manifest().is_sharded() ||
       context_.prices.Choose(need) == Fetching::kPacked)) {
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
    HEARTH_RETURN_IF_ERROR(
        Scan(planned, *reader, span.fills ? fill : nullptr, attempt));
    // Reading the packs is not among what was measured; both are as fast.
    context_.prices.Correct(Fetching::kPacked,
                            context_.prices.Seconds(Fetching::kPacked, need),
                            timer.seconds());
  }
  return WriteIndex(context_.files, lease.folder(), index);
}

absl::Status GenerationMaker::Scan(Planned& planned,
                                   const GenerationReader& reader,
                                   RowSlots* fill, Attempt& attempt) {
  const std::string folder = planned.lease.folder();
  GenerationIndex& index = planned.index;
  const auto row_bytes = static_cast<int64_t>(context_.rows.row_bytes);
  const PackDivision division =
      PackDivision::Of(context_.rows.num_rows, row_bytes, context_.samplers,
                       /*apart=*/context_.free_shards != nullptr);
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
  store::RowSet wanted(context_.rows.num_rows);
  std::vector<NodeId> nodes;
  for (int64_t shard = 0; shard < std::ssize(index.shards); ++shard) {
    HEARTH_RETURN_IF_ERROR(buffer.Resize(reader.PlanMemory(shard)));
    HEARTH_ASSIGN_OR_RETURN(
        const ShardPlan plan,
        reader.ReadPlan(shard, absl::MakeSpan(buffer.data(), buffer.size())));
    nodes.assign(plan.reads.begin(), plan.reads.end());
    wanted.Add(nodes);
    HEARTH_RETURN_IF_ERROR(dispatch->Add(static_cast<uint32_t>(shard), nodes));
  }
  HEARTH_RETURN_IF_ERROR(dispatch->EndAdding(team->size()));
  // Rows that the cache holds at the beginning, by node.
  std::vector<RowSlots::Placed> filled;
  if (fill != nullptr) {
    HEARTH_ASSIGN_OR_RETURN(const plan::CacheSlots state,
                            reader.StateBefore(0, ReuseDistance(timeline_)));
    filled = RowSlots::ByNode(state.nodes);
    for (const RowSlots::Placed& placed : filled) wanted.Add(placed.node);
  }
  HEARTH_ASSIGN_OR_RETURN(
      const std::unique_ptr<io::WritableFile> packs,
      context_.files.CreateUncached(io::JoinPath(folder, kShardPacksFile)));
  HEARTH_RETURN_IF_ERROR(packs->Allocate(index.Packs().back().end()));
  // This generation has its disk space.
  BeginAhead(planned, attempt.is_awaited);
  HEARTH_ASSIGN_OR_RETURN(
      RegionWriter writer,
      RegionWriter::Make(*packs, index.Packs(), team->size(),
                         division.PackBlockBytes(std::ssize(index.shards))));
  HEARTH_ASSIGN_OR_RETURN(const store::ScannedFeatures features,
                          context_.dataset.ScanRows(wanted, attempt.stop));
  HEARTH_ASSIGN_OR_RETURN(FeatureScan scan,
                          FeatureScan::Make(*features.file, features.rows,
                                            division.partition_nodes));
  const auto progress = attempt.Progress("packing");
  const auto workers = static_cast<uint32_t>(team->size());
  size_t next_filled = 0;
  const auto use =
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
              HEARTH_RETURN_IF_ERROR(fill->Write(
                  filled[i].slot,
                  partition.rows +
                      (filled[i].node - partition.first) * row_bytes));
              fill->Name(filled[i].slot, filled[i].node);
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
  };
  // Otherwise no row is wanted.
  if (index.Packs().back().end() > 0 || !filled.empty()) {
    absl::Status status = scan.Run(use, context_.clock, attempt.stop);
    if (fill != nullptr) {
      status.Update(fill->Flush());
      // Which rows are there is unknown.
      if (!status.ok()) fill->Clear();
    }
    HEARTH_RETURN_IF_ERROR(status);
    const std::optional<double> rate = scan.TellingRate();
    if (rate.has_value() && context_.on_scan) context_.on_scan(*rate);
  }
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

}  // namespace hearth::strategy
