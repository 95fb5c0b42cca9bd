#ifndef HEARTH_ENGINE_STRATEGY_OUTRE_PASS_MACRO_BATCHES_H_
#define HEARTH_ENGINE_STRATEGY_OUTRE_PASS_MACRO_BATCHES_H_

#include <cstdint>
#include <vector>

#include "engine/sample/seed_order.h"
#include "engine/strategy/pass.h"

namespace hearth::strategy {

/// Macro batches `first` .. `end - 1` of an epoch.
struct MacroBatchRange {
  int64_t first = 0;
  int64_t end = 0;

  bool operator==(const MacroBatchRange&) const = default;
};

/// The macro batches of a pass, and which of them each batch has seeds of: a
/// batch may straddle several.
class PassMacroBatches {
 public:
  explicit PassMacroBatches(const Pass& pass);

  /// All of them, in order; none if parts do not order the seeds.
  const std::vector<sample::MacroBatch>& all() const { return all_; }

  int64_t num_batches() const;

  /// Those that batch `batch` has seeds of. REQUIRES: it has seeds.
  MacroBatchRange Of(int64_t batch) const;

 private:
  const int64_t batch_size_;
  const std::vector<sample::MacroBatch> all_;
  // Where the seeds of each end among those of the epoch.
  std::vector<int64_t> ends_;
};

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_OUTRE_PASS_MACRO_BATCHES_H_
