#ifndef HEARTH_ENGINE_INGEST_FORMATS_GINEX_H_
#define HEARTH_ENGINE_INGEST_FORMATS_GINEX_H_

#include <string>

#include "absl/status/statusor.h"
#include "engine/ingest/source/import_context.h"
#include "engine/ingest/source/source_graph.h"
#include "engine/io/file_system.h"

namespace hearth::ingest {

/// The files that Ginex and GNNDrive read: indptr.dat and indices.dat (CSC),
/// features.dat and labels.dat (NaN: none), all without headers; conf.json with
/// their shapes and types; split_idx.pth. GNNDrive calls the files of features
/// of DIM columns features-DIM.dat and conf-DIM.json; nc_score.pth, which
/// serves Ginex's cache, is not read. Homogeneous.

/// Why `source` looks like one; empty if it does not.
absl::StatusOr<std::string> RecognizeGinex(io::FileSystem& files,
                                           const std::string& source);

/// INVALID_ARGUMENT, or DATA_LOSS for a truncated file, naming the file.
absl::StatusOr<SourceGraph> OpenGinex(ImportContext& context,
                                      const std::string& source);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_FORMATS_GINEX_H_
