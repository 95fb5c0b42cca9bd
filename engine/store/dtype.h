#ifndef HEARTH_ENGINE_STORE_DTYPE_H_
#define HEARTH_ENGINE_STORE_DTYPE_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace hearth::store {

/// Element types that Hearth stores.
enum class DType { kFloat32, kFloat16, kBFloat16, kInt32, kInt64, kUint8 };

/// Bytes of one element.
int64_t SizeOf(DType dtype);

/// "float32", "float16", "bfloat16", "int32", "int64", "uint8".
std::string Name(DType dtype);

/// The inverse of Name. INVALID_ARGUMENT for anything else.
absl::StatusOr<DType> ParseDType(absl::string_view name);

}  // namespace hearth::store

#endif  // HEARTH_ENGINE_STORE_DTYPE_H_
