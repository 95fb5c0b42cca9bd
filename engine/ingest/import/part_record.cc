#include "engine/ingest/import/part_record.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/ingest/inspect/statistics.h"
#include "engine/store/dtype.h"
#include "engine/store/manifest.h"
#include "engine/store/sealed_json.h"
#include "nlohmann/json.hpp"

// Each structure names its fields once, for both directions. The seal tells
// damage, so that reading trusts what it finds, but for its types.

namespace hearth::ingest {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

constexpr char kFormat[] = "hearth-import-parts";

template <typename Visit>
void ForEachField(store::ArrayFile& file, Visit visit) {
  visit("path", file.path);
  visit("in_place", file.in_place);
  visit("shape", file.shape);
  visit("data_offset", file.data_offset);
  visit("file_size_bytes", file.file_size_bytes);
  visit("modified_ns", file.modified_ns);
  visit("header_crc32c", file.header_crc32c);
  visit("file_id", file.file_id);
  visit("crc_block_bytes", file.crc_block_bytes);
  visit("crc_path", file.crc_path);
  visit("crc_file_crc32c", file.crc_file_crc32c);
}

template <typename Visit>
void ForEachField(ScannedFeatures& scanned, Visit visit) {
  visit("min", scanned.statistics.min);
  visit("max", scanned.statistics.max);
  visit("mean", scanned.statistics.mean);
  visit("standard_deviation", scanned.statistics.standard_deviation);
  visit("num_non_finite", scanned.statistics.num_non_finite);
  visit("num_zeros", scanned.statistics.num_zeros);
  visit("constant_columns", scanned.statistics.constant_columns);
  visit("num_zero_rows", scanned.statistics.num_zero_rows);
  visit("label_columns", scanned.suspects.labels);
  visit("row_number_columns", scanned.suspects.row_numbers);
  visit("whole_number_columns", scanned.suspects.whole_numbers);
  visit("begins_like_npy", scanned.begins_like_npy);
}

template <typename Fields>
ordered_json ToJson(Fields fields) {
  ordered_json object;
  ForEachField(fields, [&object](const char* key, const auto& value) {
    object[key] = value;
  });
  return object;
}

/// Throws json::exception, as all of these.
template <typename Fields>
Fields FromJson(const json& object) {
  Fields fields;
  ForEachField(fields, [&object](const char* key, auto& value) {
    object.at(key).get_to(value);
  });
  return fields;
}

ordered_json PartToJson(const ImportPart& part) {
  ordered_json arrays = ordered_json::array();
  for (const PartArray& array : part.arrays) {
    arrays.push_back({{"what", array.what},
                      {"checksums_sha256", array.array.checksums_sha256},
                      {"dtype", store::Name(array.array.file.dtype)},
                      {"file", ToJson(array.array.file)}});
  }
  ordered_json object = {{"name", part.name},
                         {"arrays", std::move(arrays)},
                         {"transforms", part.transforms},
                         {"label_kind", store::Name(part.label_kind)},
                         {"label_width", part.label_width}};
  if (part.scanned.has_value()) object["scanned"] = ToJson(*part.scanned);
  return object;
}

absl::StatusOr<ImportPart> PartFromJson(const json& object) {
  ImportPart part;
  object.at("name").get_to(part.name);
  for (const json& item : object.at("arrays")) {
    PartArray& array = part.arrays.emplace_back();
    item.at("what").get_to(array.what);
    item.at("checksums_sha256").get_to(array.array.checksums_sha256);
    array.array.file = FromJson<store::ArrayFile>(item.at("file"));
    HEARTH_ASSIGN_OR_RETURN(
        array.array.file.dtype,
        store::ParseDType(item.at("dtype").get<std::string>()));
  }
  object.at("transforms").get_to(part.transforms);
  HEARTH_ASSIGN_OR_RETURN(
      part.label_kind,
      store::ParseLabelKind(object.at("label_kind").get<std::string>()));
  object.at("label_width").get_to(part.label_width);
  if (object.contains("scanned")) {
    part.scanned = FromJson<ScannedFeatures>(object.at("scanned"));
  }
  return part;
}

}  // namespace

std::string SerializePartRecord(const PartRecord& record) {
  ordered_json parts = ordered_json::array();
  for (const ImportPart& part : record.parts) parts.push_back(PartToJson(part));
  return store::SealJson({{"format", kFormat},
                          {"version", PartRecord::kVersion},
                          {"source_sha256", record.source_sha256},
                          {"parts", std::move(parts)}});
}

absl::StatusOr<PartRecord> ParsePartRecord(absl::string_view text) {
  HEARTH_ASSIGN_OR_RETURN(const json object, store::OpenSealedJson(text));
  try {
    if (object.at("format") != kFormat ||
        object.at("version") != PartRecord::kVersion) {
      return absl::InvalidArgumentError("the record is of another version");
    }
    PartRecord record;
    object.at("source_sha256").get_to(record.source_sha256);
    for (const json& part : object.at("parts")) {
      HEARTH_ASSIGN_OR_RETURN(record.parts.emplace_back(), PartFromJson(part));
    }
    return record;
  } catch (const json::exception& error) {
    return absl::InvalidArgumentError(
        absl::StrCat("no record: ", error.what()));
  }
}

}  // namespace hearth::ingest
