#ifndef HEARTH_ENGINE_JOB_REPORT_JSON_H_
#define HEARTH_ENGINE_JOB_REPORT_JSON_H_

#include <nlohmann/json.hpp>
#include <optional>

#include "engine/job/report.h"
#include "engine/strategy/strategy.h"

/// Reports as JSON, as checkpoints keep them. What reads throws
/// nlohmann::json::exception for anything that was not written here.

namespace hearth::job {

/// null for nothing.
template <typename T>
nlohmann::json ToJson(const std::optional<T>& value) {
  return value.has_value() ? nlohmann::json(*value) : nlohmann::json(nullptr);
}

template <typename T>
std::optional<T> OptionalFromJson(const nlohmann::json& value) {
  if (value.is_null()) return std::nullopt;
  return value.get<T>();
}

nlohmann::json ToJson(const strategy::PassReport& pass);
strategy::PassReport PassFromJson(const nlohmann::json& value);

nlohmann::json ToJson(const ExactEpoch& epoch);
ExactEpoch ExactEpochFromJson(const nlohmann::json& value);

nlohmann::json ToJson(const EpochReport& epoch);
EpochReport EpochFromJson(const nlohmann::json& value);

}  // namespace hearth::job

#endif  // HEARTH_ENGINE_JOB_REPORT_JSON_H_
