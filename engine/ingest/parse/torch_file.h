#ifndef HEARTH_ENGINE_INGEST_PARSE_TORCH_FILE_H_
#define HEARTH_ENGINE_INGEST_PARSE_TORCH_FILE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "engine/ingest/parse/pickle_reader.h"
#include "engine/ingest/parse/pickle_value.h"
#include "engine/ingest/parse/zip_archive.h"
#include "engine/io/file_system.h"

namespace hearth::ingest {

/// Elements of a tensor, in C order.
struct TensorElements {
  /// `file` has the elements from byte `offset` on; it may outlive the
  /// TorchFile.
  std::unique_ptr<io::ReadableFile> file;
  uint64_t offset = 0;
  uint64_t size_bytes = 0;
  /// Offset of the elements in the PyTorch file itself, for reading or mapping
  /// them there; nullopt if they are compressed (torch.save does not compress).
  std::optional<uint64_t> offset_in_archive;
};

/// A file written by torch.save: the zip format of torch 1.6 and later, or the
/// pickles and raw storages before it. Read without torch, and without running
/// anything (see pickle_reader.h). Tensors' elements stay on disk. Thread-safe.
///
/// GraphBolt's fused_csc_sampling_graph.pt is, as PickleValues,
///   object "dgl.graphbolt.impl.fused_csc_sampling_graph.FusedCSCSamplingGraph"
///   state: dict
///     "_c_csc_graph": object "torch.ScriptObject"
///       state: tuple of (dict, string
///         "__torch__.torch.classes.graphbolt.FusedCSCSamplingGraph")
/// where the dict maps
///   "independent_tensors" to a dict of tensors:
///     "version_number": int64 (1,)
///     "indptr": (nodes + 1,), "indices": (edges,), int32 or int64 each
///     "node_type_offset": int64 (node types + 1,), of heterographs
///     "type_per_edge": uint8 or wider (edges,), of heterographs
///   "node_type_to_id", "edge_type_to_id", of heterographs: dicts of int64
///     tensors without dimensions, by "paper" and "author:writes:paper"
///   "node_attributes", "edge_attributes", if there are any: dicts of tensors
/// A part that is absent has no entry. Older builds of DGL call both classes
/// CSCSamplingGraph, in dgl.graphbolt.impl.csc_sampling_graph.
class TorchFile {
 public:
  /// INVALID_ARGUMENT if the file is no such file, is big-endian, or holds
  /// anything that is not understood; DATA_LOSS if it is truncated or damaged;
  /// RESOURCE_EXHAUSTED beyond `limits`. Messages begin with the path of the
  /// file.
  static absl::StatusOr<std::unique_ptr<TorchFile>> Open(
      std::unique_ptr<io::ReadableFile> file, const PickleLimits& limits = {});

  /// The saved value; lives as long as the TorchFile.
  const PickleValue& root() const { return *tree_.root; }

  /// Path of the file, for messages.
  const std::string& path() const { return file_->path(); }

  /// Opens the elements of `tensor`. INVALID_ARGUMENT, naming shape and
  /// strides, unless it is contiguous; DATA_LOSS if its storage is missing or
  /// has another size than the pickle says. REQUIRES: `tensor` is part of
  /// root().
  absl::StatusOr<TensorElements> OpenTensor(const TorchTensor& tensor) const;

 private:
  /// Place of a storage in a file of the old format.
  struct Place {
    uint64_t offset = 0;
    int64_t num_elements = 0;
  };

  explicit TorchFile(std::unique_ptr<io::ReadableFile> file)
      : file_(std::move(file)) {}

  absl::Status ReadZip(const PickleLimits& limits);
  absl::Status ReadOld(const PickleLimits& limits);
  absl::Status CheckByteOrder() const;
  absl::Status FindStorages(const PickleValue& keys, uint64_t offset);
  absl::StatusOr<TensorElements> OpenStorage(const TorchStorage& storage) const;
  absl::StatusOr<TensorElements> OpenOldStorage(
      const TorchStorage& storage) const;

  const std::shared_ptr<io::ReadableFile> file_;
  PickleTree tree_;
  /// The archive of the zip format, and the name of its folder with a slash.
  std::unique_ptr<ZipArchive> archive_;
  std::string prefix_;
  /// Places of the old format's storages, by key.
  std::map<std::string, Place> places_;
};

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_PARSE_TORCH_FILE_H_
