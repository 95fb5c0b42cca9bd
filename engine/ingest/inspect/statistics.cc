#include "engine/ingest/inspect/statistics.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status.h"
#include "engine/io/whole_file.h"
#include "engine/store/strict_json.h"
#include "nlohmann/json.hpp"

namespace hearth::ingest {
namespace {

using nlohmann::ordered_json;

constexpr char kFormat[] = "hearth-statistics";
constexpr uint64_t kMaxFileBytes = 16 << 20;

ordered_json ToJson(const FeatureStatistics& features) {
  return {{"min", features.min},
          {"max", features.max},
          {"mean", features.mean},
          {"standard_deviation", features.standard_deviation},
          {"num_non_finite", features.num_non_finite},
          {"num_zeros", features.num_zeros},
          {"constant_columns", features.constant_columns},
          {"num_zero_rows", features.num_zero_rows}};
}

ordered_json ToJson(const NodeStatistics& nodes) {
  ordered_json object = {{"type", nodes.type},
                         {"num_unlabeled", nodes.num_unlabeled},
                         {"class_counts", nodes.class_counts}};
  if (nodes.num_isolated.has_value()) {
    object["num_isolated"] = *nodes.num_isolated;
  }
  if (nodes.features.has_value()) object["features"] = ToJson(*nodes.features);
  return object;
}

ordered_json ToJson(const EdgeStatistics& edges) {
  ordered_json object = {
      {"type", edges.type},
      {"mean_in_degree", edges.mean_in_degree},
      {"median_in_degree", edges.median_in_degree},
      {"percentile_99_in_degree", edges.percentile_99_in_degree},
      {"max_in_degree", edges.max_in_degree},
      {"num_without_in_edges", edges.num_without_in_edges},
      {"num_self_loops", edges.num_self_loops}};
  if (edges.num_without_out_edges.has_value()) {
    object["num_without_out_edges"] = *edges.num_without_out_edges;
  }
  if (edges.homophily.has_value()) object["homophily"] = *edges.homophily;
  return object;
}

template <typename Entry>
ordered_json ToJsonArray(const std::vector<Entry>& entries) {
  ordered_json array = ordered_json::array();
  for (const Entry& entry : entries) array.push_back(ToJson(entry));
  return array;
}

uint64_t Count(store::JsonFields& fields, const char* key) {
  return fields.Uint(key, UINT64_MAX);
}

std::optional<uint64_t> OptionalCount(store::JsonFields& fields,
                                      const char* key) {
  if (!fields.status().ok() || !fields.Has(key)) return std::nullopt;
  return Count(fields, key);
}

FeatureStatistics ParseFeatures(store::JsonFields fields,
                                store::JsonFields& parent) {
  FeatureStatistics features;
  features.min = fields.Double("min");
  features.max = fields.Double("max");
  features.mean = fields.Double("mean");
  features.standard_deviation = fields.Double("standard_deviation");
  features.num_non_finite = Count(fields, "num_non_finite");
  features.num_zeros = Count(fields, "num_zeros");
  for (const int64_t column : fields.NonNegativeInts("constant_columns")) {
    if (column > int64_t{UINT32_MAX}) {
      fields.Fail("constant_columns", "has a number beyond 2^32 - 1");
    }
    features.constant_columns.push_back(static_cast<uint32_t>(column));
  }
  features.num_zero_rows = Count(fields, "num_zero_rows");
  parent.Absorb(fields);
  return features;
}

NodeStatistics ParseNodes(store::JsonFields& fields) {
  NodeStatistics nodes;
  nodes.type = fields.String("type");
  nodes.num_isolated = OptionalCount(fields, "num_isolated");
  nodes.num_unlabeled = Count(fields, "num_unlabeled");
  for (const int64_t count : fields.NonNegativeInts("class_counts")) {
    nodes.class_counts.push_back(static_cast<uint64_t>(count));
  }
  if (fields.status().ok() && fields.Has("features")) {
    nodes.features = ParseFeatures(fields.Object("features"), fields);
  }
  return nodes;
}

EdgeStatistics ParseEdges(store::JsonFields& fields) {
  EdgeStatistics edges;
  edges.type = fields.String("type");
  edges.mean_in_degree = fields.Double("mean_in_degree");
  edges.median_in_degree = Count(fields, "median_in_degree");
  edges.percentile_99_in_degree = Count(fields, "percentile_99_in_degree");
  edges.max_in_degree = Count(fields, "max_in_degree");
  edges.num_without_in_edges = Count(fields, "num_without_in_edges");
  edges.num_without_out_edges = OptionalCount(fields, "num_without_out_edges");
  edges.num_self_loops = Count(fields, "num_self_loops");
  if (fields.status().ok() && fields.Has("homophily")) {
    edges.homophily = fields.Double("homophily");
  }
  return edges;
}

absl::StatusOr<DatasetStatistics> ParseVerified(const nlohmann::json& json) {
  store::JsonFields fields(json, "statistics");
  if (fields.String("format") != kFormat) {
    fields.Fail("format", "is not the format of statistics");
  }
  store::JsonFields version = fields.Object("version");
  const int64_t major = version.Int("major", 1, INT32_MAX);
  fields.Absorb(version);
  HEARTH_RETURN_IF_ERROR(fields.status());
  if (major > DatasetStatistics::kMajorVersion) {
    return absl::FailedPreconditionError(absl::StrCat(
        "has format version ", major, "; this program reads up to ",
        DatasetStatistics::kMajorVersion));
  }
  DatasetStatistics statistics;
  for (store::JsonFields& type : fields.Objects("nodes")) {
    statistics.nodes.push_back(ParseNodes(type));
    fields.Absorb(type);
  }
  for (store::JsonFields& type : fields.Objects("edges")) {
    statistics.edges.push_back(ParseEdges(type));
    fields.Absorb(type);
  }
  statistics.warnings = fields.Strings("warnings");
  statistics.notes = fields.Strings("notes");
  HEARTH_RETURN_IF_ERROR(fields.status());
  return statistics;
}

}  // namespace

std::string SerializeStatistics(const DatasetStatistics& statistics) {
  return store::SealJson({{"format", kFormat},
                          {"version",
                           {{"major", DatasetStatistics::kMajorVersion},
                            {"minor", DatasetStatistics::kMinorVersion}}},
                          {"nodes", ToJsonArray(statistics.nodes)},
                          {"edges", ToJsonArray(statistics.edges)},
                          {"warnings", statistics.warnings},
                          {"notes", statistics.notes}});
}

absl::StatusOr<DatasetStatistics> ParseStatistics(absl::string_view text,
                                                  const std::string& path) {
  const absl::StatusOr<nlohmann::json> json = store::OpenSealedJson(text);
  absl::StatusOr<DatasetStatistics> statistics =
      json.ok() ? ParseVerified(*json) : json.status();
  if (statistics.ok()) return statistics;
  const absl::StatusCode code = absl::IsInvalidArgument(statistics.status())
                                    ? absl::StatusCode::kDataLoss
                                    : statistics.status().code();
  return absl::Status(code,
                      absl::StrCat(path, ": ", statistics.status().message()));
}

absl::StatusOr<std::optional<DatasetStatistics>> LoadStatistics(
    io::FileSystem& files, const std::string& folder) {
  const std::string path = io::JoinPath(folder, DatasetStatistics::kFileName);
  const absl::StatusOr<std::string> text =
      io::ReadWholeFile(files, path, kMaxFileBytes);
  if (absl::IsNotFound(text.status())) return std::nullopt;
  HEARTH_RETURN_IF_ERROR(text.status());
  HEARTH_ASSIGN_OR_RETURN(DatasetStatistics statistics,
                          ParseStatistics(*text, path));
  return statistics;
}

}  // namespace hearth::ingest
