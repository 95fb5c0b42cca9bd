#include "engine/store/sealed_json.h"

#include <cstddef>
#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/types/span.h"
#include "engine/base/crc32c.h"
#include "engine/store/strict_json.h"

namespace hearth::store {
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

}  // namespace hearth::store
