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

/// Imports datasets in tests, and reads back the datasets and the expectations
/// in tests/importers/fixtures.

namespace hearth::ingest {

/// Edges as (destination, source), in the dataset's order.
using EdgePairs = std::vector<std::pair<int64_t, int64_t>>;

/// Stored arrays of the nodes of a type; absent arrays are empty.
struct ImportedNodes {
  int64_t num_nodes = 0;
  int64_t num_classes = 0;
  std::string feature_type;
  /// Features, row-major.
  std::vector<double> features;
  std::vector<int64_t> labels;
  /// Labels that are numbers to predict, row-major; `labels` is then empty.
  std::vector<double> targets;
  /// Train, valid, test.
  std::array<std::vector<int64_t>, 3> split;
};

struct ImportedGraph {
  store::Manifest manifest;
  /// Warnings in the dataset's statistics.
  std::vector<std::string> warnings;
  std::map<std::string, ImportedNodes> nodes;
  std::map<std::string, EdgePairs> edges;
};

/// A copy of a fixture's folder, which tests may change, and a place for the
/// dataset.
class ImportFolder {
 public:
  /// `fixture` is a folder below tests/importers/fixtures: "ginex/toy-ginex".
  explicit ImportFolder(const std::string& fixture);

  std::string Path(const std::string& name) const;
  std::string Read(const std::string& name) const;
  void Write(const std::string& name, const std::string& bytes) const;
  /// Replaces the first `from` in a file. REQUIRES: there is one.
  void Replace(const std::string& name, const std::string& from,
               const std::string& to) const;
  void Remove(const std::string& name) const;

  struct Choices {
    std::string format = "";
    FormatOptions options = {};
    bool in_place = false;
    uint64_t memory_limit_bytes = uint64_t{256} << 20;
    /// Path within the folder.
    std::string source = "";
  };

  /// Imports the folder and reads everything back; removes a dataset imported
  /// before.
  absl::StatusOr<ImportedGraph> Import(const Choices& choices) const;
  absl::StatusOr<ImportedGraph> Import() const { return Import(Choices()); }

 private:
  io::ScratchDirectory scratch_;
};

/// Edges in a file of a fixture's expected/, such as
/// "edges.paper___cites___paper.npy": ordered by destination, then source, as
/// `Sorted` orders imported edges.
EdgePairs ExpectedEdges(const std::string& path);
EdgePairs Sorted(EdgePairs edges);

/// Elements of an .npy file. NaN becomes -1 in integers.
std::vector<int64_t> ExpectedInts(const std::string& path);
std::vector<double> ExpectedFloats(const std::string& path);

/// Path of a file below tests/importers/fixtures.
std::string FixturePath(const std::string& name);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_FORMATS_IMPORTED_GRAPH_FIXTURE_H_
