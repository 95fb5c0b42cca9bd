#ifndef HEARTH_ENGINE_STORE_ARRAY_LOADER_H_
#define HEARTH_ENGINE_STORE_ARRAY_LOADER_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/io/aligned_memory.h"
#include "engine/io/file_system.h"
#include "engine/store/manifest.h"
#include "engine/store/residency.h"

namespace hearth::store {

/// An array's elements, in memory or mapped. Thread-safe; movable.
class LoadedArray {
 public:
  explicit LoadedArray(io::AlignedMemory memory);
  /// The elements begin at `data_offset` of the mapping.
  LoadedArray(std::unique_ptr<io::MappedFile> mapped, uint64_t data_offset);

  absl::Span<const std::byte> bytes() const;

  /// io::MappedFile::status of a mapping; OK in memory.
  absl::Status status() const;

  /// io::MappedFile::Prefetch of a mapping; does nothing in memory.
  void Prefetch(const std::stop_token& stop) const;

  /// The elements as what they are. REQUIRES: sizeof(T) is their size.
  template <typename T>
  absl::Span<const T> As() const {
    return absl::MakeConstSpan(reinterpret_cast<const T*>(bytes().data()),
                               bytes().size() / sizeof(T));
  }

 private:
  io::AlignedMemory memory_;
  std::unique_ptr<io::MappedFile> mapped_;
  uint64_t data_offset_ = 0;
};

/// Loads an array of the dataset in `folder`. Into memory: every block is
/// checked as it arrives, read once more if its checksum does not match, and
/// then DATA_LOSS naming file and block; CANCELLED after a stop. Mapped:
/// nothing is read or checked but the size.
absl::StatusOr<LoadedArray> LoadArray(io::FileSystem& files,
                                      const std::string& folder,
                                      const ArrayFile& array,
                                      Residency residency,
                                      const std::stop_token& stop);

/// FAILED_PRECONDITION, naming the file, if it no longer has the size that it
/// had at import.
absl::Status CheckArraySize(const std::string& path, uint64_t size_bytes,
                            uint64_t imported_bytes);

/// OK if the array's file, and its checksum file, are those of the import, as
/// far as their sizes tell; where registered in place, by modification time and
/// header, too. FAILED_PRECONDITION naming the file otherwise.
absl::Status CheckArrayUnchanged(io::FileSystem& files,
                                 const std::string& folder,
                                 const ArrayFile& array);

}  // namespace hearth::store

#endif  // HEARTH_ENGINE_STORE_ARRAY_LOADER_H_
