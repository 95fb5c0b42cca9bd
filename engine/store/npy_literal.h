#ifndef HEARTH_ENGINE_STORE_NPY_LITERAL_H_
#define HEARTH_ENGINE_STORE_NPY_LITERAL_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace hearth::store {

/// The dictionary in the header of an .npy file, as written there.
struct NpyDictionary {
  std::string descr;
  bool fortran_order = false;
  std::vector<int64_t> shape;
};

/// Parses a Python literal such as
/// {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
/// with exactly these three keys, in any order. INVALID_ARGUMENT with the
/// position of the first character that does not fit. Nothing is evaluated.
absl::StatusOr<NpyDictionary> ParseNpyDictionary(absl::string_view text);

}  // namespace hearth::store

#endif  // HEARTH_ENGINE_STORE_NPY_LITERAL_H_
