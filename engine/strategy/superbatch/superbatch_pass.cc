#include "engine/strategy/superbatch/superbatch_pass.h"

#include <algorithm>
#include <utility>

#include "engine/base/status.h"
#include "engine/cache/direct_cache.h"
#include "engine/plan/access_trace.h"
#include "engine/sample/stored_sampler.h"
#include "engine/strategy/superbatch/changeset.h"
#include "engine/strategy/superbatch/superbatch_options.h"

// The order of things, for superbatches 0, 1, 2 ...:
//
//  1. The neighbor cache is in memory. Superbatch 0 is sampled.
//  2. Superbatch k + 1 is sampled; meanwhile superbatch k is planned.
//  3. The switch: the neighbor cache releases its memory, and the feature cache
//     is filled with the rows that superbatch k needs first.
//  4. Superbatch k is executed. Its files are removed.
//  5. The feature cache releases its memory. If there is a superbatch k + 2,
//     the neighbor cache is read back. Continue with 2.
//
// So the two caches are never in memory at once, and the files of at most two
// superbatches are on disk.

namespace hearth::strategy {
namespace {

// Batches in a superbatch at most, whatever is asked for; few epochs have more.
constexpr int64_t kMaxSuperbatch = 1 << 26;

InspectorContext ForInspector(const SuperbatchContext& context,
                              const Pass& pass,
                              const std::vector<store::NodeId>& seeds,
                              RuntimeFiles& files) {
  return {.data = context.data,
          .read_queues = context.read_queues,
          .clock = context.clock,
          .pass = pass,
          .seeds = seeds,
          .files = files,
          .lists = context.lists,
          .samplers = context.pipeline.samplers,
          .io_depth = context.options.io_depth};
}

}  // namespace

SuperbatchPass::SuperbatchPass(const SuperbatchContext& context,
                               const Pass& pass, RuntimeFiles& files,
                               PassReport& report)
    : context_(context),
      pass_(pass),
      files_(files),
      report_(report),
      start_(context.clock.SteadySeconds()),
      seeds_(pass.order->Epoch(pass.epoch_key)),
      shards_(ShardsOf(pass, static_cast<int64_t>(seeds_.size()))),
      inspector_(ForInspector(context_, pass, seeds_, files)),
      whole_(EmptyReport(context_, inspector_)) {
  report_ = whole_;
}

PassReport SuperbatchPass::EmptyReport(const SuperbatchContext& context,
                                       const Inspector& inspector) {
  PassReport report;
  report.bytes_read = 0;
  report.read_ops = 0;
  report.io_wait_seconds = 0;
  report.rows_read = 0;
  report.hits = {{.level = "cpu_cache"}};
  report.list_hits = {{.level = "neighbor_cache"}};
  report.lists_read = 0;
  for (const char* phase : {"prepare", "inspect", "sample", "changeset",
                            "switch", "cache_update", "execute"}) {
    report.phases.push_back({.name = phase});
  }
  if (context.lists != nullptr) {
    report.list_hits.push_back({.level = context.lists->level()});
  }
  report.stages = inspector.stages();
  for (const auto& [stage, threads] :
       {std::pair{"load", context.pipeline.extractors}, std::pair{"locate", 1},
        std::pair{"read", context.pipeline.extractors},
        std::pair{"assemble", 1}, std::pair{"train", 1}}) {
    report.stages.push_back({.name = stage, .threads = threads});
  }
  return report;
}

absl::Status SuperbatchPass::Run(const Strategy::Consumer& consumer,
                                 std::stop_token stop) {
  const absl::Status status = RunAll(
      [&](const Superbatch& superbatch) {
        return Execute(superbatch, consumer, stop);
      },
      stop);
  report_ = whole_;
  AddInspection();
  return status;
}

absl::StatusOr<RowReads> SuperbatchPass::Foretell(std::stop_token stop) {
  HEARTH_ASSIGN_OR_RETURN(
      RowReadCounter reads,
      RowReadCounter::Make(context_.read_queues, context_.clock,
                           context_.options.io_depth, context_.data.features));
  HEARTH_RETURN_IF_ERROR(RunAll(
      [&](const Superbatch& superbatch) {
        return CountReads(superbatch, reads, stop);
      },
      stop));
  const io::ReadTally& filling = reads.reads().filling;
  const io::ReadTally& executing = reads.reads().executing;
  const int64_t rows_read = filling.rows + executing.rows;
  whole_.rows_needed = reads.rows_needed();
  whole_.bytes_needed =
      reads.rows_needed() * context_.data.row_format().row_bytes();
  whole_.rows_read = rows_read;
  whole_.hits.front().rows = reads.rows_needed() - rows_read;
  whole_.bytes_read = filling.bytes_read + executing.bytes_read;
  whole_.read_ops = filling.requests + executing.requests;
  report_ = whole_;
  AddInspection();
  return reads.reads();
}

absl::Status SuperbatchPass::RunAll(Executing execute,
                                    const std::stop_token& stop) {
  if (shards_.count <= 0) return absl::OkStatus();
  HEARTH_RETURN_IF_ERROR(Timed(kPrepare, [&] {
    return context_.neighbors.Prepare(context_.neighbor_cache_bytes, stop);
  }));
  HEARTH_ASSIGN_OR_RETURN(Superbatch current, SampleFirst(stop));
  while (current.count > 0) {
    const Superbatch next = After(current);
    HEARTH_RETURN_IF_ERROR(Inspect(current, next, stop));
    HEARTH_RETURN_IF_ERROR(execute(current));
    current = next;
  }
  return absl::OkStatus();
}

// The superbatch behind `superbatch`; empty at the end of the pass.
Superbatch SuperbatchPass::After(const Superbatch& superbatch) const {
  return {.first = superbatch.end(),
          .count = std::min(size_, End() - superbatch.end())};
}

absl::StatusOr<Superbatch> SuperbatchPass::SampleFirst(
    const std::stop_token& stop) {
  const Superbatch none = {.first = shards_.first, .count = 0};
  size_ = InShards(context_.options.superbatch);
  const bool profiled = size_ == 0;
  if (profiled) size_ = InShards(kProfiledBatches);
  Superbatch first = After(none);
  HEARTH_RETURN_IF_ERROR(Sample(first, stop));
  if (!profiled) return first;
  HEARTH_ASSIGN_OR_RETURN(size_, ProfiledSize());
  // The profiled batches are the first ones of the superbatch.
  const Superbatch rest = {.first = first.end(),
                           .count = std::clamp<int64_t>(size_ - first.count, 0,
                                                        End() - first.end())};
  HEARTH_RETURN_IF_ERROR(Sample(rest, stop));
  first.count += rest.count;
  return first;
}

absl::StatusOr<int64_t> SuperbatchPass::ProfiledSize() const {
  HEARTH_ASSIGN_OR_RETURN(const uint64_t free_bytes, files_.FreeBytes());
  const int64_t shards =
      SuperbatchSize(inspector_.profile(),
                     LimitsFor(free_bytes, context_.options.cpu_cache_bytes));
  return InShards(std::max<int64_t>(1, shards / pass_.shards));
}

int64_t SuperbatchPass::InShards(int64_t batches) const {
  return std::min(batches, kMaxSuperbatch) * pass_.shards;
}

absl::Status SuperbatchPass::Sample(const Superbatch& superbatch,
                                    const std::stop_token& stop) {
  return Timed(kInspect, [&] {
    return inspector_.Sample(superbatch, context_.neighbors.cache(), stop,
                             [](std::stop_token) { return absl::OkStatus(); });
  });
}

absl::Status SuperbatchPass::Inspect(const Superbatch& current,
                                     const Superbatch& next,
                                     const std::stop_token& stop) {
  if (next.count > 0) {
    HEARTH_RETURN_IF_ERROR(
        Timed(kSwitch, [&] { return context_.neighbors.Load(); }));
  }
  const auto plan = [&](std::stop_token planning) {
    return Timed(kChangeset, [&] { return Plan(current, planning); });
  };
  HEARTH_RETURN_IF_ERROR(Timed(kInspect, [&] {
    return inspector_.Sample(next, context_.neighbors.cache(), stop, plan);
  }));
  context_.neighbors.Unload();
  return absl::OkStatus();
}

absl::Status SuperbatchPass::Plan(const Superbatch& superbatch,
                                  std::stop_token stop) {
  HEARTH_ASSIGN_OR_RETURN(
      const std::unique_ptr<ChangesetFileWriter> writer,
      ChangesetFileWriter::Create(files_.files(), files_.PlanPath(superbatch)));
  const std::unique_ptr<plan::AccessTrace> trace = files_.NewTrace(superbatch);
  const absl::Status status =
      PlanChangesets(*trace,
                     {.num_nodes = context_.data.topology.num_nodes(),
                      .capacity = Capacity()},
                     *writer, std::move(stop))
          .status();
  HEARTH_RETURN_IF_ERROR(status);
  HEARTH_ASSIGN_OR_RETURN(plan_offsets_, writer->Finish());
  return absl::OkStatus();
}

int64_t SuperbatchPass::Capacity() const {
  return cache::DirectCache::Capacity(context_.options.cpu_cache_bytes,
                                      context_.data.topology.num_nodes(),
                                      context_.data.row_format().row_bytes());
}

absl::Status SuperbatchPass::Execute(const Superbatch& superbatch,
                                     const Strategy::Consumer& consumer,
                                     const std::stop_token& stop) {
  const ExecutorContext context = {.data = context_.data,
                                   .read_queues = context_.read_queues,
                                   .clock = context_.clock,
                                   .pass = pass_,
                                   .seeds = seeds_,
                                   .files = files_,
                                   .inputs = context_.inputs,
                                   .admitted = context_.admitted,
                                   .capacity = Capacity(),
                                   .extractors = context_.pipeline.extractors,
                                   .io_depth = context_.options.io_depth};
  std::unique_ptr<Executor> executor;
  HEARTH_RETURN_IF_ERROR(Timed(kSwitch, [&]() -> absl::Status {
    HEARTH_ASSIGN_OR_RETURN(
        executor, Executor::Make(context, superbatch, std::move(plan_offsets_),
                                 stop, whole_));
    return absl::OkStatus();
  }));
  PassReport part;
  const double start = context_.clock.SteadySeconds();
  const absl::Status status = executor->Run(
      [&](absl::Span<const train::BatchView> shards) {
        report_ = With(part);
        AddInspection();
        return consumer(shards);
      },
      stop, part);
  whole_ = With(part);
  whole_.phases[kExecute].seconds += context_.clock.SteadySeconds() - start;
  HEARTH_RETURN_IF_ERROR(status);
  return files_.RemovePlan(superbatch);
}

absl::Status SuperbatchPass::CountReads(const Superbatch& superbatch,
                                        RowReadCounter& reads,
                                        const std::stop_token& stop) {
  HEARTH_ASSIGN_OR_RETURN(
      const std::unique_ptr<ChangesetFileReader> plan,
      ChangesetFileReader::Open(files_.files(), files_.PlanPath(superbatch),
                                std::move(plan_offsets_)));
  HEARTH_ASSIGN_OR_RETURN(std::vector<store::NodeId> initial,
                          plan->ReadInitial());
  HEARTH_RETURN_IF_ERROR(reads.Fill(std::move(initial)));
  for (int64_t i = 0; i < superbatch.count; ++i) {
    if (stop.stop_requested()) {
      return absl::CancelledError("counting reads: stopped on request");
    }
    HEARTH_ASSIGN_OR_RETURN(const sample::MiniBatch sample,
                            files_.TakeSample(superbatch.first + i));
    HEARTH_ASSIGN_OR_RETURN(const Changeset changeset, plan->ReadUpdate(i));
    HEARTH_RETURN_IF_ERROR(reads.Add(sample.input_nodes, changeset));
    whole_.seeds += sample.num_seeds;
  }
  whole_.batches += superbatch.count / pass_.shards;
  return files_.RemovePlan(superbatch);
}

// The report so far, with `part`, the report of the superbatch that is being
// executed.
PassReport SuperbatchPass::With(const PassReport& part) const {
  PassReport sum = whole_;
  sum.batches += part.batches;
  sum.seeds += part.seeds;
  sum.rows_needed += part.rows_needed;
  sum.pulled += part.pulled;
  sum.pushed += part.pushed;
  sum.sum_of_ages += part.sum_of_ages;
  sum.bytes_needed += part.bytes_needed;
  sum.bytes_read = *sum.bytes_read + part.bytes_read.value_or(0);
  sum.read_ops = *sum.read_ops + part.read_ops.value_or(0);
  sum.io_wait_seconds = *sum.io_wait_seconds + part.io_wait_seconds.value_or(0);
  sum.rows_read = *sum.rows_read + part.rows_read.value_or(0);
  if (!part.hits.empty()) sum.hits.front().rows += part.hits.front().rows;
  if (!part.phases.empty()) {
    sum.phases[kCacheUpdate].seconds += part.phases.front().seconds;
  }
  // The stages of sampling come before the stages of the main loop.
  const size_t first = inspector_.stages().size();
  for (size_t i = 0; i < part.stages.size(); ++i) {
    pipeline::StageStats& stage = sum.stages[first + i];
    stage.busy_seconds += part.stages[i].busy_seconds;
    stage.starved_seconds += part.stages[i].starved_seconds;
    stage.blocked_seconds += part.stages[i].blocked_seconds;
    stage.items += part.stages[i].items;
    stage.queue_length = part.stages[i].queue_length;
  }
  return sum;
}

// Adds the figures of sampling, which is ahead of execution, to report_.
void SuperbatchPass::AddInspection() {
  const io::ReadTally tally = inspector_.tally();
  report_.bytes_read = *report_.bytes_read + tally.bytes_read;
  report_.read_ops = *report_.read_ops + tally.requests;
  report_.io_wait_seconds = *report_.io_wait_seconds + tally.wait_seconds;
  report_.phases[kSample].seconds = inspector_.seconds();
  for (size_t i = 0; i < inspector_.stages().size(); ++i) {
    const pipeline::StageStats& stage = inspector_.stages()[i];
    report_.stages[i].busy_seconds = stage.busy_seconds;
    report_.stages[i].starved_seconds = stage.starved_seconds;
    report_.stages[i].blocked_seconds = stage.blocked_seconds;
    report_.stages[i].items = stage.items;
  }
  const sample::ListTally lists = inspector_.lists();
  report_.list_hits.front().lists = lists.cached;
  if (report_.list_hits.size() > 1) report_.list_hits.back().lists = lists.held;
  report_.lists_read = lists.stored;
  report_.seconds = context_.clock.SteadySeconds() - start_;
}

}  // namespace hearth::strategy
