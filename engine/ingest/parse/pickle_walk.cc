#include "engine/ingest/parse/pickle_walk.h"

#include <algorithm>
#include <bit>
#include <optional>
#include <string>

#include "absl/container/flat_hash_map.h"
#include "absl/container/flat_hash_set.h"
#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"

namespace hearth::ingest {
namespace {

/// Extent of a value and all below it.
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

/// Equal for equal keys.
std::optional<std::string> KeyText(const PickleValue& key) {
  if (const auto* const text = key.As<std::string>()) {
    return absl::StrCat("s", *text);
  }
  if (const auto* const number = key.As<int64_t>()) {
    return absl::StrCat("i", *number);
  }
  // In Python, True is 1.
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

  /// REQUIRES: `depth` containers are above `value`.
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
  /// Nothing while the value's parts are being measured.
  absl::flat_hash_map<const PickleValue*, std::optional<Extent>> known_;
};

}  // namespace

absl::Status CheckWalk(const PickleValue& root, int max_depth,
                       int64_t max_walk) {
  return Walker(max_depth, max_walk).Measure(root, 0).status();
}

}  // namespace hearth::ingest
