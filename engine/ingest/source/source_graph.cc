#include "engine/ingest/source/source_graph.h"

#include <algorithm>
#include <cstddef>
#include <set>

#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status.h"

namespace hearth::ingest {

namespace {

/// INVALID_ARGUMENT if the name is empty or among `seen`, where it is added.
absl::Status CheckNewName(const std::string& source, const char* what,
                          const std::string& name,
                          std::set<std::string>& seen) {
  if (name.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(source, ": has ", what, " types without a name"));
  }
  if (seen.insert(name).second) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(source, ": has the ", what, " type \"",
                   absl::Utf8SafeCEscape(name), "\" twice"));
}

}  // namespace

const SourceNodes* SourceGraph::FindNodes(const std::string& type) const {
  const auto found =
      std::find_if(nodes.begin(), nodes.end(),
                   [&](const SourceNodes& some) { return some.type == type; });
  return found == nodes.end() ? nullptr : &*found;
}

EdgeEnds SourceGraph::EndsOf(const SourceEdges& some) const {
  return {FindNodes(some.source_type)->num_nodes,
          FindNodes(some.destination_type)->num_nodes};
}

absl::Status SourceGraph::CheckTypes(const std::string& source) const {
  std::set<std::string> names;
  for (const SourceNodes& some : nodes) {
    HEARTH_RETURN_IF_ERROR(CheckNewName(source, "node", some.type, names));
  }
  names.clear();
  for (const SourceEdges& some : edges) {
    HEARTH_RETURN_IF_ERROR(CheckNewName(source, "edge", some.type, names));
    for (const std::string& end : {some.source_type, some.destination_type}) {
      if (FindNodes(end) != nullptr) continue;
      return absl::InvalidArgumentError(absl::StrCat(
          source, ": edges of type \"", absl::Utf8SafeCEscape(some.type),
          "\" join nodes of type \"", absl::Utf8SafeCEscape(end),
          "\", which it does not have"));
    }
  }
  if (!nodes.empty() && !edges.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(source, ": has no ", nodes.empty() ? "nodes" : "edges"));
}

absl::Status SourceGraph::LeaveOutEmptyTypes(const std::string& source) {
  for (const SourceNodes& empty : nodes) {
    if (empty.num_nodes > 0) continue;
    std::string left_out;
    for (const SourceEdges& some : edges) {
      if (some.source_type != empty.type &&
          some.destination_type != empty.type) {
        continue;
      }
      const int64_t count = some.edges != nullptr
                                ? some.edges->num_edges()
                                : some.indices->header().NumElements();
      if (count > 0) {
        return absl::InvalidArgumentError(absl::StrCat(
            source, ": has ", count, " edges of type \"",
            absl::Utf8SafeCEscape(some.type), "\", but no nodes of type \"",
            absl::Utf8SafeCEscape(empty.type), "\""));
      }
      absl::StrAppend(&left_out, ", and so are the edges \"", some.type, "\"");
    }
    warnings.push_back(absl::StrCat("nodes \"", empty.type,
                                    "\": there are none; the type is left out",
                                    left_out));
    std::erase_if(edges, [&](const SourceEdges& some) {
      return some.source_type == empty.type ||
             some.destination_type == empty.type;
    });
  }
  std::erase_if(nodes,
                [](const SourceNodes& some) { return some.num_nodes == 0; });
  if (!nodes.empty() && !edges.empty()) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(
      source, ": has no ", nodes.empty() ? "nodes" : "edges among its nodes"));
}

void SourceGraph::TakeFeaturesAsColumns() {
  for (SourceNodes& some : nodes) {
    if (some.features == nullptr || some.features->header().shape.size() != 1) {
      continue;
    }
    some.features->TakeAsColumn();
    transforms.push_back(
        absl::StrCat(some.features->name(),
                     ": a list of numbers taken as a matrix of one column"));
  }
}

void SourceGraph::TakeFeaturesAsBFloat16() {
  for (SourceNodes& some : nodes) {
    if (some.features == nullptr ||
        some.features->header().type !=
            store::ElementType{store::ElementType::Kind::kUint, 2}) {
      continue;
    }
    some.features->TakeAsBFloat16();
    transforms.push_back(
        absl::StrCat(some.features->name(), ": uint16 taken as bfloat16"));
  }
}

std::string FilePrefixes::New(const std::string& type) {
  std::string prefix = type;
  for (char& c : prefix) {
    if (!absl::ascii_isalnum(static_cast<unsigned char>(c)) && c != '-') {
      c = '_';
    }
  }
  prefix.resize(std::min<size_t>(prefix.size(), 100));
  std::string unique = prefix;
  for (int i = 2; !taken_.insert(unique).second; ++i) {
    unique = absl::StrCat(prefix, "-", i);
  }
  return unique;
}

}  // namespace hearth::ingest
