#include "engine/strategy/foresight/timeline.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "engine/sample/history.h"
#include "engine/strategy/sampling.h"

namespace hearth::strategy {

namespace {

int64_t NumShards(const Pass& pass) {
  return NumBatches(pass.order->size(), pass.batch_size) * pass.shards;
}

// Whatever embeddings are there when the pass begins.
bool IsSame(const sample::HistoryPolicy* a, const sample::HistoryPolicy* b) {
  if (a == nullptr || b == nullptr) return a == b;
  return a->candidates == b->candidates && a->staleness == b->staleness;
}

// Passes of one job share the orders of their seeds.
bool IsSame(const Pass& a, const Pass& b) {
  return a.order == b.order && a.epoch_key == b.epoch_key &&
         a.batch_size == b.batch_size && a.shards == b.shards &&
         a.window == b.window && a.sampler.fanouts == b.sampler.fanouts &&
         a.sampler.fanouts_of == b.sampler.fanouts_of &&
         a.sampler.layer_nodes == b.sampler.layer_nodes &&
         a.sampler.once == b.sampler.once &&
         a.sampler.data_seed == b.sampler.data_seed &&
         IsSame(a.history, b.history);
}

// Passes that repeat from the beginning on.
struct Cycle {
  // Number of passes; 0 without repetitions.
  size_t runs = 0;
  // How often they are there as a whole, at least twice.
  size_t repetitions = 0;
  // Whether the beginning follows once more, but not all of it.
  bool has_part = false;
};

// The shortest cycle.
Cycle FindCycle(const std::vector<size_t>& order) {
  for (size_t runs = 1; 2 * runs <= order.size(); ++runs) {
    size_t same = runs;
    while (same < order.size() && order[same] == order[same - runs]) ++same;
    if (same >= 2 * runs) return {runs, same / runs, same % runs > 0};
  }
  return {};
}

}  // namespace

Timeline::Timeline(PassSequence sequence, double first_epochs,
                   int64_t first_shard)
    : sequence_(std::move(sequence)),
      first_epochs_(first_epochs),
      first_shard_(first_shard) {
  begins_.push_back(0);
  for (const size_t pass : sequence_.order) {
    begins_.push_back(begins_.back() + NumShards(sequence_.passes[pass]));
  }
  for (size_t run = 1; run < begins_.size(); ++run) begins_[run] -= first_shard;
  cycle_runs_ = sequence_.order.size();
  if (first_shard > 0 || size() == 0) return;
  const Cycle cycle = FindCycle(sequence_.order);
  // Passes without shards repeat at the same position.
  if (begins_[cycle.runs] == 0) return;
  cycle_runs_ = cycle.runs;
  cycles_ = cycle.repetitions;
  rest_begin_ = begins_[cycle_runs_ * (cycle.has_part ? cycles_ : cycles_ - 1)];
}

size_t Timeline::RunAt(int64_t position) const {
  return static_cast<size_t>(
      std::upper_bound(begins_.begin(), begins_.end(), position) -
      begins_.begin() - 1);
}

Timeline::Place Timeline::At(int64_t position) const {
  const size_t run = RunAt(position);
  return {.pass = sequence_.order[run],
          .shard = position - begins_[run] + (run == 0 ? first_shard_ : 0)};
}

bool Timeline::Knows(const Pass& pass) const {
  return std::any_of(passes().begin(), passes().end(),
                     [&](const Pass& known) { return IsSame(known, pass); });
}

bool Timeline::Comes(size_t pass, int64_t from) const {
  for (size_t run = sequence_.order.size(); run-- > 0;) {
    if (sequence_.order[run] == pass) return begins_[run + 1] > from;
  }
  return false;
}

std::optional<int64_t> Timeline::Find(const Pass& pass, int64_t shard,
                                      int64_t from) const {
  if (from >= size()) return std::nullopt;
  for (size_t run = RunAt(from); run < sequence_.order.size(); ++run) {
    if (!IsSame(passes()[sequence_.order[run]], pass)) continue;
    const int64_t position =
        begins_[run] + shard - (run == 0 ? first_shard_ : 0);
    if (position >= from && position < begins_[run + 1]) return position;
  }
  return std::nullopt;
}

PassSequence Timeline::SequenceFrom(const Pass& pass, int64_t expected) const {
  PassSequence rest;
  rest.passes = passes();
  const auto is_pass = [&](size_t index) {
    return IsSame(passes()[index], pass);
  };
  const size_t from = expected < size() ? RunAt(expected) : 0;
  auto next = std::find_if(sequence_.order.begin() + from,
                           sequence_.order.end(), is_pass);
  if (next == sequence_.order.end()) {
    rest.order.push_back(static_cast<size_t>(
        std::find_if(passes().begin(), passes().end(),
                     [&](const Pass& known) { return IsSame(known, pass); }) -
        passes().begin()));
    next = sequence_.order.begin() + from;
  }
  rest.order.insert(rest.order.end(), next, sequence_.order.end());
  return rest;
}

int64_t Timeline::CycleBegin(int64_t position) const {
  const size_t cycle = RunAt(position) / cycle_runs_;
  return cycle < cycles_ ? begins_[cycle * cycle_runs_] : rest_begin_;
}

GenerationSpan Timeline::GenerationAt(int64_t begin,
                                      int64_t most_shards) const {
  const size_t repetition = RunAt(begin) / cycle_runs_;
  if (repetition > 0 && repetition < cycles_) {
    const int64_t before = begins_[repetition * cycle_runs_];
    GenerationSpan span = GenerationAt(begin - before, most_shards);
    span.begin += before;
    span.end += before;
    return span;
  }
  GenerationSpan span = {.begin = begin, .plan_begin = begin};
  const int64_t cycle = CycleBegin(begin);
  span.fills = begin == cycle;
  span.repeats = repetition < cycles_;
  const Pass& first = passes()[sequence_.order.front()];
  const int64_t of_pass = std::max(NumShards(first), first.shards);
  const auto batches = static_cast<double>(of_pass / first.shards);
  const int64_t least =
      std::max<int64_t>(std::llround(std::ceil(first_epochs_ * batches)), 1) *
      first.shards;
  const int64_t length =
      span.fills
          ? least
          : std::min(kGrowth * (begin - cycle) + least, kMostPasses * of_pass);
  const int64_t limit = span.repeats ? begins_[cycle_runs_] : size();
  span.end = std::min(limit, begin + std::min(length, most_shards));
  // A rest that is short by comparison belongs to it: a scan more takes longer.
  if (limit - span.end < std::max(of_pass / 8, length / 4) &&
      limit - begin <= most_shards) {
    span.end = limit;
  }
  span.closes = span.repeats && span.end == limit;
  // Whole passes are sampled, so that all of the last one is known.
  const int64_t look = span.fills && !span.closes
                           ? span.end
                           : std::min(size(), span.end + of_pass);
  span.look_end = begins_[RunAt(look - 1) + 1];
  return span;
}

}  // namespace hearth::strategy
