#include "engine/store/manifest.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "engine/base/sha256.h"
#include "engine/store/block_checksums.h"
#include "engine/store/labels.h"
#include "engine/store/manifest_text.h"
#include "engine/store/sealed_json.h"
#include "nlohmann/json.hpp"

namespace hearth::store {
namespace {

using nlohmann::ordered_json;

ordered_json ToJson(const ArrayFile& file) {
  return {{"path", file.path},
          {"in_place", file.in_place},
          {"dtype", Name(file.dtype)},
          {"shape", file.shape},
          {"data_offset", file.data_offset},
          {"file_size_bytes", file.file_size_bytes},
          {"modified_ns", file.modified_ns},
          {"header_crc32c", file.header_crc32c},
          {"file_id", file.file_id},
          {"crc_block_bytes", file.crc_block_bytes},
          {"crc_path", file.crc_path},
          {"crc_file_crc32c", file.crc_file_crc32c}};
}

void AddArray(ordered_json& object, const char* key, const ArrayFile& file) {
  if (!file.path.empty()) object[key] = ToJson(file);
}

ordered_json ToJson(const NodeTypeEntry& type) {
  ordered_json object = {{"name", type.name}, {"num_nodes", type.num_nodes}};
  // Classes as version 1.0 wrote them: equal contents keep their fingerprint.
  if (type.label_kind == LabelKind::kClasses) {
    object["num_classes"] = type.label_width;
  } else {
    object["label_kind"] = Name(type.label_kind);
    object["label_width"] = type.label_width;
  }
  AddArray(object, "features", type.features);
  AddArray(object, "labels", type.labels);
  AddArray(object, "train", type.train);
  AddArray(object, "valid", type.valid);
  AddArray(object, "test", type.test);
  AddArray(object, "ids", type.ids);
  AddArray(object, "id_text", type.id_text);
  return object;
}

ordered_json ToJson(const EdgeTypeEntry& type) {
  ordered_json object = {{"name", type.name},
                         {"source_type", type.source_type},
                         {"destination_type", type.destination_type},
                         {"num_edges", type.num_edges}};
  AddArray(object, "indptr", type.indptr);
  AddArray(object, "indices", type.indices);
  return object;
}

template <typename Entry>
ordered_json ToJsonArray(const std::vector<Entry>& entries) {
  ordered_json array = ordered_json::array();
  for (const Entry& entry : entries) array.push_back(ToJson(entry));
  return array;
}

/// Features that a program must know to read the dataset.
ordered_json RequiredFeatures(const Manifest& manifest) {
  ordered_json features = ordered_json::array();
  for (const NodeTypeEntry& type : manifest.node_types) {
    if (type.label_kind == LabelKind::kClasses) continue;
    features.push_back(kLabelKindsFeature);
    break;
  }
  if (std::any_of(manifest.node_types.begin(), manifest.node_types.end(),
                  HasPartialLabels)) {
    features.push_back(kPartialLabelsFeature);
  }
  return features;
}

ordered_json ToJson(const Manifest& manifest) {
  return {{"format", kManifestFormat},
          {"version",
           {{"major", Manifest::kMajorVersion},
            {"minor", Manifest::kMinorVersion}}},
          {"required_features", RequiredFeatures(manifest)},
          {"name", manifest.name},
          {"fingerprint", manifest.fingerprint},
          {"created_unix_seconds", manifest.created_unix_seconds},
          {"node_types", ToJsonArray(manifest.node_types)},
          {"edge_types", ToJsonArray(manifest.edge_types)},
          {"transforms", manifest.transforms}};
}

std::string Dump(const ordered_json& value) {
  // Text that is not UTF-8 would throw otherwise.
  return value.dump(2, ' ', false, ordered_json::error_handler_t::replace);
}

/// Calls `visit` with every array, absent ones too.
template <typename AnyManifest, typename Visit>
void ForEachArray(AnyManifest& manifest, Visit visit) {
  for (auto& type : manifest.node_types) {
    for (auto* file : {&type.features, &type.labels, &type.train, &type.valid,
                       &type.test, &type.ids, &type.id_text}) {
      visit(*file);
    }
  }
  for (auto& type : manifest.edge_types) {
    visit(type.indptr);
    visit(type.indices);
  }
}

}  // namespace

bool HasPartialLabels(const NodeTypeEntry& type) {
  return type.label_kind == LabelKind::kMultiLabel &&
         type.labels.shape.size() == 2 &&
         type.labels.shape[1] != MultiLabelRowBytes(type.label_width);
}

std::string RelationOf(const EdgeTypeEntry& type) {
  absl::string_view relation = type.name;
  if (absl::ConsumePrefix(&relation, absl::StrCat(type.source_type, ":")) &&
      absl::ConsumeSuffix(&relation,
                          absl::StrCat(":", type.destination_type))) {
    return std::string(relation);
  }
  return type.name;
}

std::vector<const ArrayFile*> Manifest::Arrays() const {
  std::vector<const ArrayFile*> arrays;
  ForEachArray(*this, [&](const ArrayFile& file) {
    if (!file.path.empty()) arrays.push_back(&file);
  });
  return arrays;
}

uint64_t Manifest::SizeBytes() const {
  uint64_t size = 0;
  for (const ArrayFile* file : Arrays()) {
    const uint64_t data_bytes = file->file_size_bytes - file->data_offset;
    size += NumBlocks(data_bytes, file->crc_block_bytes) * sizeof(uint32_t);
    if (!file->in_place) size += file->file_size_bytes;
  }
  for (const NodeTypeEntry& type : node_types) {
    if (type.features.path.empty()) continue;
    // The row checksum file.
    size += static_cast<uint64_t>(type.num_nodes) * sizeof(uint32_t) +
            BlockChecksums::kSealBytes;
  }
  return size;
}

std::string Fingerprint(const Manifest& manifest,
                        absl::Span<const std::string> checksums) {
  Manifest contents;
  contents.node_types = manifest.node_types;
  contents.edge_types = manifest.edge_types;
  ForEachArray(contents, [](ArrayFile& file) {
    // A registered array counts by its contents, wherever it lies.
    if (file.in_place) file.path = "in place";
    file.modified_ns = 0;
  });
  ordered_json json = ToJson(contents);
  // A later version that writes the same keeps its fingerprint.
  json["version"]["minor"] = kFingerprintMinorVersion;
  Sha256 digest;
  digest.Update(Dump(json));
  for (const std::string& checksum : checksums) digest.Update(checksum);
  return digest.HexDigest().substr(0, 16);
}

std::string SerializeManifest(const Manifest& manifest) {
  return SealJson(ToJson(manifest));
}

}  // namespace hearth::store
