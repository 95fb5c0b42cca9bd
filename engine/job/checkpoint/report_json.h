#ifndef HEARTH_ENGINE_JOB_CHECKPOINT_REPORT_JSON_H_
#define HEARTH_ENGINE_JOB_CHECKPOINT_REPORT_JSON_H_

#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <type_traits>

#include "engine/job/interface/report.h"
#include "engine/strategy/strategy.h"

/// Reports as JSON, as checkpoints keep them. Functions that read throw
/// nlohmann::json::exception for JSON that was not written here.

namespace hearth::job {

/// null for an absent value; "NaN" for not a number, which JSON lacks.
template <typename T>
nlohmann::json ToJson(const std::optional<T>& value) {
  if (!value.has_value()) return nullptr;
  if constexpr (std::is_floating_point_v<T>) {
    if (std::isnan(*value)) return "NaN";
  }
  return *value;
}

template <typename T>
std::optional<T> OptionalFromJson(const nlohmann::json& value) {
  if (value.is_null()) return std::nullopt;
  if constexpr (std::is_floating_point_v<T>) {
    if (value == "NaN") return std::numeric_limits<T>::quiet_NaN();
  }
  return value.get<T>();
}

nlohmann::json ToJson(const strategy::PassReport& pass);
strategy::PassReport PassFromJson(const nlohmann::json& value);

nlohmann::json ToJson(const ExactEpoch& epoch);
ExactEpoch ExactEpochFromJson(const nlohmann::json& value);

nlohmann::json ToJson(const EpochReport& epoch);
EpochReport EpochFromJson(const nlohmann::json& value);

}  // namespace hearth::job

#endif  // HEARTH_ENGINE_JOB_CHECKPOINT_REPORT_JSON_H_
