#ifndef HEARTH_ENGINE_STORE_SEALED_JSON_H_
#define HEARTH_ENGINE_STORE_SEALED_JSON_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "nlohmann/json.hpp"

/// JSON objects whose last field, "crc32c", is the CRC32C of all bytes before
/// it. The whole is JSON, and reading it by eye needs nothing else.

namespace hearth::store {

/// The text of an object, not empty, with its checksum. What is not UTF-8 is
/// replaced.
std::string SealJson(const nlohmann::ordered_json& object);

/// The object, with its checksum verified. DATA_LOSS if it does not match;
/// INVALID_ARGUMENT as ParseStrictJson.
absl::StatusOr<nlohmann::json> OpenSealedJson(absl::string_view text);

}  // namespace hearth::store

#endif  // HEARTH_ENGINE_STORE_SEALED_JSON_H_
