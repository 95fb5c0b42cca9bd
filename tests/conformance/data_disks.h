#ifndef HEARTH_TESTS_CONFORMANCE_DATA_DISKS_H_
#define HEARTH_TESTS_CONFORMANCE_DATA_DISKS_H_

#include <string>

#include "absl/types/span.h"
#include "engine/plan/plan_store.h"

namespace hearth::testing {

/// Three stores of plans in folders beside `folder`, as if each were on a disk
/// of its own. Those of one folder are the same in all of the process.
absl::Span<plan::PlanStore* const> DataDisks(const std::string& folder);

}  // namespace hearth::testing

#endif  // HEARTH_TESTS_CONFORMANCE_DATA_DISKS_H_
