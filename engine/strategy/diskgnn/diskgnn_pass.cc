#include "engine/strategy/diskgnn/diskgnn_pass.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "engine/base/status.h"
#include "engine/strategy/diskgnn/layout/packed_layout.h"
#include "engine/strategy/diskgnn/packing/plan_reader.h"
#include "engine/strategy/diskgnn/row_assembler.h"
#include "engine/strategy/packing/file_range.h"
#include "engine/strategy/sampled_batch.h"
#include "engine/strategy/sampling.h"

// The stages. The paper runs the first two in parallel; here they follow each
// other and work on different batches, which keeps disks and processors as
// busy:
//
//  graph      The sample of a batch comes from its chunk; its labels are
//             gathered.
//  features   One sequential read fetches the address table and the packed
//             rows; a queue fetches pages of the disk cache.
//  assemble   One batch after the other, by a team of threads or a GPU: widens
//             rows of the caches in memory, of the disk cache and of the pack
//             to the positions in the table. A GPU on which all models train
//             keeps the rows; the batch then holds its read bytes until it is
//             destroyed.

namespace hearth::strategy {
namespace {

constexpr uint64_t kReadBytes = 16 << 10;

uint64_t PagesOf(const FileRange& range) { return range.end() - range.offset; }

void CountBatch(const PackedBatch& batch, PassReport& report) {
  AddReads(batch.tally, report);
  report.rows_read =
      report.rows_read.value_or(0) + batch.counts.disk + batch.counts.packed;
  // Hits of the GPU cache, if there is one, and of the CPU cache.
  if (report.hits.size() > 1) report.hits.front().rows += batch.counts.gpu;
  report.hits.back().rows += batch.counts.cpu;
}

}  // namespace

uint64_t DiskgnnPass::StagingBytes(int io_depth) {
  return static_cast<uint64_t>(io_depth) * kReadBytes;
}

DiskgnnPass::DiskgnnPass(const DiskgnnContext& context, const Pass& pass,
                         const std::vector<store::NodeId>& seeds,
                         const PlannedPass& planned)
    : context_(context), pass_(pass), seeds_(seeds), first_(planned.first) {}

absl::StatusOr<std::unique_ptr<DiskgnnPass>> DiskgnnPass::Make(
    const DiskgnnContext& context, const Pass& pass,
    const std::vector<store::NodeId>& seeds, const PlannedPass& planned) {
  std::unique_ptr<DiskgnnPass> made(
      new DiskgnnPass(context, pass, seeds, planned));
  HEARTH_RETURN_IF_ERROR(made->MakeThreads());
  return made;
}

absl::Status DiskgnnPass::MakeThreads() {
  const OpenPlan& plan = context_.plan;
  HEARTH_ASSIGN_OR_RETURN(assemblers_, ThreadTeam::Create(context_.loaders));
  graph_loaders_.resize(static_cast<size_t>(context_.loaders));
  feature_loaders_.resize(graph_loaders_.size());
  for (GraphLoader& loader : graph_loaders_) {
    loader.buffer = context_.reads.Take();
    HEARTH_RETURN_IF_ERROR(
        loader.buffer.buffer().Resize(plan.chunks().sample_buffer_bytes()));
  }
  if (plan.layout().rows.disk == 0) return absl::OkStatus();
  for (FeatureLoader& loader : feature_loaders_) {
    HEARTH_ASSIGN_OR_RETURN(
        loader.queue,
        context_.read_queues.Take(static_cast<size_t>(context_.io_depth)));
    HEARTH_ASSIGN_OR_RETURN(
        loader.reader, DiskCacheReader::Create(
                           plan.disk_cache(), plan.layout(), *loader.queue,
                           {.staging_bytes = StagingBytes(context_.io_depth),
                            .cost = {},
                            .clock = &context_.clock}));
  }
  return absl::OkStatus();
}

absl::Status DiskgnnPass::Run(const Strategy::Consumer& consumer,
                              std::stop_token stop, PassReport& report) {
  report.bytes_read = 0;
  report.read_ops = 0;
  report.io_wait_seconds = 0;
  report.rows_read = 0;
  if (context_.gpu_cache) report.hits.push_back({.level = "gpu_cache"});
  report.hits.push_back({.level = "cpu_cache"});
  const std::unique_ptr<pipeline::Pipeline> pipeline = pipeline::NewPipeline(
      {GraphStage(), FeatureStage(), AssembleStage()}, "train", context_.clock);
  return Deliver(
      *pipeline,
      {.clock = context_.clock,
       .range = ShardsOf(pass_, static_cast<int64_t>(seeds_.size())),
       .shards = pass_.shards,
       .input_pools = pass_.input_pools,
       .row_bytes = context_.format.row_bytes(),
       .make =
           [](int64_t number) { return std::make_unique<PackedBatch>(number); },
       .count =
           [](const SampledBatch& shard, PassReport& counted) {
             CountBatch(static_cast<const PackedBatch&>(shard), counted);
           }},
      consumer, std::move(stop), report);
}

pipeline::Stage DiskgnnPass::GraphStage() {
  return {.name = "graph",
          .width = context_.loaders,
          .queue_capacity = QueueCapacity(pass_, kLoadedWaiting),
          .work = [this](int thread, pipeline::Item& item) {
            return LoadGraph(thread, static_cast<PackedBatch&>(item));
          }};
}

pipeline::Stage DiskgnnPass::FeatureStage() {
  return {.name = "features",
          .width = context_.loaders,
          .queue_capacity = QueueCapacity(pass_, kLoadedWaiting),
          .work =
              [this](int thread, pipeline::Item& item) {
                return LoadFeatures(thread, static_cast<PackedBatch&>(item));
              },
          .interrupt = [this] { abandon_.request_stop(); }};
}

pipeline::Stage DiskgnnPass::AssembleStage() {
  return {.name = "assemble",
          .width = 1,
          .queue_capacity = QueueCapacity(pass_, 1),
          .work = [this](int /*thread*/, pipeline::Item& item) {
            return Assemble(static_cast<PackedBatch&>(item));
          }};
}

absl::Status DiskgnnPass::LoadGraph(int thread, PackedBatch& batch) {
  const OpenPlan& plan = context_.plan;
  cache::AlignedBuffer& buffer =
      graph_loaders_[static_cast<size_t>(thread)].buffer.buffer();
  const int64_t chunk = first_ + batch.number();
  const double start = context_.clock.SteadySeconds();
  auto sample = plan.chunks().ReadSample(
      chunk, KeyOfShard(pass_, batch.number()), {buffer.data(), buffer.size()});
  HEARTH_RETURN_IF_ERROR(plan.Checked(sample.status()));
  batch.tally.AddRead(PagesOf(plan.layout().SampleRange(chunk)),
                      context_.clock.SteadySeconds() - start);
  batch.sample() = *std::move(sample);
  TakeLabels(pass_, seeds_, context_.labels, batch);
  return absl::OkStatus();
}

absl::Status DiskgnnPass::LoadFeatures(int thread, PackedBatch& batch) {
  const OpenPlan& plan = context_.plan;
  const PackedLayout& layout = plan.layout();
  const int64_t chunk = first_ + batch.number();
  batch.counts = layout.chunks[static_cast<size_t>(chunk)].counts;
  const uint64_t pack_bytes =
      PagesOf(layout.TableRange(chunk)) + PagesOf(layout.FeaturesRange(chunk));
  const uint64_t disk_bytes =
      static_cast<uint64_t>(batch.counts.disk * layout.row_bytes);
  batch.read = context_.reads.Take();
  cache::AlignedBuffer& buffer = batch.read.buffer();
  HEARTH_RETURN_IF_ERROR(buffer.Resize(pack_bytes + disk_bytes));
  const absl::Span<std::byte> bytes(buffer.data(), buffer.size());
  const double start = context_.clock.SteadySeconds();
  const auto packed =
      plan.chunks().ReadFeatures(chunk, bytes.first(pack_bytes), batch.table);
  HEARTH_RETURN_IF_ERROR(plan.Checked(packed.status()));
  batch.tally.AddRead(pack_bytes, context_.clock.SteadySeconds() - start);
  batch.packed_rows = *packed;
  batch.disk_rows = bytes.subspan(pack_bytes);
  if (disk_bytes == 0) return absl::OkStatus();
  return plan.Checked(
      feature_loaders_[static_cast<size_t>(thread)].reader->Read(
          chunk, batch.table.disk.rows, batch.disk_rows, abandon_.get_token(),
          batch.tally));
}

absl::Status DiskgnnPass::Assemble(PackedBatch& batch) {
  if (batch.counts.total() != batch.num_rows()) {
    return context_.plan.Checked(absl::DataLossError(absl::StrCat(
        "batch ", first_ + batch.number(), " of the plan: ",
        batch.counts.total(), " rows for ", batch.num_rows(), " nodes")));
  }
  RowAssembler& assembler = context_.plan.assembler();
  const LoadedRows loaded = {.table = batch.table,
                             .disk = batch.disk_rows,
                             .packed = batch.packed_rows};
  if (pass_.rows_on_gpu) {
    HEARTH_ASSIGN_OR_RETURN(batch.device_rows,
                            assembler.AssembleOnDevice(loaded));
    if (batch.device_rows != nullptr) {
      batch.LeaveInputs(context_.format.dim, *batch.device_rows);
      return absl::OkStatus();
    }
  }
  HEARTH_ASSIGN_OR_RETURN(
      float* const inputs,
      batch.TakeInputs(context_.format.dim, context_.inputs));
  HEARTH_RETURN_IF_ERROR(assembler.Assemble(loaded, *assemblers_, inputs));
  // The rows are assembled: another batch may use the memory.
  batch.read = {};
  batch.table = {};
  return absl::OkStatus();
}

}  // namespace hearth::strategy
