#ifndef HEARTH_ENGINE_INGEST_FORMATS_CSC_FORMATS_H_
#define HEARTH_ENGINE_INGEST_FORMATS_CSC_FORMATS_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/ingest/source/import_context.h"
#include "engine/ingest/source/source_graph.h"
#include "engine/io/file_system.h"
#include "engine/store/npy.h"
#include "nlohmann/json.hpp"

namespace hearth::ingest {

/// A conf.json that describes arrays without headers beside it: num_nodes, and
/// for an array NAME_shape and NAME_dtype. Errors are INVALID_ARGUMENT and name
/// file and field.
class ArrayConf {
 public:
  /// Reads at most 64 KiB.
  static absl::StatusOr<ArrayConf> Read(io::FileSystem& files,
                                        const std::string& path);

  int64_t num_nodes() const { return num_nodes_; }

  /// The array `name`; its type is called as numpy calls it, perhaps with
  /// `prefix` before.
  absl::StatusOr<store::ArrayHeader> Header(
      const std::string& name, absl::string_view prefix = "") const;

  /// A field of whole numbers of 0 or more.
  absl::StatusOr<int64_t> Number(const char* name) const;

 private:
  ArrayConf(std::string path, nlohmann::json fields)
      : path_(std::move(path)), fields_(std::move(fields)) {}

  std::string path_;
  nlohmann::json fields_;
  int64_t num_nodes_ = 0;
};

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

/// The files that DiskGNN reads: features.bin without a header, conf.json with
/// its shape and type, graph.pth with GraphBolt's graph, labels.pth,
/// split_idx.pth. Homogeneous: of heterographs DiskGNN writes no graph.

/// Why `source` looks like one; empty if it does not.
absl::StatusOr<std::string> RecognizeDiskGnn(io::FileSystem& files,
                                             const std::string& source);

/// INVALID_ARGUMENT, or DATA_LOSS for a truncated file, naming the file.
absl::StatusOr<SourceGraph> OpenDiskGnn(ImportContext& context,
                                        const std::string& source);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_FORMATS_CSC_FORMATS_H_
