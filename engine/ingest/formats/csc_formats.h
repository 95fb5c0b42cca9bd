#ifndef HEARTH_ENGINE_INGEST_FORMATS_CSC_FORMATS_H_
#define HEARTH_ENGINE_INGEST_FORMATS_CSC_FORMATS_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/ingest/source/import_context.h"
#include "engine/ingest/source/source_graph.h"
#include "engine/io/file_system.h"
#include "engine/store/npy.h"
#include "nlohmann/json_fwd.hpp"

/// Folders of raw arrays with the topology in CSC, of one node type.
///
/// Ginex and GNNDrive: indptr.dat and indices.dat (CSC), features.dat and
/// labels.dat (NaN: none), all without headers; conf.json with their shapes and
/// types; split_idx.pth. For features of DIM columns GNNDrive has
/// features-DIM.dat and conf-DIM.json. nc_score.pth, a cache of Ginex, is not
/// read.
///
/// DiskGNN: features.bin without a header, conf.json with its shape and type,
/// graph.pth with GraphBolt's graph, labels.pth, split_idx.pth. DiskGNN writes
/// no graph of heterographs.

namespace hearth::ingest {

/// A conf.json that describes arrays without headers beside it: num_nodes, and
/// for each array NAME its NAME_shape and NAME_dtype. Errors are
/// INVALID_ARGUMENT, naming file and field.
class ArrayConf {
 public:
  /// Reads the file, at most 64 KiB.
  static absl::StatusOr<ArrayConf> Read(io::FileSystem& files,
                                        const std::string& path);

  int64_t num_nodes() const { return num_nodes_; }

  /// Header of the array `name`. Its type has numpy's name, after `prefix`.
  absl::StatusOr<store::ArrayHeader> Header(
      const std::string& name, absl::string_view prefix = "") const;

  /// Value of a field that is a whole number of 0 or more.
  absl::StatusOr<int64_t> Number(const char* name) const;

 private:
  ArrayConf(std::string path, nlohmann::json fields);

  std::string path_;
  /// The parsed file. A pointer, so that this header does without json.hpp.
  std::shared_ptr<const nlohmann::json> fields_;
  int64_t num_nodes_ = 0;
};

/// Reason why `source` looks like a folder for Ginex or GNNDrive; empty if it
/// does not.
absl::StatusOr<std::string> RecognizeGinex(io::FileSystem& files,
                                           const std::string& source);

/// Opens a folder for Ginex or GNNDrive. INVALID_ARGUMENT, or DATA_LOSS for a
/// truncated file, naming the file.
absl::StatusOr<SourceGraph> OpenGinex(ImportContext& context,
                                      const std::string& source);

/// Reason why `source` looks like a folder for DiskGNN; empty if it does not.
absl::StatusOr<std::string> RecognizeDiskGnn(io::FileSystem& files,
                                             const std::string& source);

/// Opens a folder for DiskGNN. INVALID_ARGUMENT, or DATA_LOSS for a truncated
/// file, naming the file.
absl::StatusOr<SourceGraph> OpenDiskGnn(ImportContext& context,
                                        const std::string& source);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_FORMATS_CSC_FORMATS_H_
