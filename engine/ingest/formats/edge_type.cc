#include "engine/ingest/formats/edge_type.h"

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace hearth::ingest {

std::optional<SourceEdges> EdgesOfType(absl::string_view name,
                                       absl::string_view separator) {
  const std::vector<std::string> parts = absl::StrSplit(name, separator);
  const auto is_empty = [](const std::string& part) { return part.empty(); };
  if (parts.size() != 3 || std::any_of(parts.begin(), parts.end(), is_empty)) {
    return std::nullopt;
  }
  SourceEdges edges;
  edges.type = absl::StrJoin(parts, ":");
  edges.source_type = parts[0];
  edges.destination_type = parts[2];
  return edges;
}

}  // namespace hearth::ingest
