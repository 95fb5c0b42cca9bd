#include "engine/strategy/foresight/timeline.h"

#include <algorithm>
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
         a.sampler.fanouts == b.sampler.fanouts &&
         a.sampler.fanouts_of == b.sampler.fanouts_of &&
         a.sampler.layer_nodes == b.sampler.layer_nodes &&
         a.sampler.once == b.sampler.once &&
         a.sampler.data_seed == b.sampler.data_seed &&
         IsSame(a.history, b.history);
}

// The least number of passes after which the order repeats itself at least
// once, and the number of passes up to which it does; all passes if it does
// not.
std::pair<size_t, size_t> FindCycle(const std::vector<size_t>& order) {
  for (size_t runs = 1; 2 * runs <= order.size(); ++runs) {
    size_t same = runs;
    while (same < order.size() && order[same] == order[same - runs]) ++same;
    if (same >= 2 * runs) return {runs, same};
  }
  return {order.size(), order.size()};
}

}  // namespace

Timeline::Timeline(PassSequence sequence, int64_t first_shard)
    : sequence_(std::move(sequence)), first_shard_(first_shard) {
  begins_.push_back(0);
  for (const size_t pass : sequence_.order) {
    begins_.push_back(begins_.back() + NumShards(sequence_.passes[pass]));
  }
  for (size_t run = 1; run < begins_.size(); ++run) begins_[run] -= first_shard;
  cycle_runs_ = sequence_.order.size();
  if (first_shard > 0 || size() == 0) return;
  const auto [runs, same] = FindCycle(sequence_.order);
  // Passes without shards repeat at the same position.
  if (begins_[runs] == 0) return;
  cycle_runs_ = runs;
  last_cycle_run_ = (same - 1) / runs * runs;
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
  const size_t run = RunAt(position);
  return begins_[std::min(run / cycle_runs_ * cycle_runs_, last_cycle_run_)];
}

GenerationSpan Timeline::GenerationAt(int64_t begin,
                                      int64_t most_shards) const {
  GenerationSpan span = {.begin = begin};
  const int64_t cycle = CycleBegin(begin);
  span.fills = begin == cycle;
  const Pass& first = passes()[sequence_.order.front()];
  const int64_t of_pass = std::max(NumShards(first), first.shards);
  const int64_t half = (of_pass / first.shards + 1) / 2 * first.shards;
  const int64_t length = span.fills ? half
                                    : std::min(kGrowth * (begin - cycle) + half,
                                               kMostPasses * of_pass);
  const size_t next_cycle = (RunAt(begin) / cycle_runs_ + 1) * cycle_runs_;
  span.repeats = next_cycle <= last_cycle_run_;
  const int64_t limit = span.repeats ? begins_[next_cycle] : size();
  span.end = std::min(limit, begin + std::min(length, most_shards));
  // A short rest belongs to it.
  if (limit - span.end < of_pass / 8 && limit - begin <= most_shards) {
    span.end = limit;
  }
  span.closes = span.repeats && span.end == limit;
  // Whole passes are sampled, so that all of the last one is known.
  const int64_t look =
      span.fills ? span.end : std::min(size(), span.end + of_pass);
  span.look_end = begins_[RunAt(look - 1) + 1];
  return span;
}

}  // namespace hearth::strategy
