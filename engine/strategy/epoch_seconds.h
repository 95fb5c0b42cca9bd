#ifndef HEARTH_ENGINE_STRATEGY_EPOCH_SECONDS_H_
#define HEARTH_ENGINE_STRATEGY_EPOCH_SECONDS_H_

#include <algorithm>

#include "absl/strings/string_view.h"

namespace hearth::strategy {

/// Forecast seconds of an epoch whose parts overlap, by what it waits for.
struct EpochSeconds {
  double read = 0;
  double train = 0;
  double compute = 0;

  /// The part that takes longest bounds them all.
  double all() const { return std::max({read, train, compute}); }

  /// Which one that is, for people.
  absl::string_view bound() const {
    if (read >= train && read >= compute) return "the disk";
    return train >= compute ? "the trainer" : "the processors";
  }
};

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_EPOCH_SECONDS_H_
