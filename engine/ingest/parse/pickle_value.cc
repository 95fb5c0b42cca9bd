#include "engine/ingest/parse/pickle_value.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#include <optional>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status.h"

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
  // The strides lie within the storage, so the product does not overflow.
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

namespace {

/// Size of a value with everything below it.
struct Extent {
  int height = 0;
  int64_t values = 1;
};

using Visit = absl::FunctionRef<absl::Status(const PickleValue&)>;

absl::Status VisitParts(const PickleValue& value, Visit visit) {
  if (const auto* const list = value.As<PickleList>()) {
    for (const PickleValue* item : list->items) {
      HEARTH_RETURN_IF_ERROR(visit(*item));
    }
  } else if (const auto* const tuple = value.As<PickleTuple>()) {
    for (const PickleValue* item : tuple->items) {
      HEARTH_RETURN_IF_ERROR(visit(*item));
    }
  } else if (const auto* const dict = value.As<PickleDict>()) {
    for (const auto& [key, item] : dict->items) {
      HEARTH_RETURN_IF_ERROR(visit(*key));
      HEARTH_RETURN_IF_ERROR(visit(*item));
    }
  } else if (const auto* const object = value.As<PickleObject>()) {
    if (object->state != nullptr) return visit(*object->state);
  }
  return absl::OkStatus();
}

bool HasParts(const PickleValue& value) {
  return value.As<PickleList>() != nullptr ||
         value.As<PickleTuple>() != nullptr ||
         value.As<PickleDict>() != nullptr ||
         value.As<PickleObject>() != nullptr;
}

/// Text of a key, equal for equal keys; nullopt if it is no scalar.
std::optional<std::string> KeyText(const PickleValue& key) {
  if (const auto* const text = key.As<std::string>()) {
    return absl::StrCat("s", *text);
  }
  if (const auto* const number = key.As<int64_t>()) {
    return absl::StrCat("i", *number);
  }
  // In Python, True equals 1.
  if (const auto* const truth = key.As<bool>()) {
    return absl::StrCat("i", static_cast<int>(*truth));
  }
  if (const auto* const number = key.As<double>()) {
    return absl::StrCat("f", std::bit_cast<uint64_t>(*number));
  }
  if (const auto* const bytes = key.As<PickleBytes>()) {
    return absl::StrCat("b", bytes->data);
  }
  if (key.As<std::monostate>() != nullptr) return "n";
  return std::nullopt;
}

absl::Status CheckKeys(const PickleDict& dict) {
  absl::flat_hash_set<std::string> seen;
  for (const auto& [key, value] : dict.items) {
    const std::optional<std::string> text = KeyText(*key);
    if (!text.has_value()) {
      return absl::InvalidArgumentError(
          absl::StrCat("has a dict with ", key->KindName(), " among its keys"));
    }
    if (!seen.insert(*text).second) {
      return absl::InvalidArgumentError("has a dict with a key twice");
    }
  }
  return absl::OkStatus();
}

class Walker {
 public:
  Walker(int max_depth, int64_t max_walk)
      : max_depth_(max_depth), max_walk_(max_walk) {}

  /// Extent of `value`, which lies in `depth` containers.
  absl::StatusOr<Extent> Measure(const PickleValue& value, int depth) {
    if (!HasParts(value)) return Extent{};
    const auto [found, is_new] = known_.try_emplace(&value, std::nullopt);
    if (!is_new) {
      if (!found->second.has_value()) {
        return absl::InvalidArgumentError("has a value that contains itself");
      }
      if (depth + found->second->height > max_depth_) return TooDeep();
      return *found->second;
    }
    if (depth + 1 > max_depth_) return TooDeep();
    if (const auto* const dict = value.As<PickleDict>()) {
      HEARTH_RETURN_IF_ERROR(CheckKeys(*dict));
    }
    HEARTH_ASSIGN_OR_RETURN(const Extent extent, MeasureParts(value, depth));
    known_[&value] = extent;
    return extent;
  }

 private:
  absl::StatusOr<Extent> MeasureParts(const PickleValue& value, int depth) {
    Extent extent{.height = 1, .values = 1};
    HEARTH_RETURN_IF_ERROR(VisitParts(value, [&](const PickleValue& part) {
      auto below = Measure(part, depth + 1);
      if (!below.ok()) return below.status();
      extent.height = std::max(extent.height, below->height + 1);
      extent.values += below->values;
      if (extent.values <= max_walk_) return absl::OkStatus();
      return absl::ResourceExhaustedError(
          absl::StrCat("has more than ", max_walk_, " values"));
    }));
    return extent;
  }

  absl::Status TooDeep() const {
    return absl::InvalidArgumentError(absl::StrCat(
        "has values more than ", max_depth_, " deep within one another"));
  }

  const int max_depth_;
  const int64_t max_walk_;
  /// Extents that are known; nullopt while the items of a value are being
  /// measured.
  absl::flat_hash_map<const PickleValue*, std::optional<Extent>> known_;
};

}  // namespace

absl::Status CheckWalk(const PickleValue& root, int max_depth,
                       int64_t max_walk) {
  return Walker(max_depth, max_walk).Measure(root, 0).status();
}

}  // namespace hearth::ingest
