#include "engine/store/strict_json.h"

#include <cstddef>
#include <cstdint>
#include <functional>
#include <set>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/types/span.h"
#include "engine/base/crc32c.h"
#include "engine/base/status.h"
#include "engine/io/whole_file.h"

namespace hearth::store {

namespace {

using nlohmann::json;

constexpr int kMaxDepth = 32;

// Refuses texts that nlohmann::json accepts silently.
class StrictnessCheck {
 public:
  /// Called for every parse event; false drops the value.
  bool operator()(int depth, json::parse_event_t event, const json& parsed) {
    if (depth > kMaxDepth && problem_.empty()) problem_ = "is nested too deep";
    switch (event) {
      case json::parse_event_t::object_start:
        keys_.emplace_back();
        break;
      case json::parse_event_t::object_end:
        keys_.pop_back();
        break;
      case json::parse_event_t::key:
        CheckKey(*parsed.get_ptr<const json::string_t*>());
        break;
      default:
        break;
    }
    // After a problem nothing more is kept.
    return problem_.empty() || event == json::parse_event_t::key;
  }

  const std::string& problem() const { return problem_; }

 private:
  void CheckKey(const std::string& key) {
    if (!keys_.back().insert(key).second && problem_.empty()) {
      problem_ = absl::StrCat("has \"", absl::CEscape(key), "\" twice");
    }
  }

  std::vector<std::set<std::string>> keys_;
  std::string problem_;
};

}  // namespace

absl::StatusOr<json> ParseStrictJson(absl::string_view text) {
  StrictnessCheck check;
  json parsed = json::parse(text.begin(), text.end(), std::ref(check),
                            /*allow_exceptions=*/false);
  if (!check.problem().empty()) {
    return absl::InvalidArgumentError(absl::StrCat("JSON ", check.problem()));
  }
  if (parsed.is_discarded()) {
    return absl::InvalidArgumentError("is not JSON");
  }
  return parsed;
}

bool IsUtf8(absl::string_view text) {
  const json value = std::string(text);
  // Drops text that is not UTF-8.
  const std::string kept =
      value.dump(-1, ' ', false, json::error_handler_t::ignore);
  return json::parse(kept, nullptr, /*allow_exceptions=*/false) == value;
}

JsonFields::JsonFields(const json& value, std::string where)
    : value_(&value), where_(std::move(where)) {
  if (!value.is_object()) {
    status_ = absl::InvalidArgumentError(
        absl::StrCat(where_, " is not a JSON object"));
  }
}

const json* JsonFields::Find(const char* key) {
  if (!status_.ok()) return nullptr;
  const auto found = value_->find(key);
  if (found != value_->end()) return &*found;
  Fail(key, "is missing");
  return nullptr;
}

bool JsonFields::Has(const char* key) const { return value_->contains(key); }

void JsonFields::Fail(const char* key, absl::string_view problem) {
  if (!status_.ok()) return;
  status_ =
      absl::InvalidArgumentError(absl::StrCat(where_, ".", key, " ", problem));
}

void JsonFields::Absorb(const JsonFields& part) {
  status_.Update(part.status_);
}

int64_t JsonFields::Int(const char* key, int64_t min, int64_t max) {
  const json* field = Find(key);
  if (field == nullptr) return 0;
  const auto* number = field->get_ptr<const json::number_integer_t*>();
  // nlohmann::json holds integers beyond 2^63 - 1 as unsigned: as int64_t they
  // would be negative.
  const bool beyond = field->is_number_unsigned() &&
                      *field->get_ptr<const json::number_unsigned_t*>() >
                          static_cast<uint64_t>(INT64_MAX);
  if (number != nullptr && !beyond && *number >= min && *number <= max) {
    return *number;
  }
  Fail(key, absl::StrCat("is not an integer in ", min, " .. ", max));
  return 0;
}

uint64_t JsonFields::Uint(const char* key, uint64_t max) {
  const json* field = Find(key);
  if (field == nullptr) return 0;
  const auto* value = field->get_ptr<const json::number_unsigned_t*>();
  if (value != nullptr && *value <= max) return *value;
  Fail(key, absl::StrCat("is not an integer in 0 .. ", max));
  return 0;
}

double JsonFields::Double(const char* key) {
  const json* field = Find(key);
  if (field == nullptr) return 0;
  if (field->is_number()) return field->get<double>();
  Fail(key, "is not a number");
  return 0;
}

bool JsonFields::Bool(const char* key) {
  const json* field = Find(key);
  if (field == nullptr) return false;
  if (const auto* value = field->get_ptr<const json::boolean_t*>()) {
    return *value;
  }
  Fail(key, "is neither true nor false");
  return false;
}

std::string JsonFields::String(const char* key) {
  const json* field = Find(key);
  if (field == nullptr) return "";
  if (const auto* value = field->get_ptr<const json::string_t*>()) {
    return *value;
  }
  Fail(key, "is not a string");
  return "";
}

std::vector<int64_t> JsonFields::NonNegativeInts(const char* key) {
  const json* field = Find(key);
  if (field == nullptr) return {};
  std::vector<int64_t> values;
  if (!field->is_array()) {
    Fail(key, "is not an array");
    return {};
  }
  for (const json& item : *field) {
    const auto* value = item.get_ptr<const json::number_unsigned_t*>();
    if (value == nullptr || *value > static_cast<uint64_t>(INT64_MAX)) {
      Fail(key, "holds something else than integers from 0 to 2^63 - 1");
      return {};
    }
    values.push_back(static_cast<int64_t>(*value));
  }
  return values;
}

std::vector<std::string> JsonFields::Strings(const char* key) {
  const json* field = Find(key);
  if (field == nullptr) return {};
  std::vector<std::string> values;
  if (!field->is_array()) {
    Fail(key, "is not an array");
    return {};
  }
  for (const json& item : *field) {
    const auto* value = item.get_ptr<const json::string_t*>();
    if (value == nullptr) {
      Fail(key, "holds something else than strings");
      return {};
    }
    values.push_back(*value);
  }
  return values;
}

std::vector<JsonFields> JsonFields::Objects(const char* key) {
  const json* field = Find(key);
  if (field == nullptr) return {};
  std::vector<JsonFields> objects;
  if (!field->is_array()) {
    Fail(key, "is not an array");
    return {};
  }
  for (const json& item : *field) {
    objects.emplace_back(
        item, absl::StrCat(where_, ".", key, "[", objects.size(), "]"));
    Absorb(objects.back());
  }
  return objects;
}

JsonFields JsonFields::Object(const char* key) {
  static const json empty = json::object();
  const json* field = Find(key);
  if (field == nullptr) return JsonFields(empty, where_);
  JsonFields object(*field, absl::StrCat(where_, ".", key));
  Absorb(object);
  return object;
}

namespace {

constexpr char kTrailerFormat[] = ",\n  \"crc32c\": \"%08x\"\n}\n";

std::string Trailer(absl::string_view body) {
  const uint32_t crc = Crc32c(absl::MakeConstSpan(
      reinterpret_cast<const std::byte*>(body.data()), body.size()));
  return absl::StrFormat(kTrailerFormat, crc);
}

}  // namespace

std::string SealJson(const nlohmann::ordered_json& object) {
  // Text that is not UTF-8 would throw otherwise.
  std::string text = object.dump(
      2, ' ', false, nlohmann::ordered_json::error_handler_t::replace);
  text.resize(text.size() - 2);  // The closing "\n}" comes after the checksum.
  absl::StrAppend(&text, Trailer(text));
  return text;
}

absl::StatusOr<nlohmann::json> OpenSealedJson(absl::string_view text) {
  const size_t size = Trailer("").size();
  if (text.size() < size || text.substr(text.size() - size) !=
                                Trailer(text.substr(0, text.size() - size))) {
    return absl::DataLossError("is damaged (its checksum does not match)");
  }
  return ParseStrictJson(text);
}

absl::Status ReadSealedJson(
    io::FileSystem& files, const std::string& path, uint64_t limit_bytes,
    int format, absl::FunctionRef<bool(const nlohmann::json&)> parse) {
  HEARTH_ASSIGN_OR_RETURN(const std::string text,
                          io::ReadWholeFile(files, path, limit_bytes));
  try {
    const absl::StatusOr<nlohmann::json> json = OpenSealedJson(text);
    if (json.ok() && json->at("format") == format && parse(*json)) {
      return absl::OkStatus();
    }
  } catch (const nlohmann::json::exception&) {
    // Handled below.
  }
  return absl::DataLossError(absl::StrCat(path, ": is damaged"));
}

}  // namespace hearth::store
