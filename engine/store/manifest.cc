#include "engine/store/manifest.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <set>

#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "engine/base/sha256.h"
#include "engine/base/status.h"
#include "engine/store/array_type.h"
#include "engine/store/block_checksums.h"
#include "engine/store/labels.h"
#include "engine/store/strict_json.h"
#include "nlohmann/json.hpp"

namespace hearth::store {

namespace {

using nlohmann::ordered_json;

// Value of the field "format".
constexpr char kManifestFormat[] = "hearth-dataset";

// Required feature of a dataset with labels other than classes, which programs
// of version 1.0 do not know.
constexpr char kLabelKindsFeature[] = "label_kinds";

// Required feature of a dataset with partial labels (labels.h), which programs
// before version 1.3 do not know.
constexpr char kPartialLabelsFeature[] = "partial_labels";

// Required feature of a shard, whose feature files have a part of the rows.
constexpr char kRowRangeFeature[] = "row_range";

// Minor version in all fingerprints. Version 1.2 added the ids of nodes, which
// programs of version 1.1 ignore.
constexpr int kFingerprintMinorVersion = 1;

ordered_json ToJson(const ArrayFile& file) {
  ordered_json object = {{"path", file.path},
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
  if (file.rows.has_value()) {
    object["rows"] = std::vector<int64_t>{file.rows->first, file.rows->end};
  }
  return object;
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
  if (manifest.is_sharded()) features.push_back(kRowRangeFeature);
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

ByteRange ArrayFile::KeptBytes() const {
  const uint64_t data_bytes = file_size_bytes - data_offset;
  if (!rows.has_value()) return {.end = data_bytes};
  if (rows->first == rows->end) return {};
  const auto row_bytes = static_cast<uint64_t>(RowBytes(shape[1], dtype));
  const uint64_t begin = static_cast<uint64_t>(rows->first) * row_bytes;
  const uint64_t end = static_cast<uint64_t>(rows->end) * row_bytes;
  const uint64_t block = crc_block_bytes;
  return {.begin = begin / block * block,
          .end = std::min(data_bytes, (end + block - 1) / block * block)};
}

uint64_t ArrayFile::StoredBytes() const {
  const ByteRange kept = KeptBytes();
  return data_offset + (kept.end - kept.begin);
}

bool Manifest::is_sharded() const {
  return std::any_of(
      node_types.begin(), node_types.end(),
      [](const NodeTypeEntry& type) { return type.features.rows.has_value(); });
}

RowRange ShareOfRows(int64_t all, int64_t index, int64_t count) {
  // Products of whole rows could overflow.
  const int64_t each = all / count;
  const int64_t rest = all % count;
  const auto begin = [&](int64_t i) { return each * i + std::min(i, rest); };
  return {.first = begin(index), .end = begin(index + 1)};
}

std::string DescribeRows(const RowRange& rows, int64_t all) {
  if (rows.first == rows.end) return absl::StrCat("no rows of ", all);
  return absl::StrCat("rows ", rows.first, " .. ", rows.end - 1, " of ", all);
}

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
    if (!file->in_place) size += file->StoredBytes();
  }
  for (const NodeTypeEntry& type : node_types) {
    if (type.features.path.empty() || type.features.rows.has_value()) continue;
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
  // A later version that writes the same contents keeps the fingerprint.
  json["version"]["minor"] = kFingerprintMinorVersion;
  Sha256 digest;
  digest.Update(Dump(json));
  for (const std::string& checksum : checksums) digest.Update(checksum);
  return digest.HexDigest().substr(0, 16);
}

std::string SerializeManifest(const Manifest& manifest) {
  return SealJson(ToJson(manifest));
}

namespace {

// Limits far above any machine; sums and products below stay within 64 bits.
constexpr int64_t kMaxNodes = int64_t{1} << 48;
constexpr int64_t kMaxEdges = int64_t{1} << 52;
constexpr int64_t kMaxLabelWidth = INT32_MAX;
constexpr uint64_t kMaxFileBytes = uint64_t{1} << 60;
constexpr uint64_t kMaxDataOffset = 2 << 20;
constexpr uint32_t kMinCrcBlockBytes = 512;
constexpr uint32_t kMaxCrcBlockBytes = 1 << 20;
constexpr uint64_t kAlignment = 64;

/// Whether `path` is below the dataset's folder.
bool IsInnerPath(const std::string& path) {
  for (const absl::string_view part : absl::StrSplit(path, '/')) {
    if (part.empty() || part == "." || part == "..") return false;
  }
  return !absl::StrContains(path, '\0');
}

bool IsAbsolutePath(const std::string& path) {
  return path.size() > 1 && path[0] == '/' && IsInnerPath(path.substr(1));
}

bool HoldsFeatures(DType dtype) {
  return dtype == DType::kFloat32 || dtype == DType::kFloat16 ||
         dtype == DType::kBFloat16 || dtype == DType::kScaledInt8;
}

std::optional<int64_t> BytesOf(const ArrayFile& file) {
  if (file.dtype != DType::kScaledInt8) {
    return ArrayBytes(file.shape, SizeOf(file.dtype));
  }
  if (file.shape.size() != 2 || file.shape[1] > INT32_MAX) return std::nullopt;
  return ArrayBytes({file.shape[0]}, RowBytes(file.shape[1], file.dtype));
}

void CheckArraySizes(const ArrayFile& file, JsonFields& fields) {
  const auto bytes = BytesOf(file);
  if (!bytes.has_value() || file.data_offset + static_cast<uint64_t>(*bytes) !=
                                file.file_size_bytes) {
    fields.Fail("shape", absl::StrCat("of ", FormatShape(file.shape),
                                      " does not fit the file's size"));
  }
  if (!file.in_place && file.data_offset % kAlignment != 0) {
    fields.Fail("data_offset", "is not a multiple of 64");
  }
  const uint32_t block = file.crc_block_bytes;
  if (block < kMinCrcBlockBytes || (block & (block - 1)) != 0) {
    fields.Fail("crc_block_bytes", "is not a power of two from 512 on");
  }
}

/// The rows that a shard's file has.
RowRange ParseRows(const ArrayFile& file, JsonFields& fields) {
  const std::vector<int64_t> rows = fields.NonNegativeInts("rows");
  if (rows.size() == 2 && rows[0] <= rows[1] && file.shape.size() == 2 &&
      rows[1] <= file.shape[0] && !file.in_place) {
    return {.first = rows[0], .end = rows[1]};
  }
  fields.Fail("rows", "is not a range of the array's rows");
  return {};
}

/// The array under `key` of `parent`; its path is empty if the key is absent.
ArrayFile ParseArray(JsonFields& parent, const char* key) {
  ArrayFile file;
  if (!parent.status().ok() || !parent.Has(key)) return file;
  JsonFields fields = parent.Object(key);
  file.path = fields.String("path");
  file.in_place = fields.Bool("in_place");
  const absl::StatusOr<DType> dtype = ParseDType(fields.String("dtype"));
  if (dtype.ok()) {
    file.dtype = *dtype;
  } else {
    fields.Fail("dtype", dtype.status().message());
  }
  file.shape = fields.NonNegativeInts("shape");
  file.data_offset = fields.Uint("data_offset", kMaxDataOffset);
  file.file_size_bytes = fields.Uint("file_size_bytes", kMaxFileBytes);
  file.modified_ns = fields.Int("modified_ns", INT64_MIN, INT64_MAX);
  file.header_crc32c =
      static_cast<uint32_t>(fields.Uint("header_crc32c", UINT32_MAX));
  file.file_id = fields.Uint("file_id", UINT64_MAX);
  file.crc_block_bytes =
      static_cast<uint32_t>(fields.Uint("crc_block_bytes", kMaxCrcBlockBytes));
  file.crc_path = fields.String("crc_path");
  file.crc_file_crc32c =
      static_cast<uint32_t>(fields.Uint("crc_file_crc32c", UINT32_MAX));
  if (!(file.in_place ? IsAbsolutePath(file.path) : IsInnerPath(file.path))) {
    fields.Fail("path", "is not a path of the expected kind");
  }
  if (!IsInnerPath(file.crc_path)) {
    fields.Fail("crc_path", "is not a path within the dataset");
  }
  CheckArraySizes(file, fields);
  if (fields.Has("rows")) file.rows = ParseRows(file, fields);
  parent.Absorb(fields);
  return file;
}

void Require(bool condition, JsonFields& fields, const char* key,
             absl::string_view problem) {
  if (!condition) fields.Fail(key, problem);
}

void CheckSplitPart(const ArrayFile& file, int64_t num_nodes,
                    JsonFields& fields, const char* key) {
  if (file.path.empty()) return;
  Require(file.dtype == DType::kInt64 && !file.in_place &&
              file.shape.size() == 1 && file.shape[0] <= num_nodes,
          fields, key, "is not an int64 array of at most num_nodes ids");
}

/// Version 1.0 knew only classes, which are still written in its way.
void ParseLabels(JsonFields& fields, NodeTypeEntry& type) {
  const char* width = "num_classes";
  if (fields.Has("label_kind")) {
    width = "label_width";
    const absl::StatusOr<LabelKind> kind =
        ParseLabelKind(fields.String("label_kind"));
    if (kind.ok()) {
      type.label_kind = *kind;
    } else {
      fields.Fail("label_kind", kind.status().message());
    }
  }
  type.label_width = fields.Int(width, 0, kMaxLabelWidth);
  type.labels = ParseArray(fields, "labels");
  Require(type.labels.path.empty() == (type.label_width == 0), fields, width,
          "does not go with labels");
}

void CheckLabels(const NodeTypeEntry& type, JsonFields& fields) {
  DType dtype = DType::kInt32;
  std::vector<int64_t> shape = {type.num_nodes};
  if (type.label_kind == LabelKind::kMultiLabel) {
    dtype = DType::kUint8;
    // Partial labels have longer rows.
    const int64_t partial = MultiLabelRowBytes(type.label_width, true);
    const bool is_partial =
        type.labels.shape == std::vector<int64_t>{type.num_nodes, partial};
    shape.push_back(is_partial ? partial
                               : MultiLabelRowBytes(type.label_width));
  } else if (type.label_kind == LabelKind::kTargets) {
    dtype = DType::kFloat32;
    shape.push_back(type.label_width);
  }
  Require(type.labels.dtype == dtype && !type.labels.in_place &&
              type.labels.shape == shape,
          fields, "labels",
          absl::StrCat("is not an array of ", Name(dtype), " ",
                       FormatShape(shape), ", as ", Name(type.label_kind),
                       " of ", type.num_nodes, " nodes are"));
}

void CheckIds(const NodeTypeEntry& type, JsonFields& fields) {
  const ArrayFile& ids = type.ids;
  if (!ids.path.empty()) {
    Require(ids.dtype == DType::kInt64 && !ids.in_place &&
                ids.shape == std::vector<int64_t>{type.num_nodes},
            fields, "ids", "is not an int64 array of num_nodes ids");
  }
  const ArrayFile& text = type.id_text;
  if (text.path.empty()) return;
  // Every id has at least a byte, and every id but the last a line feed.
  Require(text.dtype == DType::kUint8 && !text.in_place &&
              text.shape.size() == 1 && text.shape[0] >= 2 * type.num_nodes - 1,
          fields, "id_text", "is not a uint8 array of num_nodes ids");
  Require(ids.path.empty(), fields, "id_text", "does not go with ids");
}

NodeTypeEntry ParseNodeType(JsonFields& fields) {
  NodeTypeEntry type;
  type.name = fields.String("name");
  type.num_nodes = fields.Int("num_nodes", 1, kMaxNodes);
  ParseLabels(fields, type);
  type.features = ParseArray(fields, "features");
  type.train = ParseArray(fields, "train");
  type.valid = ParseArray(fields, "valid");
  type.test = ParseArray(fields, "test");
  type.ids = ParseArray(fields, "ids");
  type.id_text = ParseArray(fields, "id_text");
  if (!type.features.path.empty()) {
    const std::vector<int64_t>& shape = type.features.shape;
    Require(HoldsFeatures(type.features.dtype) && shape.size() == 2 &&
                shape[0] == type.num_nodes && shape[1] > 0,
            fields, "features", "is not a float array of num_nodes rows");
  }
  if (!type.labels.path.empty()) CheckLabels(type, fields);
  CheckSplitPart(type.train, type.num_nodes, fields, "train");
  CheckSplitPart(type.valid, type.num_nodes, fields, "valid");
  CheckSplitPart(type.test, type.num_nodes, fields, "test");
  CheckIds(type, fields);
  return type;
}

const NodeTypeEntry* FindNodeType(const Manifest& manifest,
                                  const std::string& name) {
  const auto found = std::find_if(
      manifest.node_types.begin(), manifest.node_types.end(),
      [&](const NodeTypeEntry& type) { return type.name == name; });
  return found == manifest.node_types.end() ? nullptr : &*found;
}

EdgeTypeEntry ParseEdgeType(const Manifest& manifest, JsonFields& fields) {
  EdgeTypeEntry type;
  type.name = fields.String("name");
  type.source_type = fields.String("source_type");
  type.destination_type = fields.String("destination_type");
  type.num_edges = fields.Int("num_edges", 0, kMaxEdges);
  type.indptr = ParseArray(fields, "indptr");
  type.indices = ParseArray(fields, "indices");
  const NodeTypeEntry* source = FindNodeType(manifest, type.source_type);
  const NodeTypeEntry* destination =
      FindNodeType(manifest, type.destination_type);
  Require(source != nullptr, fields, "source_type", "is not a node type");
  Require(destination != nullptr, fields, "destination_type",
          "is not a node type");
  if (!fields.status().ok()) return type;
  Require(
      type.indptr.dtype == DType::kInt64 && !type.indptr.in_place &&
          type.indptr.shape == std::vector<int64_t>{destination->num_nodes + 1},
      fields, "indptr", "is not an int64 array of num_nodes + 1 offsets");
  const bool fits_int32 = source->num_nodes <= INT32_MAX;
  Require(type.indices.dtype == (fits_int32 ? DType::kInt32 : DType::kInt64) &&
              !type.indices.in_place &&
              type.indices.shape == std::vector<int64_t>{type.num_edges},
          fields, "indices", "is not an integer array of num_edges ids");
  return type;
}

template <typename Entry>
void CheckNames(const std::vector<Entry>& entries, JsonFields& fields,
                const char* key) {
  std::set<std::string> names;
  for (const Entry& entry : entries) {
    Require(!entry.name.empty() && names.insert(entry.name).second, fields, key,
            "has a type without a name, or two of one name");
  }
}

Manifest ParseFields(JsonFields& fields) {
  Manifest manifest;
  manifest.name = fields.String("name");
  manifest.fingerprint = fields.String("fingerprint");
  Require(manifest.fingerprint.size() == 16 &&
              manifest.fingerprint.find_first_not_of("0123456789abcdef") ==
                  std::string::npos,
          fields, "fingerprint", "is not 16 hexadecimal digits");
  manifest.created_unix_seconds =
      fields.Int("created_unix_seconds", INT64_MIN, INT64_MAX);
  for (JsonFields& type : fields.Objects("node_types")) {
    manifest.node_types.push_back(ParseNodeType(type));
    fields.Absorb(type);
  }
  CheckNames(manifest.node_types, fields, "node_types");
  Require(!manifest.node_types.empty(), fields, "node_types", "is empty");
  for (JsonFields& type : fields.Objects("edge_types")) {
    manifest.edge_types.push_back(ParseEdgeType(manifest, type));
    fields.Absorb(type);
  }
  CheckNames(manifest.edge_types, fields, "edge_types");
  manifest.transforms = fields.Strings("transforms");
  return manifest;
}

/// FAILED_PRECONDITION if a newer program wrote the manifest.
absl::Status CheckVersion(JsonFields& fields) {
  Require(fields.String("format") == kManifestFormat, fields, "format",
          "is not the format of a dataset");
  JsonFields version = fields.Object("version");
  const int64_t major = version.Int("major", 1, INT32_MAX);
  version.Int("minor", 0, INT32_MAX);
  fields.Absorb(version);
  const std::vector<std::string> required = fields.Strings("required_features");
  HEARTH_RETURN_IF_ERROR(fields.status());
  if (major > Manifest::kMajorVersion) {
    return absl::FailedPreconditionError(
        absl::StrCat("has format version ", major,
                     "; this program reads up to ", Manifest::kMajorVersion));
  }
  for (const std::string& feature : required) {
    if (feature == kLabelKindsFeature || feature == kPartialLabelsFeature ||
        feature == kRowRangeFeature) {
      continue;
    }
    return absl::FailedPreconditionError(
        absl::StrCat("needs \"", absl::CEscape(feature),
                     "\", which this program does not know"));
  }
  return absl::OkStatus();
}

absl::StatusOr<Manifest> ParseVerified(absl::string_view text) {
  HEARTH_ASSIGN_OR_RETURN(const nlohmann::json json, OpenSealedJson(text));
  JsonFields fields(json, "manifest");
  HEARTH_RETURN_IF_ERROR(CheckVersion(fields));
  Manifest manifest = ParseFields(fields);
  HEARTH_RETURN_IF_ERROR(fields.status());
  return manifest;
}

}  // namespace

absl::StatusOr<Manifest> ParseManifest(absl::string_view text,
                                       const std::string& path) {
  absl::StatusOr<Manifest> manifest = ParseVerified(text);
  if (manifest.ok()) return manifest;
  const absl::StatusCode code = absl::IsInvalidArgument(manifest.status())
                                    ? absl::StatusCode::kDataLoss
                                    : manifest.status().code();
  return absl::Status(code,
                      absl::StrCat(path, ": ", manifest.status().message()));
}

}  // namespace hearth::store
