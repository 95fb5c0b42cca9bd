#ifndef HEARTH_ENGINE_STORE_SAFETENSORS_H_
#define HEARTH_ENGINE_STORE_SAFETENSORS_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/io/file_system.h"
#include "engine/store/array_type.h"

namespace hearth::store {

/// An array in memory with its type and shape: the form of model and optimizer
/// state outside of torch.
struct Tensor {
  DType dtype = DType::kFloat32;
  std::vector<int64_t> shape;
  /// Row-major, little-endian; size = product of shape times element size.
  std::vector<std::byte> data;
};

/// Named tensors, ordered by name.
using TensorMap = std::map<std::string, Tensor>;

/// The contents of a safetensors file.
struct SafeTensors {
  TensorMap tensors;
  /// The "__metadata__" entry: texts by key.
  std::map<std::string, std::string> metadata;
};

/// Writes a safetensors file atomically and durably (temporary file, sync,
/// rename, directory sync). The same contents give the same bytes.
absl::Status WriteSafeTensors(io::FileSystem& files, const std::string& path,
                              const SafeTensors& contents);

/// Reads a safetensors file. DATA_LOSS naming the file, and the tensor at
/// fault, if the header is malformed, the ranges overlap, leave gaps or pass
/// the end of the file, or a shape does not fit its range.
absl::StatusOr<SafeTensors> ReadSafeTensors(io::FileSystem& files,
                                            const std::string& path);

/// Receives the contents of a safetensors file, piece by piece.
class SafeTensorsVisitor {
 public:
  virtual ~SafeTensorsVisitor() = default;
  /// The next tensor, in the order of names; `tensor` has no data.
  virtual void OnTensor(const std::string& name, const Tensor& tensor) = 0;
  /// The next bytes of the data of the last OnTensor's tensor.
  virtual void OnData(absl::Span<const std::byte> piece) = 0;
};

/// Reads a file without holding its tensors: passes them to `visitor`, in
/// pieces of at most 1 MiB, and returns the "__metadata__" entry. Errors as of
/// ReadSafeTensors.
absl::StatusOr<std::map<std::string, std::string>> ScanSafeTensors(
    io::FileSystem& files, const std::string& path,
    SafeTensorsVisitor& visitor);

/// The "__metadata__" entry; reads no tensor. Errors as of ReadSafeTensors.
absl::StatusOr<std::map<std::string, std::string>> ReadSafeTensorsMetadata(
    io::FileSystem& files, const std::string& path);

}  // namespace hearth::store

#endif  // HEARTH_ENGINE_STORE_SAFETENSORS_H_
