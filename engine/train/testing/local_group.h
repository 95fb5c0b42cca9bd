#ifndef HEARTH_ENGINE_TRAIN_TESTING_LOCAL_GROUP_H_
#define HEARTH_ENGINE_TRAIN_TESTING_LOCAL_GROUP_H_

#include <memory>
#include <vector>

#include "engine/train/rank_group.h"

/// Ranks that are threads of one process, for tests.

namespace hearth::train {

/// `size` ranks of one group. The group ends for all if one ends or is
/// destroyed.
std::vector<std::unique_ptr<RankGroup>> NewLocalGroup(int size);

}  // namespace hearth::train

#endif  // HEARTH_ENGINE_TRAIN_TESTING_LOCAL_GROUP_H_
