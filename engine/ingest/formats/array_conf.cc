#include "engine/ingest/formats/array_conf.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "engine/base/status_macros.h"
#include "engine/ingest/formats/raw_array.h"
#include "engine/io/atomic_file.h"
#include "engine/store/strict_json.h"

namespace hearth::ingest {
namespace {

constexpr uint64_t kMaxBytes = 64 << 10;

absl::Status Invalid(const std::string& path, absl::string_view problem) {
  return absl::InvalidArgumentError(absl::StrCat(path, ": ", problem));
}

}  // namespace

absl::StatusOr<ArrayConf> ArrayConf::Read(io::FileSystem& files,
                                          const std::string& path) {
  const absl::StatusOr<std::string> text =
      io::ReadWholeFile(files, path, kMaxBytes);
  if (absl::IsNotFound(text.status())) return Invalid(path, "is missing");
  HEARTH_RETURN_IF_ERROR(text.status());
  absl::StatusOr<nlohmann::json> parsed = store::ParseStrictJson(*text);
  if (!parsed.ok()) return Invalid(path, parsed.status().message());
  ArrayConf conf(path, *std::move(parsed));
  HEARTH_ASSIGN_OR_RETURN(conf.num_nodes_, conf.Number("num_nodes"));
  return conf;
}

absl::StatusOr<store::ArrayHeader> ArrayConf::Header(
    const std::string& name, absl::string_view prefix) const {
  store::JsonFields fields(fields_, path_);
  store::ArrayHeader header;
  header.shape = fields.NonNegativeInts(absl::StrCat(name, "_shape").c_str());
  const std::string key = absl::StrCat(name, "_dtype");
  const std::string type = fields.String(key.c_str());
  HEARTH_RETURN_IF_ERROR(fields.status());
  absl::StatusOr<store::ElementType> element =
      ParseElementType(absl::StripPrefix(type, prefix));
  if (!element.ok()) {
    return Invalid(path_, absl::StrCat(key, ": ", element.status().message()));
  }
  header.type = *element;
  return header;
}

absl::StatusOr<int64_t> ArrayConf::Number(const char* name) const {
  store::JsonFields fields(fields_, path_);
  const int64_t number = fields.Int(name, 0, INT64_MAX);
  HEARTH_RETURN_IF_ERROR(fields.status());
  return number;
}

}  // namespace hearth::ingest
