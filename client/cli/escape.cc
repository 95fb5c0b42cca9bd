#include "client/cli/escape.h"

#include <cstdint>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace hearth::cli {
namespace {

// Bytes of the UTF-8 character that `text` starts with; 0 if it starts with
// none (overlong forms, surrogates and code points over U+10FFFF included).
size_t CharacterSize(absl::string_view text) {
  const auto byte = [&](size_t i) {
    return i < text.size() ? static_cast<uint8_t>(text[i]) : uint8_t{0};
  };
  const auto continues = [&](size_t i, uint8_t low = 0x80,
                             uint8_t high = 0xbf) {
    return byte(i) >= low && byte(i) <= high;
  };
  const uint8_t lead = byte(0);
  if (lead < 0x80) return 1;
  if (lead >= 0xc2 && lead <= 0xdf) return continues(1) ? 2 : 0;
  if (lead >= 0xe0 && lead <= 0xef) {
    const uint8_t low = lead == 0xe0 ? 0xa0 : 0x80;
    const uint8_t high = lead == 0xed ? 0x9f : 0xbf;
    return continues(1, low, high) && continues(2) ? 3 : 0;
  }
  if (lead >= 0xf0 && lead <= 0xf4) {
    const uint8_t low = lead == 0xf0 ? 0x90 : 0x80;
    const uint8_t high = lead == 0xf4 ? 0x8f : 0xbf;
    return continues(1, low, high) && continues(2) && continues(3) ? 4 : 0;
  }
  return 0;
}

bool IsControl(absl::string_view character) {
  const auto first = static_cast<uint8_t>(character[0]);
  if (character.size() == 1) return first < 0x20 || first == 0x7f;
  return character.size() == 2 && first == 0xc2 &&
         static_cast<uint8_t>(character[1]) < 0xa0;
}

void AppendEscaped(absl::string_view bytes, std::string* out) {
  for (const char c : bytes) {
    if (c == '\n') {
      absl::StrAppend(out, "\\n");
    } else if (c == '\t') {
      absl::StrAppend(out, "\\t");
    } else {
      absl::StrAppendFormat(out, "\\x%02x", static_cast<uint8_t>(c));
    }
  }
}

}  // namespace

std::string EscapeControl(absl::string_view text) {
  std::string out;
  while (!text.empty()) {
    const size_t size = CharacterSize(text);
    const absl::string_view character = text.substr(0, size == 0 ? 1 : size);
    if (size == 0 || IsControl(character)) {
      AppendEscaped(character, &out);
    } else {
      absl::StrAppend(&out, character);
    }
    text.remove_prefix(character.size());
  }
  return out;
}

}  // namespace hearth::cli
