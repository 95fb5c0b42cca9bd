#include "engine/strategy/diskgnn/forecast/layout_forecast.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/base/byte_size.h"
#include "engine/base/status.h"
#include "engine/plan/access_trace.h"
#include "engine/store/topology.h"
#include "engine/strategy/diskgnn/diskgnn_pass.h"
#include "engine/strategy/diskgnn/layout/layout_search.h"
#include "engine/strategy/diskgnn/layout/packed_layout.h"
#include "engine/strategy/diskgnn/layout/popularity_model.h"
#include "engine/strategy/diskgnn/layout/segment_planner.h"
#include "engine/strategy/packing/file_range.h"

namespace hearth::strategy {

namespace {

constexpr auto kPage = static_cast<int64_t>(kPageBytes);

// Rows of the disk cache that a batch needs, ascending; its segment's first row
// is row `base`.
void FindRows(const SegmentPlanner& planner,
              absl::Span<const store::NodeId> nodes, int64_t base,
              std::vector<int64_t>& rows) {
  rows.clear();
  for (const store::NodeId node : nodes) {
    if (planner.LevelOf(node) != Level::kDisk) continue;
    rows.push_back(base + planner.PlaceOf(node));
  }
  std::sort(rows.begin(), rows.end());
}

}  // namespace

void PageReads::Add(const PageReads& other) {
  rows += other.rows;
  bytes += other.bytes;
  requests += other.requests;
}

absl::StatusOr<PageReads> PageReadCounter::Count(
    absl::Span<const int64_t> rows) {
  if (rows.empty()) return PageReads();
  pages_.clear();
  for (const int64_t row : rows) {
    int64_t page = row * row_bytes_ / kPage;
    const int64_t end = ((row + 1) * row_bytes_ + kPage - 1) / kPage;
    if (!pages_.empty()) page = std::max(page, pages_.back() + 1);
    for (; page < end; ++page) pages_.push_back(page);
  }
  const io::ReadCost cost = {.max_request_bytes =
                                 DiskgnnPass::StagingBytes(/*io_depth=*/1)};
  HEARTH_RETURN_IF_ERROR(io::Coalesce(
      pages_, {.row_bytes = kPageBytes, .num_rows = pages_.back() + 1},
      kPageBytes, cost, plan_));
  return PageReads{.rows = std::ssize(rows),
                   .bytes = plan_.read_bytes,
                   .requests = plan_.reads.size()};
}

absl::StatusOr<std::vector<PageReads>> CountPageReads(
    const LayoutInput& input, const Segmentation& segmentation,
    const std::stop_token& stop) {
  HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<SegmentPlanner> planner,
                          SegmentPlanner::Make(*input.trace, *input.levels));
  PageReadCounter counter(input.row_bytes);
  std::vector<PageReads> reads;
  std::vector<int64_t> rows;
  int64_t base = 0;
  for (int64_t i = 0; i < segmentation.num_segments(); ++i) {
    const Segment segment = SegmentAt(segmentation, i);
    HEARTH_RETURN_IF_ERROR(planner->Choose(segment, stop));
    HEARTH_RETURN_IF_ERROR(planner->Order(segmentation.seed, stop));
    for (int64_t batch = segment.begin; batch < segment.end; ++batch) {
      HEARTH_ASSIGN_OR_RETURN(const absl::Span<const store::NodeId> nodes,
                              input.trace->Load(batch));
      FindRows(*planner, nodes, base, rows);
      HEARTH_ASSIGN_OR_RETURN(reads.emplace_back(), counter.Count(rows));
    }
    base += std::ssize(planner->cached_nodes());
  }
  return reads;
}

namespace {

double PagesOf(const FileRange& range) {
  return static_cast<double>(range.end() - range.offset);
}

// part / whole; 0 if `whole` is 0.
double Share(double part, double whole) { return whole > 0 ? part / whole : 0; }

class LayoutForecaster {
 public:
  explicit LayoutForecaster(const LayoutForecastInput& input)
      : input_(input), sampled_(input.samples.num_batches()) {}

  absl::StatusOr<LayoutForecast> Run() {
    const double start = Seconds();
    HEARTH_RETURN_IF_ERROR(CountAndChooseLevels());
    HEARTH_RETURN_IF_ERROR(model_.has_value() ? ChooseByPart() : ChooseByAll());
    const double chosen = Seconds();
    HEARTH_ASSIGN_OR_RETURN(
        const PageReads reads,
        CountTrainingReads(std::min(forecast_.segment_size, sampled_)));
    const double walked = Seconds();
    // The time is scaled from the sample to all batches.
    const double scale =
        static_cast<double>(input_.parts.total) / static_cast<double>(sampled_);
    forecast_.planning_seconds = (chosen - start) * scale;
    forecast_.walk_seconds = (walked - chosen) * scale;
    Measure(reads);
    if (model_.has_value()) {
      Correct();
      HEARTH_RETURN_IF_ERROR(StretchPages(reads));
    }
    return std::move(forecast_);
  }

 private:
  double Seconds() const { return input_.clock.SteadySeconds(); }

  LayoutInput Input() const {
    return {.trace = &input_.samples,
            .levels = &*levels_,
            .row_bytes = input_.row_bytes,
            .sample_bytes = input_.samples.sizes()};
  }

  int64_t MemoryRows() const {
    return RowsWithin(input_.options.cpu_cache_bytes, input_.row_bytes,
                      input_.num_nodes);
  }

  double RowBytes() const { return static_cast<double>(input_.row_bytes); }

  absl::Status CountAndChooseLevels() {
    if (sampled_ == input_.parts.total) {
      HEARTH_ASSIGN_OR_RETURN(
          levels_,
          ChooseLevels(input_.samples, input_.options, input_.row_bytes,
                       input_.num_nodes, input_.stop));
      return absl::OkStatus();
    }
    HEARTH_ASSIGN_OR_RETURN(const plan::AccessCounts counts,
                            plan::AccessCounts::Count(
                                input_.samples, input_.num_nodes, input_.stop));
    model_.emplace(counts, sampled_, input_.parts.total);
    HEARTH_ASSIGN_OR_RETURN(
        levels_, MemoryLevels::Choose(counts, {.gpu = 0, .cpu = MemoryRows()}));
    return absl::OkStatus();
  }

  absl::Status ChooseByAll() {
    HEARTH_ASSIGN_OR_RETURN(
        LayoutChoice choice,
        SearchLayout(Input(), input_.budget.limits, {}, input_.stop));
    layout_ = std::move(choice.layout);
    segmentation_ = choice.segmentation;
    forecast_.segment_size = segmentation_.segment_size;
    forecast_.reason = std::move(choice.reason);
    return absl::OkStatus();
  }

  // The size of the plan of all batches, by the model.
  PlanSize PlanWith(int64_t segment_size) const {
    const PopularityModel::Rows rows = model_->ForecastRows(
        MemoryRows(), segment_size, input_.budget.limits.max_cache_rows);
    PlanSize size;
    size.rows = rows.packed + rows.disk_cache +
                static_cast<double>(levels_->cpu_nodes().size());
    size.disk_cache = rows.disk_cache * RowBytes();
    size.memory_image =
        static_cast<double>(levels_->cpu_nodes().size()) * RowBytes();
    const auto batches = static_cast<double>(input_.parts.total);
    double heads = 0;
    for (const uint64_t bytes : input_.samples.sizes()) {
      size.samples += static_cast<double>(bytes);
      heads += static_cast<double>(RoundUpToPage(kChunkHeaderBytes + bytes));
    }
    heads /= static_cast<double>(sampled_);
    size.samples *= batches / static_cast<double>(sampled_);
    heads += TableBytes(rows, batches) + kPageBytes / 2.0;
    size.packs = heads * batches + rows.packed * RowBytes();
    size.total = size.packs + size.memory_image +
                 size.disk_cache * (1 + 4.0 / kPageBytes) + kIndexHeaderBytes +
                 sizeof(Chunk) * batches;
    return size;
  }

  // Bytes of the address tables, each in whole pages.
  double TableBytes(const PopularityModel::Rows& rows, double batches) const {
    const auto of_batch = [&](double all) {
      return static_cast<int64_t>(all / batches);
    };
    return static_cast<double>(RoundUpToPage(
        EncodedTableBytes({.cpu = of_batch(rows.cpu),
                           .disk = of_batch(rows.disk),
                           .packed = of_batch(rows.packed)},
                          {.cpu = std::ssize(levels_->cpu_nodes()),
                           .disk = static_cast<int64_t>(rows.disk_cache)})));
  }

  bool Fits(int64_t segment_size) const {
    const LayoutLimits& limits = input_.budget.limits;
    return PlanWith(segment_size).total +
               static_cast<double>(limits.other_bytes) <=
           static_cast<double>(limits.disk_bytes);
  }

  // Limits as tight for the sample as the given ones are for all batches.
  LayoutLimits SampleLimits(const PlanSize& all_packed,
                            const PackedLayout& sample) const {
    LayoutLimits limits = input_.budget.limits;
    const double part =
        static_cast<double>(sampled_) / static_cast<double>(input_.parts.total);
    if (limits.max_cache_rows != Segmentation::kUnbounded) {
      limits.max_cache_rows = static_cast<int64_t>(
          static_cast<double>(limits.max_cache_rows) * part);
    }
    const auto fixed = static_cast<double>(sample.cpu_cache_bytes());
    const double for_layout = static_cast<double>(limits.disk_bytes) - fixed -
                              static_cast<double>(limits.other_bytes);
    const double scale =
        Share(static_cast<double>(sample.packs_bytes()), all_packed.packs);
    limits.other_bytes = 0;
    limits.disk_bytes =
        static_cast<uint64_t>(std::max(0.0, fixed + for_layout * scale));
    return limits;
  }

  absl::Status ChooseByPart() {
    int64_t size = 1;
    std::string why = "everything packed fits";
    HEARTH_RETURN_IF_ERROR(MeasureSample(1));
    if (!Fits(1)) {
      if (input_.budget.limits.max_cache_rows == 0) return Refused(1);
      HEARTH_RETURN_IF_ERROR(SearchSample());
      HEARTH_ASSIGN_OR_RETURN(size, SmallestThatFits());
      why = "it reads the least among the layouts that fit";
    }
    forecast_.segment_size = size;
    forecast_.plan = PlanWith(size);
    forecast_.reason = absl::StrCat(
        "segments of about ", size, " batches, about ",
        FormatByteSize(static_cast<uint64_t>(forecast_.plan.total)),
        " on disk: ", why);
    return absl::OkStatus();
  }

  // To measure its time; a sample has too few sizes to choose from.
  absl::Status SearchSample() {
    const absl::Status status =
        SearchLayout(Input(), SampleLimits(PlanWith(1), layout_), {},
                     input_.stop)
            .status();
    return absl::IsResourceExhausted(status) ? absl::OkStatus() : status;
  }

  // Binary search: larger segments take no more space, and read no less.
  absl::StatusOr<int64_t> SmallestThatFits() const {
    int64_t fits = input_.parts.total;
    if (!Fits(fits)) return Refused(fits);
    int64_t below = 1;
    while (fits - below > 1) {
      const int64_t middle = below + (fits - below) / 2;
      (Fits(middle) ? fits : below) = middle;
    }
    return fits;
  }

  absl::Status Refused(int64_t segment_size) const {
    const auto smallest = static_cast<uint64_t>(PlanWith(segment_size).total) +
                          input_.budget.limits.other_bytes;
    const uint64_t limit = input_.budget.limits.disk_bytes;
    return absl::ResourceExhaustedError(absl::StrCat(
        "the disk limit of ", limit, " bytes (", FormatByteSize(limit),
        ") is below the smallest layout for these batches and caches: about ",
        smallest, " bytes (", FormatByteSize(smallest), ")"));
  }

  absl::Status MeasureSample(int64_t segment_size) {
    segmentation_ = {.num_batches = sampled_, .segment_size = segment_size};
    const int64_t max_rows = input_.budget.limits.max_cache_rows;
    if (max_rows != Segmentation::kUnbounded) {
      segmentation_.max_rows = static_cast<int64_t>(
          static_cast<double>(max_rows) * static_cast<double>(sampled_) /
          static_cast<double>(input_.parts.total));
    }
    HEARTH_ASSIGN_OR_RETURN(layout_,
                            MeasureLayout(Input(), segmentation_, input_.stop));
    return absl::OkStatus();
  }

  // Counts reads of the samples in segments of that size, and measures the time
  // of the walk.
  absl::StatusOr<PageReads> CountTrainingReads(int64_t segment_size) {
    if (segmentation_.segment_size != segment_size) {
      HEARTH_RETURN_IF_ERROR(MeasureSample(segment_size));
    }
    HEARTH_ASSIGN_OR_RETURN(
        const std::vector<PageReads> reads,
        CountPageReads(Input(), segmentation_, input_.stop));
    PageReads training;
    for (size_t i = 0; i < reads.size(); ++i) {
      if (input_.parts.training_seeds[i] >= 0) training.Add(reads[i]);
    }
    return training;
  }

  void Measure(const PageReads& reads) {
    forecast_.epoch = VolumeOfEpoch(layout_, input_.parts, reads);
    forecast_.memory_rows = layout_.rows.cpu;
    forecast_.disk_cache_rows = layout_.rows.disk;
    if (!model_.has_value()) forecast_.plan = SizeOfPlan(layout_);
  }

  // Extrapolates `reads`, of segments as large as the sample, to larger
  // segments: each doubling adds as much to a row's pages as the last doubling
  // within the sample.
  absl::Status StretchPages(const PageReads& reads) {
    const double doublings =
        std::log2(static_cast<double>(forecast_.segment_size) /
                  static_cast<double>(sampled_));
    if (doublings <= 0 || sampled_ < 4) return absl::OkStatus();
    HEARTH_ASSIGN_OR_RETURN(const PageReads half,
                            CountTrainingReads(sampled_ / 2));
    const auto stretch = [&](uint64_t now, uint64_t before) {
      const double whole =
          Share(static_cast<double>(now), static_cast<double>(reads.rows));
      const double last = whole - Share(static_cast<double>(before),
                                        static_cast<double>(half.rows));
      return 1 + Share(std::max(0.0, last), whole) * doublings;
    };
    if (half.rows == 0) return absl::OkStatus();
    EpochVolume& epoch = forecast_.epoch;
    epoch.page_bytes *= stretch(reads.bytes, half.bytes);
    epoch.page_reads *= stretch(reads.requests, half.requests);
    // A batch reads at most its whole segment.
    const double segment = static_cast<double>(forecast_.disk_cache_rows) *
                           RowBytes() *
                           static_cast<double>(forecast_.segment_size) /
                           static_cast<double>(input_.parts.total);
    const double most = epoch.chunk_reads / 2 * segment;
    if (epoch.page_bytes > most) {
      epoch.page_reads *= most / epoch.page_bytes;
      epoch.page_bytes = most;
    }
    return absl::OkStatus();
  }

  // Corrects the sample's shares by the model, to those of all batches.
  void Correct() {
    LevelCounts sample;
    for (const Chunk& chunk : layout_.chunks) {
      sample.cpu += chunk.counts.cpu;
      sample.disk += chunk.counts.disk;
      sample.packed += chunk.counts.packed;
    }
    const PopularityModel::Rows all =
        model_->ForecastRows(MemoryRows(), forecast_.segment_size,
                             input_.budget.limits.max_cache_rows);
    EpochVolume& epoch = forecast_.epoch;
    const double rows = epoch.rows;
    const auto corrected = [&](double training, int64_t in_sample,
                               double in_all) {
      const double part = Share(in_all, model_->num_accesses());
      const double was = Share(static_cast<double>(in_sample),
                               static_cast<double>(sample.total()));
      return was > 0 ? training * part / was : rows * part;
    };
    const double cpu = corrected(epoch.cpu_rows, sample.cpu, all.cpu);
    const double disk = corrected(epoch.disk_rows, sample.disk, all.disk);
    const double packed =
        corrected(epoch.packed_rows, sample.packed, all.packed);
    const double scale = Share(rows, cpu + disk + packed);
    const double pages = Share(disk * scale, epoch.disk_rows);
    epoch.page_bytes *= pages;
    epoch.page_reads *= pages;
    epoch.packed_bytes += (packed * scale - epoch.packed_rows) * RowBytes();
    epoch.packed_bytes = std::max(0.0, epoch.packed_bytes);
    epoch.cpu_rows = cpu * scale;
    epoch.disk_rows = disk * scale;
    epoch.packed_rows = packed * scale;
    forecast_.disk_cache_rows = static_cast<int64_t>(all.disk_cache);
  }

  const LayoutForecastInput& input_;
  const int64_t sampled_;
  std::optional<MemoryLevels> levels_;
  // Present if the samples are a part of the batches.
  std::optional<PopularityModel> model_;
  // The segmentation of the samples.
  Segmentation segmentation_;
  PackedLayout layout_;
  LayoutForecast forecast_;
};

}  // namespace

EpochVolume VolumeOfEpoch(const PackedLayout& layout, const TraceParts& parts,
                          const PageReads& pages) {
  EpochVolume epoch;
  int64_t seeds = 0;
  for (int64_t i = 0; i < layout.num_batches(); ++i) {
    if (parts.training_seeds[i] < 0) continue;
    seeds += parts.training_seeds[i];
    const LevelCounts& counts = layout.chunks[i].counts;
    epoch.rows += static_cast<double>(counts.total());
    epoch.cpu_rows += static_cast<double>(counts.gpu + counts.cpu);
    epoch.disk_rows += static_cast<double>(counts.disk);
    epoch.packed_rows += static_cast<double>(counts.packed);
    epoch.sample_bytes += PagesOf(layout.SampleRange(i));
    epoch.table_bytes += PagesOf(layout.TableRange(i));
    epoch.packed_bytes += PagesOf(layout.FeaturesRange(i));
    // An empty shard has only a graph sample.
    epoch.chunk_reads += counts.total() > 0 ? 2 : 1;
  }
  const double of_rows =
      Share(epoch.disk_rows, static_cast<double>(pages.rows));
  epoch.page_bytes = static_cast<double>(pages.bytes) * of_rows;
  epoch.page_reads = static_cast<double>(pages.requests) * of_rows;
  const double scale =
      Share(static_cast<double>(parts.epoch_seeds), static_cast<double>(seeds));
  for (double* value :
       {&epoch.rows, &epoch.cpu_rows, &epoch.disk_rows, &epoch.packed_rows,
        &epoch.sample_bytes, &epoch.table_bytes, &epoch.packed_bytes,
        &epoch.chunk_reads, &epoch.page_bytes, &epoch.page_reads}) {
    *value *= scale;
  }
  return epoch;
}

PlanSize SizeOfPlan(const PackedLayout& layout) {
  PlanSize size = {
      .packs = static_cast<double>(layout.packs_bytes()),
      .disk_cache = static_cast<double>(layout.disk_cache_bytes()),
      .memory_image = static_cast<double>(layout.cpu_cache_bytes()),
      .rows = static_cast<double>(layout.rows.disk + layout.rows.cpu),
      .total = static_cast<double>(layout.total_bytes())};
  for (const Chunk& chunk : layout.chunks) {
    size.rows += static_cast<double>(chunk.counts.packed);
    size.samples += static_cast<double>(chunk.sample_bytes);
  }
  return size;
}

absl::StatusOr<LayoutForecast> ForecastLayout(
    const LayoutForecastInput& input) {
  return LayoutForecaster(input).Run();
}

}  // namespace hearth::strategy
