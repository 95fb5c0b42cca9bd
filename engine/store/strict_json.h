#ifndef HEARTH_ENGINE_STORE_STRICT_JSON_H_
#define HEARTH_ENGINE_STORE_STRICT_JSON_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/io/file_system.h"
#include "nlohmann/json.hpp"

/// JSON from files that may be damaged or hostile, without exceptions; and JSON
/// objects that are sealed by a checksum: their last field, "crc32c", is the
/// CRC32C of all bytes before it.

namespace hearth::store {

/// Parses `text`; INVALID_ARGUMENT for anything that is not JSON, for a key
/// that appears twice in an object, and for nesting deeper than 32.
absl::StatusOr<nlohmann::json> ParseStrictJson(absl::string_view text);

/// Whether `text` is UTF-8, as JSON requires.
bool IsUtf8(absl::string_view text);

/// Typed access to the fields of one object. The first field that is missing,
/// of another type or out of range makes status() an INVALID_ARGUMENT that
/// names it; reading goes on with zeros. Thread-compatible.
class JsonFields {
 public:
  /// `where` names the object in errors. `value` must outlive this.
  JsonFields(const nlohmann::json& value, std::string where);

  int64_t Int(const char* key, int64_t min, int64_t max);
  uint64_t Uint(const char* key, uint64_t max);
  /// Any number, which is finite in JSON.
  double Double(const char* key);
  bool Bool(const char* key);
  std::string String(const char* key);
  std::vector<int64_t> NonNegativeInts(const char* key);
  std::vector<std::string> Strings(const char* key);
  /// An array of objects; empty after an error.
  std::vector<JsonFields> Objects(const char* key);
  /// An object; without fields after an error.
  JsonFields Object(const char* key);

  /// Whether the object has the field.
  bool Has(const char* key) const;

  /// Makes status() an error on `key`, unless it is one already.
  void Fail(const char* key, absl::string_view problem);

  /// Takes over the error of an object within this one.
  void Absorb(const JsonFields& part);

  const absl::Status& status() const { return status_; }

 private:
  const nlohmann::json* Find(const char* key);

  const nlohmann::json* value_;
  std::string where_;
  absl::Status status_;
};

/// The text of a non-empty object, sealed. Text that is not UTF-8 is replaced.
std::string SealJson(const nlohmann::ordered_json& object);

/// Parses the text of SealJson. DATA_LOSS if its checksum does not match;
/// INVALID_ARGUMENT as ParseStrictJson.
absl::StatusOr<nlohmann::json> OpenSealedJson(absl::string_view text);

/// Reads a file of SealJson whose field "format" is `format`, and calls
/// `parse`, which returns whether the object is valid and may throw
/// nlohmann::json::exception. NOT_FOUND; DATA_LOSS, naming the file, if it is
/// damaged, of another format, or not valid; errors of io::ReadWholeFile.
absl::Status ReadSealedJson(
    io::FileSystem& files, const std::string& path, uint64_t limit_bytes,
    int format, absl::FunctionRef<bool(const nlohmann::json&)> parse);

}  // namespace hearth::store

#endif  // HEARTH_ENGINE_STORE_STRICT_JSON_H_
