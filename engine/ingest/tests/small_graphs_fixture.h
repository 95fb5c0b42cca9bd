#ifndef HEARTH_ENGINE_INGEST_TESTS_SMALL_GRAPHS_FIXTURE_H_
#define HEARTH_ENGINE_INGEST_TESTS_SMALL_GRAPHS_FIXTURE_H_

#include <string>

#include "absl/status/statusor.h"
#include "engine/ingest/import/import_graph.h"
#include "engine/io/file_system.h"

namespace hearth::ingest {

/// For tests: imports a graph of two types made of the usual arrays in `source`
/// (see NumpyFolder). Nodes "author" have its features; nodes "paper" its
/// features, labels and split; edges "writes" are 0 -> 1, 3 -> 5 and 0 -> 5,
/// and edges "cites" are its edges.
absl::StatusOr<ImportResult> ImportTwoTypes(io::FileSystem& files,
                                            const std::string& source,
                                            const std::string& destination);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_TESTS_SMALL_GRAPHS_FIXTURE_H_
