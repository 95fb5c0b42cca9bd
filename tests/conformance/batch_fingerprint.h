#ifndef HEARTH_TESTS_CONFORMANCE_BATCH_FINGERPRINT_H_
#define HEARTH_TESTS_CONFORMANCE_BATCH_FINGERPRINT_H_

#include <string>

#include "engine/train/train_step.h"

namespace hearth::testing {

/// A digest of everything of a batch that a trainer can see. Expects the labels
/// to be valid.
std::string Fingerprint(const train::BatchView& batch);

}  // namespace hearth::testing

#endif  // HEARTH_TESTS_CONFORMANCE_BATCH_FINGERPRINT_H_
