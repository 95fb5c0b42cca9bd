#include "engine/ingest/parse/pickle_value.h"

#include <algorithm>
#include <array>
#include <cstddef>

namespace hearth::ingest {

const char* Name(TorchType type) {
  switch (type) {
    case TorchType::kFloat64:
      return "float64";
    case TorchType::kFloat32:
      return "float32";
    case TorchType::kFloat16:
      return "float16";
    case TorchType::kBFloat16:
      return "bfloat16";
    case TorchType::kInt64:
      return "int64";
    case TorchType::kInt32:
      return "int32";
    case TorchType::kInt16:
      return "int16";
    case TorchType::kInt8:
      return "int8";
    case TorchType::kUint8:
      return "uint8";
    case TorchType::kBool:
      return "bool";
  }
  return "";
}

int64_t ItemBytes(TorchType type) {
  switch (type) {
    case TorchType::kFloat64:
    case TorchType::kInt64:
      return 8;
    case TorchType::kFloat32:
    case TorchType::kInt32:
      return 4;
    case TorchType::kFloat16:
    case TorchType::kBFloat16:
    case TorchType::kInt16:
      return 2;
    case TorchType::kInt8:
    case TorchType::kUint8:
    case TorchType::kBool:
      return 1;
  }
  return 0;
}

bool TorchTensor::IsContiguous() const {
  if (std::find(shape.begin(), shape.end(), 0) != shape.end()) return true;
  // Within the storage's bounds, so the product does not overflow.
  int64_t expected = 1;
  for (size_t i = shape.size(); i > 0; --i) {
    if (shape[i - 1] == 1) continue;
    if (strides[i - 1] != expected) return false;
    expected *= shape[i - 1];
  }
  return true;
}

const PickleValue* PickleValue::Find(absl::string_view key) const {
  const auto* const dict = As<PickleDict>();
  if (dict == nullptr) return nullptr;
  for (const auto& [name, value] : dict->items) {
    const auto* const text = name->As<std::string>();
    if (text != nullptr && *text == key) return value;
  }
  return nullptr;
}

const char* PickleValue::KindName() const {
  static constexpr std::array kNames = {
      "None",     "a bool",        "an int",       "a float",  "a string",
      "bytes",    "a list",        "a tuple",      "a dict",   "a storage",
      "a tensor", "a numpy array", "a numpy type", "a global", "an object"};
  static_assert(kNames.size() == std::variant_size_v<decltype(data)>);
  return kNames[data.index()];
}

}  // namespace hearth::ingest
