#include "client/cli/layout_words.h"

namespace hearth::cli {

const std::map<std::string, v1::Layout>& LayoutWords() {
  static const auto* words = new std::map<std::string, v1::Layout>{
      {"auto", v1::LAYOUT_UNSPECIFIED},
      {"numpy", v1::NUMPY},
  };
  return *words;
}

std::string LayoutWord(v1::Layout layout) {
  for (const auto& [word, value] : LayoutWords()) {
    if (value == layout) return word;
  }
  return std::to_string(layout);
}

}  // namespace hearth::cli
