#include "engine/store/array_type.h"

#include <array>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"

namespace hearth::store {

namespace {

struct DTypeInfo {
  DType dtype;
  const char* name;
  int64_t size;
};

constexpr std::array<DTypeInfo, 7> kTypes = {{
    {DType::kFloat32, "float32", 4},
    {DType::kFloat16, "float16", 2},
    {DType::kBFloat16, "bfloat16", 2},
    {DType::kInt32, "int32", 4},
    {DType::kInt64, "int64", 8},
    {DType::kUint8, "uint8", 1},
    {DType::kScaledInt8, "scaled_int8", 1},
}};

const DTypeInfo& InfoOf(DType dtype) {
  return kTypes[static_cast<size_t>(dtype)];
}

static_assert([] {
  for (size_t i = 0; i < kTypes.size(); ++i) {
    if (kTypes[i].dtype != static_cast<DType>(i)) return false;
  }
  return true;
}());

}  // namespace

int64_t SizeOf(DType dtype) { return InfoOf(dtype).size; }

std::string Name(DType dtype) { return InfoOf(dtype).name; }

absl::StatusOr<DType> ParseDType(absl::string_view name) {
  for (const DTypeInfo& info : kTypes) {
    if (name == info.name) return info.dtype;
  }
  return absl::InvalidArgumentError(
      absl::StrCat("\"", absl::CEscape(name), "\" is not an element type"));
}

std::optional<int64_t> ArrayBytes(absl::Span<const int64_t> shape,
                                  int64_t item_bytes) {
  int64_t bytes = item_bytes;
  for (const int64_t dimension : shape) {
    if (dimension < 0) return std::nullopt;
    if (__builtin_mul_overflow(bytes, dimension, &bytes)) return std::nullopt;
  }
  return bytes;
}

std::string FormatShape(absl::Span<const int64_t> shape) {
  return absl::StrCat("(", absl::StrJoin(shape, ", "),
                      shape.size() == 1 ? ",)" : ")");
}

}  // namespace hearth::store
