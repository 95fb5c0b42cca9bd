#include "engine/strategy/diskgnn/forecast/forecast.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "engine/base/clock.h"
#include "engine/base/process.h"
#include "engine/base/status.h"
#include "engine/io/aligned_memory.h"
#include "engine/io/file_system.h"
#include "engine/machine/machine_probe.h"
#include "engine/plan/plan_records.h"
#include "engine/sample/mini_batch.h"
#include "engine/store/topology.h"
#include "engine/strategy/diskgnn/diskgnn_plan.h"
#include "engine/strategy/diskgnn/forecast/layout_forecast.h"
#include "engine/strategy/diskgnn/forecast/time_forecast.h"
#include "engine/strategy/diskgnn/layout/packed_layout.h"
#include "engine/strategy/diskgnn/packing/plan_reader.h"
#include "engine/strategy/diskgnn/preparation.h"
#include "engine/strategy/packing/batch_code.h"
#include "engine/strategy/packing/offline_sampling.h"
#include "engine/strategy/packing/sample_spool.h"
#include "engine/strategy/sampling.h"

namespace hearth::strategy {

namespace {

// Batches of training whose address tables are read of an existing plan.
constexpr int64_t kMostTables = 512;

// Measures how long a graph loader takes to decode graph samples.
class DecodeTimer {
 public:
  // Batches to measure.
  static constexpr int64_t kBatches = 8;

  explicit DecodeTimer(const Clock& clock) : clock_(clock) {}

  // Decodes a batch and adds its time. Errors as DecodeBatch.
  absl::Status Add(absl::Span<const std::byte> encoded,
                   const sample::BatchKey& key) {
    const double start = clock_.SteadySeconds();
    HEARTH_RETURN_IF_ERROR(DecodeBatch(encoded, key).status());
    seconds_ += clock_.SteadySeconds() - start;
    bytes_ += static_cast<double>(encoded.size());
    return absl::OkStatus();
  }

  // Seconds per added byte; 0 without any.
  double seconds_per_byte() const { return bytes_ > 0 ? seconds_ / bytes_ : 0; }

 private:
  const Clock& clock_;
  double seconds_ = 0;
  double bytes_ = 0;
};

// Removes a spool of samples when destroyed.
class ScratchSamples {
 public:
  ScratchSamples(io::FileSystem& files, const std::string& folder)
      : files_(files), path_(io::JoinPath(folder, "samples")) {}
  ~ScratchSamples() { SampleSpool::Remove(files_, path_).IgnoreError(); }
  ScratchSamples(const ScratchSamples&) = delete;
  ScratchSamples& operator=(const ScratchSamples&) = delete;

  const std::string& path() const { return path_; }

 private:
  io::FileSystem& files_;
  const std::string path_;
};

uint64_t Rounded(double value) {
  return static_cast<uint64_t>(std::llround(std::max(0.0, value)));
}

class DiskgnnForecaster {
 public:
  DiskgnnForecaster(const DiskgnnOptions& options,
                    const ForecastContext& context,
                    const ForecastRequest& request,
                    store::StoredFeatures features)
      : context_(context),
        request_(request),
        features_(std::move(features)),
        options_(InBytes(options, features_.layout.num_rows,
                         features_.layout.row_bytes)),
        plan_(Identify(request.passes)) {
    for (const Pass& pass : plan_.passes) {
      seeds_.push_back(std::ssize(pass.order->Epoch(pass.epoch_key)));
      if (pass.order == FirstPass().order) ++num_training_;
    }
  }

  absl::StatusOr<Forecast> Run() {
    HEARTH_ASSIGN_OR_RETURN(train_seconds_, request_.time_training());
    // Both caches in memory are forecast as one level.
    has_gpu_cache_ = options_.gpu_cache_bytes > 0;
    options_.cpu_cache_bytes += std::exchange(options_.gpu_cache_bytes, 0);
    result_.plan = plan_.identity.name;
    result_.total_batches = static_cast<uint64_t>(TotalBatches(plan_.passes));
    HEARTH_ASSIGN_OR_RETURN(std::optional<PackedLayout> layout, Find());
    result_.plan_exists = layout.has_value();
    HEARTH_RETURN_IF_ERROR(layout.has_value() ? FromPlan(*layout)
                                              : FromSamples());
    HEARTH_RETURN_IF_ERROR(MeasureMachine());
    FillIn();
    return std::move(result_);
  }

 private:
  IdentifiedPlan Identify(absl::Span<const Pass> passes) const {
    return IdentifyPlan({.fingerprint = context_.dataset.manifest().fingerprint,
                         .row_bytes = features_.layout.row_bytes,
                         .options = options_,
                         .folder = context_.plans.options().folder},
                        passes);
  }

  const Pass& FirstPass() const { return plan_.passes.front(); }

  int64_t EpochSeeds() const { return seeds_.front(); }

  double Seconds() const { return context_.clock.SteadySeconds(); }

  int64_t RowBytes() const { return features_.layout.row_bytes; }

  // The plan's layout, if the plan exists and no damage was found in it.
  absl::StatusOr<std::optional<PackedLayout>> Find() {
    absl::StatusOr<PackedLayout> layout =
        ReadPlanIndex(context_.files, plan_.identity);
    if (layout.ok()) return std::move(*layout);
    if (absl::IsNotFound(layout.status())) return std::nullopt;
    if (!IsUnusable(layout.status())) return layout.status();
    result_.notes.push_back(absl::StrCat("The plan will be made again: ",
                                         layout.status().message()));
    return std::nullopt;
  }

  // The batches of a trace of the picked shards.
  TraceParts PartsOf(absl::Span<const ShardPick> picks) const {
    TraceParts parts = {.training_seeds = {},
                        .epoch_seeds = EpochSeeds(),
                        .total = plan_.identity.num_shards()};
    bool any = false;
    for (const ShardPick& pick : picks) any |= pick.pass < num_training_;
    for (const ShardPick& pick : picks) {
      // A small sample may have no training batch: then all count as training.
      const bool counts = !any || pick.pass < num_training_;
      parts.training_seeds.push_back(counts ? SeedsOf(pick) : -1);
    }
    return parts;
  }

  int64_t SeedsOf(const ShardPick& pick) const {
    return SeedsOfShard(plan_.passes[pick.pass], seeds_[pick.pass], pick.number)
        .count;
  }

  // Takes the figures from an existing plan: exact, except the pages of the
  // disk cache, which are counted in up to kMostTables batches of training.
  // DATA_LOSS if it is damaged.
  absl::Status FromPlan(const PackedLayout& layout) {
    const TraceParts parts = PartsOf(SpreadOver(plan_.passes, INT64_MAX));
    const std::string& folder = plan_.identity.folder;
    HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<ChunkReader> chunks,
                            ChunkReader::Open(context_.files, folder, layout));
    HEARTH_ASSIGN_OR_RETURN(const PageReads pages,
                            ReadTables(layout, parts, *chunks));
    HEARTH_RETURN_IF_ERROR(TimeDecoding(layout, *chunks));
    layout_ = {.epoch = VolumeOfEpoch(layout, parts, pages),
               .plan = SizeOfPlan(layout),
               .segment_size = layout.segment_size,
               .memory_rows = layout.rows.cpu,
               .disk_cache_rows = layout.rows.disk,
               .reason = ReasonOf(layout)};
    return absl::OkStatus();
  }

  // The reads from the disk cache of some training batches.
  absl::StatusOr<PageReads> ReadTables(const PackedLayout& layout,
                                       const TraceParts& parts,
                                       const ChunkReader& chunks) const {
    PageReads pages;
    if (layout.rows.disk == 0) return pages;
    HEARTH_ASSIGN_OR_RETURN(
        io::AlignedMemory buffer,
        io::AlignedMemory::Allocate(chunks.features_buffer_bytes()));
    std::vector<int64_t> training;
    for (int64_t i = 0; i < layout.num_batches(); ++i) {
      if (parts.training_seeds[i] >= 0) training.push_back(i);
    }
    const auto total = std::ssize(training);
    const int64_t count = std::min(total, kMostTables);
    PageReadCounter counter(layout.row_bytes);
    AddressTable table;
    for (int64_t i = 0; i < count; ++i) {
      HEARTH_RETURN_IF_ERROR(CheckStop());
      HEARTH_RETURN_IF_ERROR(
          chunks.ReadTable(training[i * total / count], buffer.bytes(), table));
      HEARTH_ASSIGN_OR_RETURN(const PageReads reads,
                              counter.Count(table.disk.rows));
      pages.Add(reads);
    }
    return pages;
  }

  absl::Status TimeDecoding(const PackedLayout& layout,
                            const ChunkReader& chunks) {
    HEARTH_ASSIGN_OR_RETURN(
        io::AlignedMemory buffer,
        io::AlignedMemory::Allocate(chunks.sample_buffer_bytes()));
    DecodeTimer timer(context_.clock);
    const int64_t total = layout.num_batches();
    const int64_t count = std::min(total, DecodeTimer::kBatches);
    for (int64_t i = 0; i < count; ++i) {
      HEARTH_RETURN_IF_ERROR(CheckStop());
      const int64_t chunk = i * total / count;
      const sample::BatchKey key = KeyOf(chunk);
      HEARTH_ASSIGN_OR_RETURN(const sample::MiniBatch batch,
                              chunks.ReadSample(chunk, key, buffer.bytes()));
      // The bytes of the chunk's sample, decoded without a read.
      HEARTH_RETURN_IF_ERROR(timer.Add(EncodeBatch(batch), key));
    }
    rates_.decode_seconds_per_byte = timer.seconds_per_byte();
    return absl::OkStatus();
  }

  // The key of the batch of a chunk of the plan.
  sample::BatchKey KeyOf(int64_t chunk) const {
    const std::vector<PlannedPass>& planned = plan_.identity.passes;
    size_t pass = 0;
    while (chunk >= planned[pass].first + planned[pass].count) ++pass;
    return KeyOfShard(plan_.passes[pass], chunk - planned[pass].first);
  }

  // The reason that an existing plan's record gives for its layout.
  std::string ReasonOf(const PackedLayout& layout) const {
    const auto about =
        plan::PlanRecords(context_.files, plan_.identity.folder).ReadAbout();
    std::string reason;
    if (about.ok()) reason = plan::ValueOf(about->properties, kLayoutProperty);
    if (!reason.empty()) return reason;
    return absl::StrCat("segments of ", layout.segment_size, " batches");
  }

  absl::Status FromSamples() {
    const std::vector<ShardPick> picks =
        SpreadOver(plan_.passes, request_.most_batches);
    const ScratchSamples scratch(context_.files, context_.scratch_folder);
    HEARTH_RETURN_IF_ERROR(Sample(picks, scratch.path()));
    HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<SampleSpool> spool,
                            SampleSpool::Open(context_.files, scratch.path()));
    HEARTH_ASSIGN_OR_RETURN(const plan::PlanSpace free,
                            context_.plans.Space(plan_.identity.name));
    const LayoutBudget budget =
        BudgetForLayout(options_, RowBytes(), free.bytes);
    const TraceParts parts = PartsOf(picks);
    Progress("planning", 0, 0);
    auto layout = ForecastLayout({.samples = *spool,
                                  .parts = parts,
                                  .options = options_,
                                  .row_bytes = RowBytes(),
                                  .num_nodes = features_.layout.num_rows,
                                  .budget = budget,
                                  .clock = context_.clock,
                                  .stop = context_.stop});
    if (!layout.ok()) {
      return ExplainRefusal(layout.status(), budget, plan_.identity.folder);
    }
    layout_ = *std::move(layout);
    return TimeDecoding(picks, *spool);
  }

  absl::Status TimeDecoding(absl::Span<const ShardPick> picks,
                            SampleSpool& spool) {
    DecodeTimer timer(context_.clock);
    const auto total = std::ssize(picks);
    const int64_t count = std::min(total, DecodeTimer::kBatches);
    std::vector<std::byte> bytes;
    for (int64_t i = 0; i < count; ++i) {
      HEARTH_RETURN_IF_ERROR(CheckStop());
      const int64_t index = i * total / count;
      const ShardPick& pick = picks[static_cast<size_t>(index)];
      bytes.resize(spool.sizes()[index]);
      HEARTH_RETURN_IF_ERROR(spool.Read(index, absl::MakeSpan(bytes)));
      HEARTH_RETURN_IF_ERROR(
          timer.Add(bytes, KeyOfShard(plan_.passes[pick.pass], pick.number)));
    }
    rates_.decode_seconds_per_byte = timer.seconds_per_byte();
    return absl::OkStatus();
  }

  absl::Status Sample(absl::Span<const ShardPick> picks,
                      const std::string& path) {
    const double start = Seconds();
    HEARTH_ASSIGN_OR_RETURN(
        const OpenedSource opened,
        OpenSource(context_.dataset, context_.labels,
                   context_.pipeline.topology, context_.files,
                   io::JoinPath(context_.scratch_folder, "slabs"),
                   context_.stop));
    const double loaded = Seconds();
    HEARTH_RETURN_IF_ERROR(
        SampleOffline({.files = context_.files,
                       .clock = context_.clock,
                       .source = opened.source,
                       .samplers = context_.pipeline.samplers,
                       .path = path,
                       .progress =
                           [this](uint64_t done, uint64_t total) {
                             Progress("sampling", done, total);
                           }},
                      plan_.passes, picks, context_.stop));
    const double scale = static_cast<double>(plan_.identity.num_shards()) /
                         static_cast<double>(picks.size());
    preparation_.sampling = loaded - start + (Seconds() - loaded) * scale;
    result_.sampled_batches =
        static_cast<uint64_t>(std::ssize(picks) / FirstPass().shards);
    return absl::OkStatus();
  }

  absl::Status CheckStop() const {
    if (!context_.stop.stop_requested()) return absl::OkStatus();
    return absl::CancelledError("a forecast: stopped on request");
  }

  void Progress(absl::string_view phase, uint64_t done, uint64_t total) const {
    if (!context_.listener.progress) return;
    context_.listener.progress(phase, done, total);
  }

  absl::Status MeasureMachine() {
    Progress("measuring", 0, 0);
    const machine::ProbeContext probe = {.files = context_.files,
                                         .read_queues = context_.read_queues,
                                         .clock = context_.clock,
                                         .stop = context_.stop};
    const std::string& path = features_.LargestFile().path();
    // First, before other probes have made memory warm.
    HEARTH_ASSIGN_OR_RETURN(rates_.memory_seconds_per_byte,
                            machine::ProbeMemory(context_.clock));
    HEARTH_ASSIGN_OR_RETURN(rates_.read_bytes_per_second,
                            machine::ProbeReading(probe, path, {}));
    const int loaders = std::min(16, 2 * context_.pipeline.extractors);
    HEARTH_ASSIGN_OR_RETURN(
        rates_.pass_bytes_per_second,
        machine::ProbeReading(probe, path, {.threads = loaders}));
    if (layout_.epoch.page_reads > 0) {
      HEARTH_ASSIGN_OR_RETURN(
          rates_.pages_per_second,
          machine::ProbePages(probe, path, options_.io_depth));
    }
    if (!result_.plan_exists) {
      HEARTH_ASSIGN_OR_RETURN(
          rates_.scan_bytes_per_second,
          machine::ProbeReading(probe, path, {.at_once = true}));
      HEARTH_ASSIGN_OR_RETURN(
          rates_.write_bytes_per_second,
          machine::ProbeWriting(probe, context_.scratch_folder));
    }
    rates_.row_copy_seconds = machine::ProbeRowCopy(
        context_.clock, {.dim = features_.dim, .dtype = features_.dtype});
    rates_.checksum_seconds_per_byte = machine::ProbeChecksum(context_.clock);
    return CheckStop();
  }

  void FillIn() {
    const EpochVolume& epoch = layout_.epoch;
    result_.rows_needed = Rounded(epoch.rows);
    const auto level = [&](const char* name, double rows) {
      result_.levels.push_back(
          {.level = name,
           .rows = Rounded(rows),
           .bytes = Rounded(rows) * static_cast<uint64_t>(RowBytes())});
    };
    level("cpu_cache", epoch.cpu_rows);
    level("disk_cache", epoch.disk_rows);
    level("packs", epoch.packed_rows);
    result_.bytes_read = Rounded(epoch.sample_bytes + epoch.table_bytes +
                                 epoch.packed_bytes + epoch.page_bytes);
    result_.read_ops = Rounded(epoch.chunk_reads + epoch.page_reads);
    result_.disk_bytes =
        Rounded(layout_.plan.total) + plan::PlanStore::kRecordBytes;
    FillInTime();
    if (has_gpu_cache_) {
      result_.notes.push_back(
          "Level cpu_cache counts the rows of both caches: the CPU's and the "
          "GPU's.");
    }
    for (std::string& note : NotesOf({.plan_exists = result_.plan_exists,
                             .sampled_batches = result_.sampled_batches,
                             .total_batches = result_.total_batches,
                             .layout = layout_,
                             .rates = rates_,
                             .epoch = time_,
                             .train_seconds = train_seconds_,
                             .preparation = preparation_})) {
      result_.notes.push_back(std::move(note));
    }
  }

  void FillInTime() {
    const Pass& pass = FirstPass();
    time_ = TimeOfEpoch(layout_.epoch,
                        {.loaders = context_.pipeline.extractors,
                         .processors = UsableProcessors(),
                         .batches = static_cast<double>(
                             NumBatches(EpochSeeds(), pass.batch_size)),
                         .row_bytes = RowBytes(),
                         .train_seconds = train_seconds_,
                         .train_threads = request_.train_threads},
                        rates_);
    result_.epoch_seconds = time_.seconds;
    result_.prepare_seconds = 0;
    if (result_.plan_exists) return;
    preparation_.planning = layout_.planning_seconds;
    const auto features =
        static_cast<double>(features_.layout.num_rows * RowBytes());
    preparation_.packing = PackingSeconds(
        layout_.plan,
        {.features = features,
         .memory = std::min(features,
                            static_cast<double>(options_.prepare_memory_bytes)),
         .walk_seconds = layout_.walk_seconds},
        rates_);
    result_.prepare_seconds = preparation_.total();
  }

  const ForecastContext& context_;
  const ForecastRequest& request_;
  const store::StoredFeatures features_;
  DiskgnnOptions options_;
  bool has_gpu_cache_ = false;
  const IdentifiedPlan plan_;
  // Seeds of each of the plan's passes; the first num_training_ are training.
  std::vector<int64_t> seeds_;
  size_t num_training_ = 0;
  double train_seconds_ = 0;
  Forecast result_;
  LayoutForecast layout_;
  MachineRates rates_;
  EpochTime time_;
  PreparationTime preparation_;
};

}  // namespace

absl::StatusOr<Forecast> ForecastDiskgnn(const DiskgnnOptions& options,
                                         const ForecastContext& context,
                                         const ForecastRequest& request) {
  if (request.num_training == 0 ||
      request.num_training > request.passes.size() ||
      request.most_batches < 1) {
    return absl::InvalidArgumentError(
        "a forecast needs passes of training, and batches to sample");
  }
  HEARTH_ASSIGN_OR_RETURN(store::StoredFeatures features,
                          context.dataset.OpenFeatures({}));
  return DiskgnnForecaster(options, context, request, std::move(features))
      .Run();
}

}  // namespace hearth::strategy
