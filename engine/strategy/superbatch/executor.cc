#include "engine/strategy/superbatch/executor.h"

#include <algorithm>
#include <cstring>
#include <deque>
#include <iterator>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status.h"
#include "engine/cache/assemble.h"
#include "engine/io/row_reader.h"
#include "engine/store/feature_rows.h"
#include "engine/strategy/sampled_batch.h"
#include "engine/strategy/sampling.h"

// The main loop's stages:
//
//  load      Reads the sample and the changeset of a batch from their files.
//  locate    In order, by one thread: looks the nodes up in the table, and
//            updates the table.
//  read      Several threads, each with reads of its own in flight: reads the
//            rows that are not inside, straight into the input rows (and those
//            that enter the cache into a buffer, as they are stored). The next
//            batch joins the one being read once the last reads of that are in
//            flight, unless batches wait already: then it would only take
//            memory.
//  assemble  In order, by a team: widens the rows that were found from their
//            slots; then moves the entering rows into the slots of those that
//            leave.
//
// So the table is ahead of the slots: it is up to date for the batch being
// located, the slots for the batch being assembled. Rows are taken from a slot,
// and put into it, in the order of the batches, and the disk is read without a
// pause.

namespace hearth::strategy {

/// A batch of the main loop.
class ExecutedBatch final : public SampledBatch {
 public:
  using SampledBatch::SampledBatch;

  Changeset changeset;
  float* inputs = nullptr;
  // Slots of the rows found, and their positions in the batch.
  std::vector<int64_t> hit_slots;
  std::vector<int32_t> hit_positions;
  // Nodes whose rows are to be read, their positions, and for each the index in
  // in_ids if it enters the cache, else -1.
  std::vector<int64_t> misses;
  std::vector<int32_t> miss_positions;
  std::vector<int32_t> miss_entering;
  // Rows found that are needed for the first time since the cache was filled
  // with them: they count as read, not as hits.
  int64_t first_uses = 0;
  // Rows that enter the cache, as stored, and their slots.
  BufferPool::Lease entering;
  std::vector<int64_t> entering_slots;
  io::ReadTally tally;
  double update_seconds = 0;
};

namespace {

using Batches = std::deque<std::unique_ptr<ExecutedBatch>>;

std::unique_ptr<ExecutedBatch> ToBatch(std::unique_ptr<pipeline::Item> item) {
  return std::unique_ptr<ExecutedBatch>(
      static_cast<ExecutedBatch*>(item.release()));
}

void CountBatch(const ExecutedBatch& batch, PassReport& report) {
  AddReads(batch.tally, report);
  const auto hits =
      static_cast<int64_t>(batch.hit_slots.size()) - batch.first_uses;
  report.rows_read = report.rows_read.value_or(0) + batch.num_rows() - hits;
  report.hits.front().rows += hits;
  report.phases.front().seconds += batch.update_seconds;
}

}  // namespace

Executor::Executor(const ExecutorContext& context, const Superbatch& superbatch,
                   cache::DirectCache rows,
                   std::unique_ptr<ThreadTeam> assemblers)
    : context_(context),
      superbatch_(superbatch),
      rows_(std::move(rows)),
      assemblers_(std::move(assemblers)),
      unused_(static_cast<size_t>(context.capacity)) {}

absl::StatusOr<std::unique_ptr<Executor>> Executor::Make(
    const ExecutorContext& context, const Superbatch& superbatch,
    std::vector<uint64_t> offsets, std::stop_token stop, PassReport& report) {
  HEARTH_ASSIGN_OR_RETURN(
      cache::DirectCache rows,
      cache::DirectCache::Make(context.data.topology.num_nodes(),
                               context.capacity, context.data.row_format()));
  HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<ThreadTeam> assemblers,
                          ThreadTeam::Create(context.extractors));
  std::unique_ptr<Executor> executor(new Executor(
      context, superbatch, std::move(rows), std::move(assemblers)));
  HEARTH_ASSIGN_OR_RETURN(
      executor->plan_,
      ChangesetFileReader::Open(context.files.files(),
                                context.files.PlanPath(superbatch),
                                std::move(offsets)));
  HEARTH_RETURN_IF_ERROR(executor->Fill(std::move(stop), report));
  return executor;
}

absl::StatusOr<io::QueuedReader> Executor::OpenFiller(
    io::ReadQueues& queues, const Clock& clock, int io_depth,
    const store::StoredFeatures& features, const io::RowCheck* check) {
  return io::QueuedReader::Open(queues, std::min(io_depth, kFillDepth),
                                *features.device, features.layout, clock, check,
                                kFillReadBytes);
}

absl::Status Executor::Fill(std::stop_token stop, PassReport& report) {
  HEARTH_ASSIGN_OR_RETURN(std::vector<store::NodeId> nodes,
                          plan_->ReadInitial());
  // In the order of the disk, so that neighboring rows are read together; part
  // by part, so that the memory for planning reads stays small.
  std::sort(nodes.begin(), nodes.end());
  rows_.Fill(nodes);
  HEARTH_ASSIGN_OR_RETURN(
      io::QueuedReader filler,
      OpenFiller(context_.read_queues, context_.clock, context_.io_depth,
                 context_.data.features, context_.data.row_check.get()));
  const auto row_bytes = static_cast<size_t>(rows_.format().row_bytes());
  for (size_t first = 0; first < nodes.size(); first += kFilledAtOnce) {
    io::ReadTally tally;
    const absl::Status status = filler.reader().Read(
        absl::MakeConstSpan(nodes).subspan(first, kFilledAtOnce),
        [&](size_t position, const std::byte* row) {
          const size_t slot = first + position;
          std::memcpy(rows_.row(static_cast<int64_t>(slot)), row, row_bytes);
          unused_[slot] = true;
        },
        stop, tally);
    AddReads(tally, report);
    HEARTH_RETURN_IF_ERROR(status);
  }
  return absl::OkStatus();
}

absl::Status Executor::Run(const Strategy::Consumer& consumer,
                           std::stop_token stop, PassReport& report) {
  report.hits = {{.level = "cpu_cache"}};
  report.phases = {{.name = "cache_update"}};
  const std::unique_ptr<pipeline::Pipeline> pipeline = pipeline::NewPipeline(
      {LoadStage(), LocateStage(), ReadStage(), AssembleStage()}, "train",
      context_.clock);
  const Delivery delivery = {
      .clock = context_.clock,
      .range = {.first = superbatch_.first, .count = superbatch_.count},
      .shards = context_.pass.shards,
      .input_pools = context_.pass.input_pools,
      .row_bytes = rows_.format().row_bytes(),
      .make =
          [](int64_t number) {
            return std::make_unique<ExecutedBatch>(number);
          },
      .count =
          [](const SampledBatch& batch, PassReport& part) {
            CountBatch(static_cast<const ExecutedBatch&>(batch), part);
          }};
  return Deliver(*pipeline, delivery, consumer, std::move(stop), report);
}

pipeline::Stage Executor::LoadStage() {
  return {.name = "load",
          .width = context_.extractors,
          .queue_capacity = QueueCapacity(context_.pass, kLoadedWaiting),
          .work = [this](int /*thread*/, pipeline::Item& item) {
            return Load(static_cast<ExecutedBatch&>(item));
          }};
}

pipeline::Stage Executor::LocateStage() {
  return {.name = "locate",
          .queue_capacity = QueueCapacity(context_.pass, 1),
          .work = [this](int /*thread*/, pipeline::Item& item) {
            Locate(static_cast<ExecutedBatch&>(item));
            return absl::OkStatus();
          }};
}

pipeline::Stage Executor::ReadStage() {
  return {
      .name = "read",
      .width = context_.extractors,
      .queue_capacity = QueueCapacity(context_.pass, 1),
      .loop = [this](pipeline::StagePorts& ports) { return ReadAll(ports); },
      .interrupt = [this] { abandon_.request_stop(); }};
}

pipeline::Stage Executor::AssembleStage() {
  return {.name = "assemble",
          // Assembled batches are big: one waits while one is trained.
          .queue_capacity = QueueCapacity(context_.pass, 1),
          .work = [this](int /*thread*/, pipeline::Item& item) {
            Assemble(static_cast<ExecutedBatch&>(item));
            return absl::OkStatus();
          }};
}

absl::Status Executor::Load(ExecutedBatch& batch) const {
  HEARTH_ASSIGN_OR_RETURN(batch.sample(),
                          context_.files.TakeSample(batch.number()));
  HEARTH_ASSIGN_OR_RETURN(
      batch.changeset, plan_->ReadUpdate(batch.number() - superbatch_.first));
  TakeLabels(context_.pass, context_.seeds, context_.data.labels, batch);
  return absl::OkStatus();
}

// Splits the batch's rows into rows inside the cache and rows to read, and
// updates the table for the next batch.
void Executor::Locate(ExecutedBatch& batch) {
  constexpr size_t kAhead = 16;
  const std::vector<store::NodeId>& nodes = batch.sample().input_nodes;
  for (size_t i = 0; i < nodes.size(); ++i) {
    if (i + kAhead < nodes.size()) rows_.Prefetch(nodes[i + kAhead]);
    const auto position = static_cast<int32_t>(i);
    const int64_t slot = rows_.Find(nodes[i]);
    if (slot == cache::DirectCache::kAbsent) {
      batch.misses.push_back(nodes[i]);
      batch.miss_positions.push_back(position);
      continue;
    }
    if (unused_[slot]) {
      unused_[slot] = false;
      ++batch.first_uses;
    }
    batch.hit_slots.push_back(slot);
    batch.hit_positions.push_back(position);
  }
  LocateEntering(batch);
  rows_.Replace(batch.changeset.in_ids, batch.changeset.out_ids,
                batch.entering_slots);
}

void Executor::LocateEntering(ExecutedBatch& batch) {
  const std::vector<int32_t>& positions = batch.changeset.in_positions;
  entering_.assign(static_cast<size_t>(batch.num_rows()), -1);
  for (size_t i = 0; i < positions.size(); ++i) {
    entering_[positions[i]] = static_cast<int32_t>(i);
  }
  batch.miss_entering.reserve(batch.misses.size());
  for (const int32_t position : batch.miss_positions) {
    batch.miss_entering.push_back(entering_[position]);
  }
}

absl::Status Executor::ReadAll(pipeline::StagePorts& ports) {
  const store::StoredFeatures& features = context_.data.features;
  Batches reading;
  // Destroyed before the batches that its reads write to.
  HEARTH_ASSIGN_OR_RETURN(
      io::QueuedStream queued,
      io::QueuedStream::Open(context_.read_queues, context_.io_depth,
                             *features.device, features.layout, context_.clock,
                             context_.data.row_check.get()));
  io::RowStream& stream = queued.reader();
  // How many of the oldest batches in `reading` have all their rows.
  size_t num_done = 0;
  while (true) {
    if (reading.empty() ||
        (reading.size() < kReadAtOnce &&
         stream.outstanding() < context_.io_depth && ports.CanPut())) {
      std::unique_ptr<ExecutedBatch> next =
          ToBatch(reading.empty() ? ports.Take() : ports.TryTake());
      if (next != nullptr) {
        reading.push_back(std::move(next));
        HEARTH_RETURN_IF_ERROR(Begin(*reading.back(), stream));
      } else if (reading.empty()) {
        return absl::OkStatus();
      }
    }
    while (stream.TakeOff()) ++num_done;
    // Waits for a place where nothing else is to be done.
    while (num_done > 0 && (stream.outstanding() == 0 || ports.CanPut())) {
      std::unique_ptr<ExecutedBatch> oldest = std::move(reading.front());
      reading.pop_front();
      --num_done;
      if (!ports.Put(std::move(oldest))) return absl::OkStatus();
    }
    if (abandon_.stop_requested()) {
      return absl::CancelledError(
          absl::StrCat(features.device->path(), ": reading was stopped"));
    }
    if (stream.outstanding() > 0) HEARTH_RETURN_IF_ERROR(stream.Advance());
  }
}

// Plans the reads of a batch's missing rows, with their destinations.
absl::Status Executor::Begin(ExecutedBatch& batch, io::RowStream& stream) {
  const store::RowFormat& format = rows_.format();
  const auto row_bytes = static_cast<size_t>(format.row_bytes());
  HEARTH_ASSIGN_OR_RETURN(batch.inputs,
                          batch.TakeInputs(format.dim, context_.inputs));
  batch.entering = context_.admitted.Take();
  HEARTH_RETURN_IF_ERROR(batch.entering.buffer().Resize(
      batch.changeset.in_ids.size() * row_bytes));
  return stream.Add(
      batch.misses,
      [&batch, &format, row_bytes](size_t miss, const std::byte* row) {
        cache::WidenRow(
            format, row,
            batch.inputs + int64_t{batch.miss_positions[miss]} * format.dim);
        const int32_t index = batch.miss_entering[miss];
        if (index < 0) return;
        std::memcpy(batch.entering.buffer().data() +
                        static_cast<size_t>(index) * row_bytes,
                    row, row_bytes);
      },
      batch.tally);
}

void Executor::Assemble(ExecutedBatch& batch) {
  rows_.Scatter(*assemblers_, batch.hit_slots, batch.hit_positions,
                batch.inputs);
  const double start = context_.clock.SteadySeconds();
  const auto row_bytes = static_cast<size_t>(rows_.format().row_bytes());
  const std::byte* entering = batch.entering.buffer().data();
  assemblers_->RunRanges(
      std::ssize(batch.entering_slots), cache::kRowsPerPart,
      [&](int64_t first, int64_t count) {
        for (int64_t i = first; i < first + count; ++i) {
          std::memcpy(rows_.row(batch.entering_slots[i]),
                      entering + static_cast<size_t>(i) * row_bytes, row_bytes);
        }
      });
  // The rows are in the cache: another batch may use the memory.
  batch.entering = {};
  batch.update_seconds = context_.clock.SteadySeconds() - start;
}

absl::StatusOr<RowReadCounter> RowReadCounter::Make(
    io::ReadQueues& queues, const Clock& clock, int depth,
    const store::StoredFeatures& features) {
  HEARTH_ASSIGN_OR_RETURN(
      io::QueuedReader reader,
      io::QueuedReader::Open(queues, depth, *features.device, features.layout,
                             clock));
  HEARTH_ASSIGN_OR_RETURN(
      io::QueuedReader filler,
      Executor::OpenFiller(queues, clock, depth, features, nullptr));
  return RowReadCounter(features, filler.reader().cost(),
                        reader.reader().cost());
}

RowReadCounter::RowReadCounter(const store::StoredFeatures& features,
                               const io::ReadCost& filling,
                               const io::ReadCost& executing)
    : features_(features),
      filling_(filling),
      executing_(executing),
      inside_(static_cast<size_t>(features.layout.num_rows)) {}

absl::Status RowReadCounter::Fill(std::vector<store::NodeId> nodes) {
  std::fill(inside_.begin(), inside_.end(), false);
  // Reads are planned as Executor plans them.
  std::sort(nodes.begin(), nodes.end());
  const absl::Span<const store::NodeId> all = nodes;
  for (size_t first = 0; first < nodes.size();
       first += Executor::kFilledAtOnce) {
    HEARTH_RETURN_IF_ERROR(CountReads(
        all.subspan(first, Executor::kFilledAtOnce), filling_, reads_.filling));
  }
  for (const store::NodeId node : nodes) {
    inside_[static_cast<size_t>(node)] = true;
  }
  return absl::OkStatus();
}

absl::Status RowReadCounter::Add(absl::Span<const store::NodeId> nodes,
                                 const Changeset& changeset) {
  misses_.clear();
  for (const store::NodeId node : nodes) {
    if (!inside_[static_cast<size_t>(node)]) misses_.push_back(node);
  }
  HEARTH_RETURN_IF_ERROR(CountReads(misses_, executing_, reads_.executing));
  rows_needed_ += static_cast<int64_t>(nodes.size());
  for (const store::NodeId node : changeset.out_ids) {
    inside_[static_cast<size_t>(node)] = false;
  }
  for (const store::NodeId node : changeset.in_ids) {
    inside_[static_cast<size_t>(node)] = true;
  }
  return absl::OkStatus();
}

absl::Status RowReadCounter::CountReads(absl::Span<const store::NodeId> nodes,
                                        const io::ReadCost& cost,
                                        io::ReadTally& tally) {
  HEARTH_RETURN_IF_ERROR(io::Coalesce(
      nodes, features_.layout, features_.device->alignment(), cost, plan_));
  tally.rows += static_cast<int64_t>(nodes.size());
  tally.payload_bytes += static_cast<int64_t>(plan_.payload_bytes);
  tally.bytes_read += static_cast<int64_t>(plan_.read_bytes);
  tally.requests += std::ssize(plan_.reads);
  return absl::OkStatus();
}

}  // namespace hearth::strategy
