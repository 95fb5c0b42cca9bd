#include "engine/ingest/formats/imported_graph_fixture.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <optional>
#include <sstream>

#include "absl/types/span.h"
#include "engine/base/status.h"
#include "engine/ingest/formats/formats.h"
#include "engine/ingest/formats/source_files.h"
#include "engine/ingest/inspect/statistics.h"
#include "engine/ingest/source/array_reader.h"
#include "engine/store/array_type.h"

namespace hearth::ingest {
namespace {

namespace fs = std::filesystem;

void Require(bool condition, const std::string& what) {
  if (condition) return;
  std::fprintf(stderr, "%s\n", what.c_str());
  std::abort();
}

std::vector<int64_t> Ints(ArrayReader& array) {
  const auto count = static_cast<size_t>(array.header().NumElements());
  std::vector<int64_t> values(count);
  if (!array.header().type.IsFloat()) {
    Require(array.ReadInts(0, absl::MakeSpan(values)).ok(), array.path());
    return values;
  }
  std::vector<double> floats(count);
  Require(array.ReadFloats(0, absl::MakeSpan(floats)).ok(), array.path());
  for (size_t i = 0; i < count; ++i) {
    values[i] = std::isnan(floats[i]) ? -1 : static_cast<int64_t>(floats[i]);
  }
  return values;
}

std::vector<double> Floats(ArrayReader& array) {
  std::vector<double> values(static_cast<size_t>(array.header().NumElements()));
  Require(array.header().type.IsFloat() &&
              array.ReadFloats(0, absl::MakeSpan(values)).ok(),
          array.path());
  return values;
}

/// An array of the dataset in `folder`; null if it is absent.
absl::StatusOr<std::unique_ptr<ArrayReader>> Open(
    const std::string& folder, const store::ArrayFile& file) {
  if (file.path.empty()) return nullptr;
  io::FileSystem& files = io::FileSystem::Posix();
  HEARTH_ASSIGN_OR_RETURN(const store::ElementType type,
                          ParseElementType(Name(file.dtype)));
  const std::string path =
      file.in_place ? file.path : io::JoinPath(folder, file.path);
  return ArrayReader::OpenRaw(
      files, path,
      {.type = type, .shape = file.shape, .data_offset = file.data_offset});
}

absl::StatusOr<ImportedNodes> ReadNodes(const std::string& folder,
                                        const store::NodeTypeEntry& entry) {
  ImportedNodes nodes;
  nodes.num_nodes = entry.num_nodes;
  nodes.num_classes = entry.label_width;
  HEARTH_ASSIGN_OR_RETURN(const auto features, Open(folder, entry.features));
  if (features != nullptr) {
    nodes.features = Floats(*features);
    nodes.feature_type = Name(entry.features.dtype);
  }
  HEARTH_ASSIGN_OR_RETURN(const auto labels, Open(folder, entry.labels));
  if (labels != nullptr && labels->header().type.IsFloat()) {
    nodes.targets = Floats(*labels);
  } else if (labels != nullptr) {
    nodes.labels = Ints(*labels);
  }
  const std::array<const store::ArrayFile*, 3> parts = {
      &entry.train, &entry.valid, &entry.test};
  for (size_t i = 0; i < parts.size(); ++i) {
    HEARTH_ASSIGN_OR_RETURN(const auto part, Open(folder, *parts[i]));
    if (part != nullptr) nodes.split[i] = Ints(*part);
  }
  return nodes;
}

absl::StatusOr<EdgePairs> ReadEdges(const std::string& folder,
                                    const store::EdgeTypeEntry& entry) {
  HEARTH_ASSIGN_OR_RETURN(const auto indptr, Open(folder, entry.indptr));
  HEARTH_ASSIGN_OR_RETURN(const auto indices, Open(folder, entry.indices));
  const std::vector<int64_t> offsets = Ints(*indptr);
  const std::vector<int64_t> sources = Ints(*indices);
  EdgePairs edges;
  for (size_t node = 0; node + 1 < offsets.size(); ++node) {
    for (int64_t edge = offsets[node]; edge < offsets[node + 1]; ++edge) {
      edges.push_back(
          {static_cast<int64_t>(node), sources[static_cast<size_t>(edge)]});
    }
  }
  return edges;
}

std::unique_ptr<ArrayReader> OpenExpected(const std::string& path) {
  auto array = ArrayReader::OpenNpy(io::FileSystem::Posix(), FixturePath(path));
  Require(array.ok(), array.status().ToString());
  return *std::move(array);
}

}  // namespace

ImportFolder::ImportFolder(const std::string& fixture) {
  fs::copy(FixturePath(fixture), scratch_.Path("source"),
           fs::copy_options::recursive);
  // Copies of read-only files are read-only.
  for (const auto& entry :
       fs::recursive_directory_iterator(scratch_.Path("source"))) {
    fs::permissions(entry.path(), fs::perms::owner_write,
                    fs::perm_options::add);
  }
}

std::string ImportFolder::Path(const std::string& name) const {
  const std::string root = scratch_.Path("source");
  return name.empty() ? root : io::JoinPath(root, name);
}

std::string ImportFolder::Read(const std::string& name) const {
  std::ifstream file(Path(name), std::ios::binary);
  Require(file.good(), Path(name));
  std::ostringstream bytes;
  bytes << file.rdbuf();
  return bytes.str();
}

void ImportFolder::Write(const std::string& name,
                         const std::string& bytes) const {
  std::ofstream file(Path(name), std::ios::binary | std::ios::trunc);
  file << bytes;
  Require(file.good(), Path(name));
}

void ImportFolder::Replace(const std::string& name, const std::string& from,
                           const std::string& to) const {
  std::string text = Read(name);
  const size_t at = text.find(from);
  Require(at != std::string::npos, "no " + from);
  Write(name, text.replace(at, from.size(), to));
}

void ImportFolder::Remove(const std::string& name) const {
  Require(fs::remove_all(Path(name)) > 0, Path(name));
}

absl::StatusOr<ImportedGraph> ImportFolder::Import(
    const Choices& choices) const {
  ImportOptions options;
  options.source = Path(choices.source);
  options.name = "test";
  options.destination = scratch_.Path("dataset");
  options.in_place = choices.in_place;
  options.memory_limit_bytes = choices.memory_limit_bytes;
  fs::remove_all(options.destination);
  HEARTH_ASSIGN_OR_RETURN(
      ImportResult result,
      ImportDataset(io::FileSystem::Posix(), {choices.format, choices.options},
                    options, nullptr, {}));
  ImportedGraph graph;
  for (const store::NodeTypeEntry& entry : result.manifest.node_types) {
    HEARTH_ASSIGN_OR_RETURN(graph.nodes[entry.name],
                            ReadNodes(options.destination, entry));
  }
  for (const store::EdgeTypeEntry& entry : result.manifest.edge_types) {
    HEARTH_ASSIGN_OR_RETURN(graph.edges[entry.name],
                            ReadEdges(options.destination, entry));
  }
  HEARTH_ASSIGN_OR_RETURN(
      const std::optional<DatasetStatistics> statistics,
      LoadStatistics(io::FileSystem::Posix(), options.destination));
  Require(statistics.has_value(), "no statistics");
  graph.warnings = statistics->warnings;
  graph.manifest = std::move(result.manifest);
  return graph;
}

EdgePairs ExpectedEdges(const std::string& path) {
  const std::unique_ptr<ArrayReader> array = OpenExpected(path);
  const std::vector<int64_t> ends = Ints(*array);
  const size_t count = ends.size() / 2;
  // In Fortran order the two ends of an edge are adjacent.
  const bool paired = array->header().fortran_order;
  EdgePairs edges;
  for (size_t i = 0; i < count; ++i) {
    edges.push_back(paired ? std::pair(ends[2 * i + 1], ends[2 * i])
                           : std::pair(ends[count + i], ends[i]));
  }
  return edges;
}

EdgePairs Sorted(EdgePairs edges) {
  std::sort(edges.begin(), edges.end());
  return edges;
}

std::vector<int64_t> ExpectedInts(const std::string& path) {
  return Ints(*OpenExpected(path));
}

std::vector<double> ExpectedFloats(const std::string& path) {
  return Floats(*OpenExpected(path));
}

std::string FixturePath(const std::string& name) {
  return io::JoinPath("tests/importers/fixtures", name);
}

}  // namespace hearth::ingest
