#include "client/cli/layout_words.h"

namespace hearth::cli {

const std::map<std::string, v1::Layout>& LayoutWords() {
  static const auto* words = new std::map<std::string, v1::Layout>{
      {"auto", v1::LAYOUT_UNSPECIFIED},
      {"diskgnn", v1::DISKGNN},
      {"edge-list", v1::EDGE_LIST},
      {"ginex", v1::GINEX},
      {"graphbolt", v1::GRAPHBOLT},
      {"igb", v1::IGB},
      {"mag240m", v1::MAG240M},
      {"numpy", v1::NUMPY},
      {"ogb", v1::OGB},
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
