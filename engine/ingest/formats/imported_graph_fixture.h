#ifndef HEARTH_ENGINE_INGEST_FORMATS_IMPORTED_GRAPH_FIXTURE_H_
#define HEARTH_ENGINE_INGEST_FORMATS_IMPORTED_GRAPH_FIXTURE_H_

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/ingest/formats/format_options.h"
#include "engine/ingest/import/import_graph.h"
#include "engine/io/file_system.h"
#include "engine/io/testing/scratch_directory.h"
#include "engine/store/manifest.h"

/// Imports datasets in tests and reads all of them back, and what
/// tests/importers/fixtures expects of them.

namespace hearth::ingest {

/// Edges as (destination, source), in the dataset's order.
using EdgePairs = std::vector<std::pair<int64_t, int64_t>>;

/// The stored arrays of the nodes of a type; empty if absent.
struct ImportedNodes {
  int64_t num_nodes = 0;
  int64_t num_classes = 0;
  std::string feature_type;
  /// Row-major.
  std::vector<double> features;
  std::vector<int64_t> labels;
  /// Labels that are numbers to predict, row-major, in place of `labels`.
  std::vector<double> targets;
  /// train, valid, test.
  std::array<std::vector<int64_t>, 3> split;
};

struct ImportedGraph {
  store::Manifest manifest;
  /// What the dataset's statistics warn of.
  std::vector<std::string> warnings;
  std::map<std::string, ImportedNodes> nodes;
  std::map<std::string, EdgePairs> edges;
};

/// A copy of a fixture's folder to spoil, and a place for the dataset.
class ImportFolder {
 public:
  /// `fixture` is a folder of tests/importers/fixtures: "ginex/toy-ginex".
  explicit ImportFolder(const std::string& fixture);

  std::string Path(const std::string& name) const;
  std::string Read(const std::string& name) const;
  void Write(const std::string& name, const std::string& bytes) const;
  /// Replaces the first `from` of the file; there must be one.
  void Replace(const std::string& name, const std::string& from,
               const std::string& to) const;
  void Remove(const std::string& name) const;

  struct Choices {
    std::string format = "";
    FormatOptions options = {};
    bool in_place = false;
    uint64_t memory_limit_bytes = uint64_t{256} << 20;
    /// Within the folder.
    std::string source = "";
  };

  /// Imports and reads everything back; a dataset imported before is removed.
  absl::StatusOr<ImportedGraph> Import(const Choices& choices) const;
  absl::StatusOr<ImportedGraph> Import() const { return Import(Choices()); }

 private:
  io::ScratchDirectory scratch_;
};

/// "edges.paper___cites___paper.npy" of a fixture's expected/, ordered by
/// destination, then source, as `Sorted` orders the imported ones.
EdgePairs ExpectedEdges(const std::string& path);
EdgePairs Sorted(EdgePairs edges);

/// The elements of an .npy file. NaN becomes -1 in integers.
std::vector<int64_t> ExpectedInts(const std::string& path);
std::vector<double> ExpectedFloats(const std::string& path);

/// The path of a file below tests/importers/fixtures.
std::string FixturePath(const std::string& name);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_FORMATS_IMPORTED_GRAPH_FIXTURE_H_
