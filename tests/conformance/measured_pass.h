#ifndef HEARTH_TESTS_CONFORMANCE_MEASURED_PASS_H_
#define HEARTH_TESTS_CONFORMANCE_MEASURED_PASS_H_

#include "engine/store/dataset.h"
#include "engine/strategy/pass.h"

namespace hearth::testing {

/// `pass` with its batch sizes, by a dry run over `dataset`. All epochs get
/// those of epoch key 0, so that another epoch may have a larger batch.
strategy::Pass Measured(const store::Dataset& dataset, strategy::Pass pass);

}  // namespace hearth::testing

#endif  // HEARTH_TESTS_CONFORMANCE_MEASURED_PASS_H_
