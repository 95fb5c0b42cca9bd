#include "engine/job/checkpoint/report_json.h"

#include <cstdint>
#include <string>
#include <utility>

#include "engine/pipeline/pipeline.h"
#include "engine/train/metric.h"

namespace hearth::job {
namespace {

using nlohmann::json;

json ToJson(const pipeline::StageStats& stage) {
  return {{"name", stage.name},
          {"threads", stage.threads},
          {"busy_seconds", stage.busy_seconds},
          {"starved_seconds", stage.starved_seconds},
          {"blocked_seconds", stage.blocked_seconds},
          {"items", stage.items}};
}

pipeline::StageStats StageFromJson(const json& value) {
  pipeline::StageStats stage;
  value.at("name").get_to(stage.name);
  value.at("threads").get_to(stage.threads);
  value.at("busy_seconds").get_to(stage.busy_seconds);
  value.at("starved_seconds").get_to(stage.starved_seconds);
  value.at("blocked_seconds").get_to(stage.blocked_seconds);
  value.at("items").get_to(stage.items);
  return stage;
}

json ToJson(const std::optional<strategy::ReadOverlap>& overlap) {
  if (!overlap.has_value()) return nullptr;
  return {{"storage_path", overlap->storage_path},
          {"target_reads", overlap->target_reads},
          {"depth", overlap->depth},
          {"batches", overlap->batches},
          {"merged", overlap->merged},
          {"held_by_merge_max", overlap->held_by_merge_max},
          {"held_by_staging", overlap->held_by_staging},
          {"bypassed", overlap->bypassed}};
}

strategy::ReadOverlap OverlapFromJson(const json& value) {
  return {.storage_path = value.at("storage_path").get<std::string>(),
          .target_reads = value.at("target_reads").get<int64_t>(),
          .depth = value.at("depth").get<int64_t>(),
          .batches = value.at("batches").get<int64_t>(),
          .merged = value.at("merged").get<int64_t>(),
          .held_by_merge_max = value.at("held_by_merge_max").get<int64_t>(),
          .held_by_staging = value.at("held_by_staging").get<int64_t>(),
          .bypassed = value.at("bypassed").get<int64_t>()};
}

}  // namespace

json ToJson(const strategy::PassReport& pass) {
  json stages = json::array();
  for (const auto& stage : pass.stages) stages.push_back(ToJson(stage));
  json hits = json::array();
  for (const strategy::LevelHits& level : pass.hits) {
    hits.push_back({{"level", level.level}, {"rows", level.rows}});
  }
  json list_hits = json::array();
  for (const strategy::ListHits& level : pass.list_hits) {
    list_hits.push_back({{"level", level.level}, {"lists", level.lists}});
  }
  json phases = json::array();
  for (const strategy::PhaseSeconds& phase : pass.phases) {
    phases.push_back({{"name", phase.name}, {"seconds", phase.seconds}});
  }
  return {{"seconds", pass.seconds},
          {"batches", pass.batches},
          {"seeds", pass.seeds},
          {"rows_needed", pass.rows_needed},
          {"bytes_needed", pass.bytes_needed},
          {"bytes_read", ToJson(pass.bytes_read)},
          {"read_ops", ToJson(pass.read_ops)},
          {"io_wait_seconds", ToJson(pass.io_wait_seconds)},
          {"rows_read", ToJson(pass.rows_read)},
          {"pulled", pass.pulled},
          {"pushed", pass.pushed},
          {"total_age", pass.sum_of_ages},
          {"hits", std::move(hits)},
          {"list_hits", std::move(list_hits)},
          {"lists_read", ToJson(pass.lists_read)},
          {"overlap", ToJson(pass.overlap)},
          {"phases", std::move(phases)},
          {"stages", std::move(stages)}};
}

strategy::PassReport PassFromJson(const json& value) {
  strategy::PassReport pass;
  value.at("seconds").get_to(pass.seconds);
  value.at("batches").get_to(pass.batches);
  // Older checkpoints lack these four fields.
  pass.seeds = value.value("seeds", int64_t{0});
  pass.pulled = value.value("pulled", int64_t{0});
  pass.pushed = value.value("pushed", int64_t{0});
  pass.sum_of_ages = value.value("total_age", int64_t{0});
  value.at("rows_needed").get_to(pass.rows_needed);
  value.at("bytes_needed").get_to(pass.bytes_needed);
  pass.bytes_read = OptionalFromJson<int64_t>(value.at("bytes_read"));
  pass.read_ops = OptionalFromJson<int64_t>(value.at("read_ops"));
  pass.io_wait_seconds = OptionalFromJson<double>(value.at("io_wait_seconds"));
  pass.rows_read = OptionalFromJson<int64_t>(value.at("rows_read"));
  for (const json& level : value.at("hits")) {
    pass.hits.push_back({.level = level.at("level").get<std::string>(),
                         .rows = level.at("rows").get<int64_t>()});
  }
  // Older checkpoints lack this field.
  if (value.contains("list_hits")) {
    for (const json& level : value.at("list_hits")) {
      pass.list_hits.push_back({.level = level.at("level").get<std::string>(),
                                .lists = level.at("lists").get<int64_t>()});
    }
    pass.lists_read = OptionalFromJson<int64_t>(value.at("lists_read"));
  }
  if (value.contains("overlap") && !value.at("overlap").is_null()) {
    pass.overlap = OverlapFromJson(value.at("overlap"));
  }
  for (const json& phase : value.at("phases")) {
    pass.phases.push_back({.name = phase.at("name").get<std::string>(),
                           .seconds = phase.at("seconds").get<double>()});
  }
  for (const json& stage : value.at("stages")) {
    pass.stages.push_back(StageFromJson(stage));
  }
  return pass;
}

json ToJson(const ExactEpoch& epoch) {
  return {{"loss", epoch.loss},
          {"valid_metric", ToJson(epoch.valid_metric)},
          {"seconds", epoch.seconds},
          {"rows_needed", epoch.rows_needed}};
}

ExactEpoch ExactEpochFromJson(const json& value) {
  ExactEpoch epoch;
  value.at("loss").get_to(epoch.loss);
  epoch.valid_metric = OptionalFromJson<double>(value.at("valid_metric"));
  value.at("seconds").get_to(epoch.seconds);
  value.at("rows_needed").get_to(epoch.rows_needed);
  return epoch;
}

json ToJson(const EpochReport& epoch) {
  return {{"epoch", epoch.epoch},
          {"loss", epoch.loss},
          {"metric", train::Name(epoch.metric)},
          {"valid_metric", ToJson(epoch.valid_metric)},
          {"training", ToJson(epoch.training)},
          {"validation", ToJson(epoch.validation)},
          {"exact",
           epoch.exact.has_value() ? ToJson(*epoch.exact) : json(nullptr)}};
}

EpochReport EpochFromJson(const json& value) {
  EpochReport epoch;
  value.at("epoch").get_to(epoch.epoch);
  value.at("loss").get_to(epoch.loss);
  epoch.metric = train::MetricNamed(value.at("metric").get<std::string>())
                     .value_or(train::Metric::kAccuracy);
  epoch.valid_metric = OptionalFromJson<double>(value.at("valid_metric"));
  epoch.training = PassFromJson(value.at("training"));
  epoch.validation = PassFromJson(value.at("validation"));
  // Older checkpoints lack this field.
  if (const auto exact = value.find("exact");
      exact != value.end() && !exact->is_null()) {
    epoch.exact = ExactEpochFromJson(*exact);
  }
  return epoch;
}

}  // namespace hearth::job
