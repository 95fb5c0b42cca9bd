#include "engine/strategy/pass_report.h"

#include <cstddef>

namespace hearth::strategy {
namespace {

template <typename T>
void AddIfKnown(const std::optional<T>& part, std::optional<T>& whole) {
  if (part.has_value() && whole.has_value()) {
    *whole += *part;
  } else {
    whole.reset();
  }
}

}  // namespace

void Accumulate(const PassReport& part, PassReport& whole) {
  if (whole.stages.empty()) {
    whole = part;
    return;
  }
  whole.seconds += part.seconds;
  whole.batches += part.batches;
  whole.seeds += part.seeds;
  whole.rows_needed += part.rows_needed;
  whole.bytes_needed += part.bytes_needed;
  AddIfKnown(part.bytes_read, whole.bytes_read);
  AddIfKnown(part.read_ops, whole.read_ops);
  AddIfKnown(part.io_wait_seconds, whole.io_wait_seconds);
  AddIfKnown(part.rows_read, whole.rows_read);
  whole.pulled += part.pulled;
  whole.pushed += part.pushed;
  whole.total_age += part.total_age;
  for (size_t i = 0; i < whole.hits.size() && i < part.hits.size(); ++i) {
    whole.hits[i].rows += part.hits[i].rows;
  }
  AddIfKnown(part.lists_read, whole.lists_read);
  for (size_t i = 0; i < whole.list_hits.size() && i < part.list_hits.size();
       ++i) {
    whole.list_hits[i].lists += part.list_hits[i].lists;
  }
  if (part.overlap.has_value() && whole.overlap.has_value()) {
    whole.overlap->batches += part.overlap->batches;
    whole.overlap->merged += part.overlap->merged;
    whole.overlap->held_by_merge_max += part.overlap->held_by_merge_max;
    whole.overlap->held_by_staging += part.overlap->held_by_staging;
    whole.overlap->bypassed += part.overlap->bypassed;
  }
  for (size_t i = 0; i < whole.phases.size() && i < part.phases.size(); ++i) {
    whole.phases[i].seconds += part.phases[i].seconds;
  }
  for (size_t i = 0; i < whole.stages.size() && i < part.stages.size(); ++i) {
    whole.stages[i].busy_seconds += part.stages[i].busy_seconds;
    whole.stages[i].starved_seconds += part.stages[i].starved_seconds;
    whole.stages[i].blocked_seconds += part.stages[i].blocked_seconds;
    whole.stages[i].items += part.stages[i].items;
  }
}

}  // namespace hearth::strategy
