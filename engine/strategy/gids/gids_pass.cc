#include "engine/strategy/gids/gids_pass.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <deque>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status.h"
#include "engine/cache/row_memory.h"
#include "engine/io/row_reader.h"
#include "engine/sample/batch_shape.h"
#include "engine/strategy/sampled_batch.h"
#include "engine/train/train_step.h"

// The stages of a pass:
//
//  sample    Several threads.
//  locate    One thread, in order. An arriving batch enters the window; once
//            the window is full behind it, its rows are located, and it leaves
//            the window. At the end of the pass the window shrinks.
//  read      One thread, in order: the accumulator (section 3.2). A batch joins
//            the batches being read while fewer reads are under way than the
//            disk needs; the oldest one goes on when its own rows have arrived.
//  assemble  One thread, in order: widens rows from the constant buffer, from
//            lines of the window cache and from staging memory; then puts rows
//            that the cache keeps into their lines. A GPU does it if it has the
//            lines.
//  train     The caller's thread.
//
// So the window cache's table is ahead of its lines: the table is up to date
// for the batch being located, the lines for the batch being assembled. Rows
// are taken from a line, and put into it, in the order of the batches.

namespace hearth::strategy {

/// A batch with the places of its rows, and the rows that were read.
class GidsBatch final : public SampledBatch {
 public:
  using SampledBatch::SampledBatch;

  LocatedRows rows;
  // The missing rows, as stored, in their order.
  cache::AlignedBuffer missing;
  // The input rows, if they stay on a GPU.
  std::unique_ptr<const train::DeviceRows> device_rows;
  uint64_t staged_bytes = 0;
  io::ReadTally tally;
  // Batches being read when this one joined, itself included; whether a limit
  // kept it from joining earlier.
  int64_t merged = 0;
  bool held_by_merge_max = false;
  bool held_by_staging = false;
};

namespace {

using Batches = std::deque<std::unique_ptr<GidsBatch>>;

std::unique_ptr<GidsBatch> ToBatch(std::unique_ptr<pipeline::Item> item) {
  return std::unique_ptr<GidsBatch>(static_cast<GidsBatch*>(item.release()));
}

uint64_t StagedBytesOf(const GidsBatch& batch, int64_t row_bytes) {
  return StagedBytes(batch.num_rows(), std::ssize(batch.rows.missing),
                     row_bytes) +
         sample::ShapeOf(batch.sample()).MemoryBytes();
}

}  // namespace

RandomStream EvictionStream(const Pass& pass, int64_t number) {
  return RandomStream(pass.sampler.data_seed, RandomPurpose::kEviction,
                      pass.epoch_key, static_cast<uint64_t>(number));
}

uint64_t StagedBytes(int64_t num_rows, int64_t num_missing, int64_t row_bytes) {
  const auto missing = static_cast<uint64_t>(num_missing);
  return static_cast<uint64_t>(num_rows) * LocatedRows::kBytesPerRow +
         cache::AlignedBuffer::MemoryBytes(missing *
                                           static_cast<uint64_t>(row_bytes)) +
         missing * io::kPlanBytesPerRow;
}

GidsPass::GidsPass(const GidsContext& context, const Pass& pass,
                   PassReport& report)
    : context_(context),
      pass_(pass),
      report_(report),
      seeds_(pass.order->Epoch(pass.epoch_key)),
      locator_(context.buffer.nodes(), context.window) {
  report_ = {};
  report_.bytes_read = 0;
  report_.read_ops = 0;
  report_.io_wait_seconds = 0;
  report_.rows_read = 0;
  report_.hits = {{.level = "constant_buffer"}, {.level = "window_cache"}};
  report_.overlap =
      ReadOverlap{.storage_path = absl::StrCat(context.read_queues.kind(),
                                               ", host-initiated"),
                  .target_reads = context.limits.target_reads,
                  .depth = context.limits.depth};
}

absl::Status GidsPass::Run(const Strategy::Consumer& consumer,
                           std::stop_token stop) {
  std::vector<pipeline::Stage> stages = SampleStages(
      pass_, seeds_, context_.source,
      {.threads = context_.samplers, .queue_capacity = kSampledWaiting});
  stages.push_back(LocateStage());
  stages.push_back(ReadStage());
  stages.push_back(AssembleStage());
  const std::unique_ptr<pipeline::Pipeline> pipeline =
      pipeline::NewPipeline(std::move(stages), "train", context_.clock);
  const Delivery delivery = {
      .clock = context_.clock,
      .range = ShardsOf(pass_, static_cast<int64_t>(seeds_.size())),
      .shards = pass_.shards,
      .input_pools = pass_.input_pools,
      .row_bytes = context_.features.layout.row_bytes,
      .make =
          [](int64_t number) { return std::make_unique<GidsBatch>(number); },
      .count =
          [this](const SampledBatch& batch, PassReport& /*report*/) {
            Count(static_cast<const GidsBatch&>(batch));
          }};
  return Deliver(*pipeline, delivery, consumer, std::move(stop), report_);
}

void GidsPass::Count(const GidsBatch& batch) {
  report_.hits[0].rows += std::ssize(batch.rows.buffer_slots);
  report_.hits[1].rows += std::ssize(batch.rows.lines);
  *report_.rows_read += batch.tally.rows;
  AddReads(batch.tally, report_);
  ReadOverlap& overlap = *report_.overlap;
  ++overlap.batches;
  overlap.merged += batch.merged;
  overlap.held_by_merge_max += batch.held_by_merge_max ? 1 : 0;
  overlap.held_by_staging += batch.held_by_staging ? 1 : 0;
  overlap.bypassed += batch.rows.bypassed();
}

pipeline::Stage GidsPass::LocateStage() {
  return {
      .name = "locate",
      .queue_capacity = QueueCapacity(pass_, kWaiting),
      .loop = [this](pipeline::StagePorts& ports) { return LocateAll(ports); }};
}

pipeline::Stage GidsPass::ReadStage() {
  return {
      .name = "read",
      .queue_capacity = QueueCapacity(pass_, kWaiting),
      .loop = [this](pipeline::StagePorts& ports) { return ReadAll(ports); },
      .interrupt = [this] { Abandon(); }};
}

pipeline::Stage GidsPass::AssembleStage() {
  return {.name = "assemble",
          .queue_capacity = QueueCapacity(pass_, kWaiting),
          .work = [this](int /*thread*/, pipeline::Item& item) {
            return Assemble(static_cast<GidsBatch&>(item));
          }};
}

absl::Status GidsPass::LocateAll(pipeline::StagePorts& ports) {
  const auto ahead =
      static_cast<size_t>(context_.window_batches * pass_.shards);
  Batches window;
  while (true) {
    std::unique_ptr<GidsBatch> entering = ToBatch(ports.Take());
    const bool ended = entering == nullptr;
    if (!ended) {
      locator_.Enter(entering->sample().input_nodes, entering->rows);
      window.push_back(std::move(entering));
    }
    while (!window.empty() && (ended || window.size() > ahead)) {
      GidsBatch& batch = *window.front();
      locator_.Locate(batch.sample().input_nodes,
                      EvictionStream(pass_, batch.number()), batch.rows);
      if (!ports.Put(std::move(window.front()))) return absl::OkStatus();
      window.pop_front();
    }
    if (ended) return absl::OkStatus();
  }
}

absl::Status GidsPass::ReadAll(pipeline::StagePorts& ports) {
  const store::StoredFeatures& features = context_.features;
  // Batches that are being read, and the next one, which waits for staging
  // memory.
  Batches reading;
  std::unique_ptr<GidsBatch> next;
  // Destroyed before the batches that its reads write to.
  HEARTH_ASSIGN_OR_RETURN(
      io::QueuedStream queued,
      io::QueuedStream::Open(context_.read_queues, context_.limits.depth,
                             *features.device, features.layout, context_.clock,
                             context_.row_check));
  io::RowStream& stream = queued.reader();
  // Number of oldest batches in `reading` that have all their rows.
  size_t num_done = 0;
  const auto put_oldest = [&] {
    std::unique_ptr<GidsBatch> oldest = std::move(reading.front());
    reading.pop_front();
    --num_done;
    return ports.Put(std::move(oldest));
  };
  while (true) {
    while (stream.TakeOff()) ++num_done;
    while (num_done > 0 && ports.CanPut()) {
      if (!put_oldest()) return absl::OkStatus();
    }
    // Batches join as long as the disk needs more reads.
    bool ended = false;
    while (stream.num_lists() == 0 ||
           stream.outstanding() < context_.limits.target_reads) {
      if (next == nullptr) {
        // Waits for a batch only if none is being read.
        next = ToBatch(reading.empty() ? ports.Take() : ports.TryTake());
        if (next == nullptr) {
          ended = reading.empty();
          break;
        }
        next->staged_bytes = StagedBytesOf(*next, features.layout.row_bytes);
      }
      if (static_cast<int64_t>(stream.num_lists()) >=
          context_.limits.merge_max) {
        next->held_by_merge_max = true;
        break;
      }
      if (!HasRoomFor(*next)) {
        next->held_by_staging = true;
        break;
      }
      reading.push_back(std::move(next));
      HEARTH_RETURN_IF_ERROR(Admit(*reading.back(), stream));
      reading.back()->merged = static_cast<int64_t>(stream.num_lists());
    }
    if (ended) return absl::OkStatus();
    if (abandon_.stop_requested()) {
      return absl::CancelledError(
          absl::StrCat(features.device->path(), ": reading was stopped"));
    }
    if (stream.outstanding() > 0) {
      HEARTH_RETURN_IF_ERROR(stream.Advance());
    } else if (num_done > 0) {
      if (!put_oldest()) return absl::OkStatus();
    } else if (reading.empty() && next != nullptr) {
      WaitForRoom(*next);
    }
  }
}

bool GidsPass::HasRoomForLocked(const GidsBatch& batch) const {
  return staged_bytes_ == 0 ||
         staged_bytes_ + batch.staged_bytes <= context_.limits.staging_bytes;
}

bool GidsPass::HasRoomFor(const GidsBatch& batch) {
  absl::MutexLock lock(&mutex_);
  return HasRoomForLocked(batch);
}

void GidsPass::WaitForRoom(const GidsBatch& batch) {
  absl::MutexLock lock(&mutex_);
  while (!HasRoomForLocked(batch) && !abandon_.stop_requested()) {
    space_freed_.Wait(&mutex_);
  }
}

void GidsPass::Abandon() {
  absl::MutexLock lock(&mutex_);
  abandon_.request_stop();
  space_freed_.SignalAll();
}

absl::Status GidsPass::Admit(GidsBatch& batch, io::RowStream& stream) {
  const size_t row_bytes = context_.features.layout.row_bytes;
  {
    absl::MutexLock lock(&mutex_);
    staged_bytes_ += batch.staged_bytes;
  }
  HEARTH_RETURN_IF_ERROR(
      batch.missing.Resize(batch.rows.missing.size() * row_bytes));
  return stream.Add(
      batch.rows.missing,
      [to = batch.missing.data(), row_bytes](size_t position,
                                             const std::byte* row) {
        std::memcpy(to + position * row_bytes, row, row_bytes);
      },
      batch.tally);
}

absl::Status GidsPass::Assemble(GidsBatch& batch) {
  HEARTH_RETURN_IF_ERROR(BringTogether(batch));
  batch.missing = {};
  absl::MutexLock lock(&mutex_);
  staged_bytes_ -= batch.staged_bytes;
  space_freed_.Signal();
  return absl::OkStatus();
}

// Assembles the rows of `batch`, on the GPU if all models take them there.
absl::Status GidsPass::BringTogether(GidsBatch& batch) {
  const int64_t dim = context_.features.dim;
  const ReadBatch read = {
      .rows = batch.rows,
      .buffer = context_.buffer,
      .missing = {batch.missing.data(), batch.missing.size()}};
  if (pass_.rows_on_gpu) {
    HEARTH_ASSIGN_OR_RETURN(batch.device_rows,
                            context_.assembler.AssembleOnDevice(read));
    if (batch.device_rows != nullptr) {
      batch.LeaveInputs(dim, *batch.device_rows);
      return absl::OkStatus();
    }
  }
  HEARTH_ASSIGN_OR_RETURN(float* const inputs,
                          batch.TakeInputs(dim, context_.inputs));
  return context_.assembler.Assemble(read, inputs);
}

}  // namespace hearth::strategy
