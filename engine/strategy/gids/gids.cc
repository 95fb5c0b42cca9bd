#include "engine/strategy/gids/gids.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <optional>
#include <stop_token>
#include <string>
#include <utility>
#include <variant>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/types/span.h"
#include "engine/base/byte_size.h"
#include "engine/base/status.h"
#include "engine/cache/window_cache.h"
#include "engine/cuda/device.h"
#include "engine/io/block_device.h"
#include "engine/io/read_probe.h"
#include "engine/plan/plan_store.h"
#include "engine/store/block_checksums.h"
#include "engine/store/feature_rows.h"
#include "engine/store/labels.h"
#include "engine/strategy/device_buffers.h"
#include "engine/strategy/gids/batch_assembler.h"
#include "engine/strategy/gids/estimates.h"
#include "engine/strategy/gids/gids_pass.h"
#include "engine/strategy/gids/hot_nodes.h"
#include "engine/strategy/gids/stripes.h"
#include "engine/strategy/sampled_batch.h"
#include "engine/strategy/sampling.h"
#include "engine/strategy/strategy_plans.h"

namespace hearth::strategy {

namespace {

// The window cache: its table, and the assembler that holds its lines.
struct Window {
  Window(int64_t num_lines, std::unique_ptr<BatchAssembler> assembler)
      : table(num_lines), assembler(std::move(assembler)) {}

  cache::WindowCache table;
  const std::unique_ptr<BatchAssembler> assembler;
};

class GidsStrategy final : public Strategy {
 public:
  GidsStrategy(const GidsOptions& options, const PipelineOptions& pipeline,
               const store::Dataset& dataset,
               const StrategyResources& resources)
      : options_(options),
        pipeline_(pipeline),
        dataset_(dataset),
        resources_(resources) {}

  absl::Status Open() {
    HEARTH_ASSIGN_OR_RETURN(labels_, dataset_.LoadLabels());
    HEARTH_ASSIGN_OR_RETURN(
        topology_, LoadSampledTopology(dataset_, store::Residency::kMapped,
                                       pipeline_, resources_));
    HEARTH_ASSIGN_OR_RETURN(features_, dataset_.OpenFeatures({}));
    return absl::OkStatus();
  }

  absl::StatusOr<PreparationReport> Prepare(const PassSequence& sequence,
                                            const PreparationListener& listener,
                                            std::stop_token stop) override {
    const std::vector<Pass>& passes = sequence.passes;
    if (passes.empty()) return PreparationReport();
    inputs_.Clear();
    HEARTH_RETURN_IF_ERROR(OpenStripes(listener, stop));
    HEARTH_RETURN_IF_ERROR(MeasureDisk(listener, stop));
    const std::string key =
        HotNodesKey(options_, passes.front(), dataset_.manifest());
    // The contents of a hot_file may have changed.
    if (buffered_for_ == key && options_.hot != HotNodes::kFile) {
      PreparationReport report = buffer_report_;
      report.reused = true;
      return WithStripes(std::move(report));
    }
    buffered_for_.clear();
    buffer_ = ConstantBuffer();
    HEARTH_ASSIGN_OR_RETURN(
        HotNodesChoice choice,
        ChooseHotNodes({.dataset = dataset_,
                        .labels = labels_,
                        .files = resources_.files,
                        .clock = resources_.clock,
                        .plans = plans_.store(),
                        .samplers = pipeline_.samplers,
                        .listener = listener,
                        .stop = stop},
                       options_, BufferedRows(options_, features_.layout),
                       passes.front()));
    HEARTH_RETURN_IF_ERROR(Noted(Fill(choice, listener, stop)));
    buffer_report_ = choice.report;
    buffered_for_ = key;
    return WithStripes(choice.report);
  }

  absl::Status Run(const Pass& pass, const Consumer& consumer,
                   std::stop_token stop, PassReport& report) override {
    report = {};
    if (!disks_.has_value() || buffered_for_.empty()) {
      return absl::FailedPreconditionError(
          "strategy gids was not prepared for its passes");
    }
    if (pass.batches.bound.nodes.empty()) {
      return absl::FailedPreconditionError(
          "strategy gids: the batches of the pass were not measured");
    }
    HEARTH_RETURN_IF_ERROR(OpenStripes({}, stop));
    HEARTH_RETURN_IF_ERROR(ResizeWindow(pass));
    GidsPass run({.source = topology_.With(labels_),
                  .features = stored_rows(),
                  .row_check = resources_.row_check.get(),
                  .read_queues = resources_.read_queues,
                  .clock = resources_.clock,
                  .buffer = buffer_,
                  .window = window_->table,
                  .assembler = *window_->assembler,
                  .inputs = inputs_,
                  .limits = Limits(pass),
                  .window_batches = options_.window,
                  .samplers = pipeline_.samplers},
                 pass, report);
    const absl::Status status = run.Run(consumer, std::move(stop));
    // Batches of the failed pass may be in the window, and lines without the
    // rows that the table says.
    if (!status.ok()) window_->table.Clear();
    return Noted(status);
  }

  void Rest() override {
    inputs_.Clear();
    if (window_.has_value()) window_->assembler->Rest();
    topology_.Rest();
    // The stripes may be removed while the strategy rests.
    stripes_.reset();
  }

 private:
  // Finds or makes the stripes, if options_.striped.
  absl::Status OpenStripes(const PreparationListener& listener,
                           const std::stop_token& stop) {
    if (!options_.striped) return absl::OkStatus();
    if (stripes_ != nullptr) {
      stripes_report_.reused = true;
      stripes_report_.seconds = 0;
      stripes_report_.phases.clear();
      return absl::OkStatus();
    }
    stripes_report_ = {};
    HEARTH_ASSIGN_OR_RETURN(
        stripes_, Stripes::Open({.dataset = dataset_,
                                 .features = features_,
                                 .files = resources_.files,
                                 .clock = resources_.clock,
                                 .disks = resources_.data_disks,
                                 .verified = resources_.row_check == nullptr
                                                 ? &verified_stripes_
                                                 : nullptr,
                                 .listener = listener,
                                 .stop = stop},
                                stripes_report_));
    return absl::OkStatus();
  }

  // `report`, of the constant buffer, with the stripes added.
  PreparationReport WithStripes(PreparationReport report) const {
    if (!options_.striped) return report;
    const bool ranked = !report.plan.empty();
    if (!ranked) report.plan = stripes_report_.plan;
    report.reused = stripes_report_.reused && (report.reused || !ranked);
    report.seconds += stripes_report_.seconds;
    report.phases.insert(report.phases.begin(), stripes_report_.phases.begin(),
                         stripes_report_.phases.end());
    report.disk_bytes += stripes_report_.disk_bytes;
    return report;
  }

  // Passes on `status`, the outcome of reading rows; closes stripes that it
  // says are damaged.
  absl::Status Noted(absl::Status status) {
    if (stripes_ != nullptr && stripes_->NoteDamage(status)) stripes_.reset();
    return status;
  }

  // The features that rows are read from: the stripes, if there are any.
  const store::StoredFeatures& stored_rows() const {
    return stripes_ == nullptr ? features_ : stripes_->features();
  }

  // Measures, once, the peak of each disk and the depth that reaches it, or the
  // rate at the depth that is asked for.
  absl::Status MeasureDisk(const PreparationListener& listener,
                           const std::stop_token& stop) {
    if (disks_.has_value()) return absl::OkStatus();
    io::BlockDevice* const largest = &features_.LargestFile();
    HEARTH_ASSIGN_OR_RETURN(
        disks_,
        MeasureDisks(options_, features_.layout,
                     stripes_ == nullptr ? absl::MakeConstSpan(&largest, 1)
                                         : stripes_->disks(),
                     resources_.read_queues, resources_.clock, stop));
    if (listener.log) {
      const io::ReadProfile& disk = disks_->slowest;
      listener.log(absl::StrFormat(
          "%s: %.0f reads/s at depth %d, first after %.0f us, last after "
          "%.0f us: %d reads are to overlap",
          disks_->count == 1
              ? "disk"
              : absl::StrCat("the slowest of ", disks_->count, " disks"),
          disk.peak_reads_per_second, disk.depth, 1e6 * disk.first_seconds,
          1e6 * disk.last_seconds, TargetReads(*disks_)));
    }
    return absl::OkStatus();
  }

  // Reads the rows of the constant buffer.
  absl::Status Fill(HotNodesChoice& choice, const PreparationListener& listener,
                    const std::stop_token& stop) {
    const double start = resources_.clock.SteadySeconds();
    io::ReadTally tally;
    HEARTH_ASSIGN_OR_RETURN(
        buffer_,
        ConstantBuffer::Load(stored_rows(), resources_.row_check.get(),
                             choice.nodes, resources_.read_queues,
                             resources_.clock, GpuOfLines(), stop, tally));
    const double seconds = resources_.clock.SteadySeconds() - start;
    if (listener.log) {
      listener.log(absl::StrFormat(
          "constant buffer: %d rows by %s, read in %.2f s (%s)",
          choice.nodes.size(), Name(options_.hot), seconds,
          FormatByteSize(static_cast<uint64_t>(tally.bytes_read))));
    }
    choice.report.phases.push_back({"fill_buffer", seconds});
    choice.report.seconds += seconds;
    return absl::OkStatus();
  }

  MergeLimits Limits(const Pass& pass) const {
    return {.target_reads = TargetReads(*disks_),
            .depth = disks_->depth,
            .merge_max = options_.merge_max * pass.shards,
            .staging_bytes = StagingBytes(options_, features_.layout,
                                          pass.batches, pass.shards)};
  }

  // The window cache stays, with its rows, from pass to pass, unless a pass
  // with larger batches needs more lines.
  absl::Status ResizeWindow(const Pass& pass) {
    const int64_t lines =
        WindowLines(options_, features_.layout, pass.batches, pass.shards);
    if (window_.has_value() && window_->table.num_lines() >= lines) {
      return absl::OkStatus();
    }
    window_.reset();  // Both at once would exceed the budget.
    HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<BatchAssembler> assembler,
                            NewAssembler(lines));
    window_.emplace(lines, std::move(assembler));
    return absl::OkStatus();
  }

  absl::StatusOr<std::unique_ptr<BatchAssembler>> NewAssembler(
      int64_t lines) const {
    const store::RowFormat format = {.dim = features_.dim,
                                     .dtype = features_.dtype};
    const cuda::Device* const gpu = GpuOfLines();
    return gpu == nullptr ? NewHostAssembler(lines, format)
                          : NewDeviceAssembler(*gpu, lines, format);
  }

  // The GPU with the lines of the window cache; null: they are in host memory,
  // as those of an EmulatedGpu are.
  const cuda::Device* GpuOfLines() const {
    return options_.gpu_cache_bytes == 0
               ? nullptr
               : std::get_if<cuda::Device>(&resources_.gpu);
  }

  const GidsOptions options_;
  const PipelineOptions pipeline_;
  const store::Dataset& dataset_;
  const StrategyResources resources_;
  StrategyPlans plans_{resources_};
  store::Labels labels_;
  SampledTopology topology_;
  store::StoredFeatures features_;
  // The stripes that rows are read from; null if rows are read from features_,
  // and while the strategy rests.
  std::unique_ptr<Stripes> stripes_;
  PreparationReport stripes_report_;
  store::VerificationRecord verified_stripes_;
  std::optional<MeasuredDisks> disks_;
  // The constant buffer, the HotNodesKey that it was filled for, and the report
  // of filling it.
  ConstantBuffer buffer_;
  std::string buffered_for_;
  PreparationReport buffer_report_;
  std::optional<Window> window_;
  BufferPool inputs_;
};

absl::Status Validate(const GidsOptions& options,
                      const StrategyResources& resources) {
  const auto most = static_cast<int>(io::kMaxReadDepth);
  if (options.io_depth < 0 || options.io_depth > most) {
    return absl::InvalidArgumentError(
        absl::StrCat("gids: io_depth must be within 0 .. ", most, ", is ",
                     options.io_depth));
  }
  if (options.window < 0 || options.merge_max < 1) {
    return absl::InvalidArgumentError(
        absl::StrCat("gids: window must be at least 0 and merge_max at least "
                     "1, are ",
                     options.window, " and ", options.merge_max));
  }
  if ((options.hot == HotNodes::kFile) != !options.hot_file.empty()) {
    return absl::InvalidArgumentError(
        "gids: hot_file goes with hot nodes of a file, and they with it");
  }
  if (options.gpu_cache_bytes > 0 && options.window_cache_bytes.has_value()) {
    return absl::InvalidArgumentError(
        "gids: window_cache_bytes must be absent where gpu_cache_bytes says "
        "how large the window cache is");
  }
  HEARTH_RETURN_IF_ERROR(CheckGpuCache(options.gpu_cache_bytes, resources.gpu));
  if (options.striped && resources.data_disks.empty()) {
    return absl::FailedPreconditionError(
        "striped: there are no data disks to read from");
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<Strategy>> NewGidsStrategy(
    const GidsOptions& options, const PipelineOptions& pipeline,
    const store::Dataset& dataset, const StrategyResources& resources) {
  HEARTH_RETURN_IF_ERROR(pipeline.Validate());
  HEARTH_RETURN_IF_ERROR(Validate(options, resources));
  auto strategy =
      std::make_unique<GidsStrategy>(options, pipeline, dataset, resources);
  HEARTH_RETURN_IF_ERROR(strategy->Open());
  return strategy;
}

}  // namespace hearth::strategy
