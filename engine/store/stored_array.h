#ifndef HEARTH_ENGINE_STORE_STORED_ARRAY_H_
#define HEARTH_ENGINE_STORE_STORED_ARRAY_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <stop_token>
#include <string>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/io/aligned_memory.h"
#include "engine/io/file_system.h"
#include "engine/store/block_checksums.h"
#include "engine/store/manifest.h"
#include "engine/store/topology.h"

/// Arrays of a dataset, in memory, mapped, or read from one end to the other. A
/// block that does not match its checksum is read once more, and is then
/// DATA_LOSS naming file and block.

namespace hearth::store {

/// Path of the array's file, given the dataset's folder.
std::string ArrayPath(const std::string& folder, const ArrayFile& array);

/// FAILED_PRECONDITION, with what can be done, if the array's file is a shard.
/// Functions that need all of an array return it.
absl::Status CheckIsWhole(const std::string& folder, const ArrayFile& array);

/// An array's file and the checksums of its blocks.
struct CheckedFile {
  std::unique_ptr<io::ReadableFile> file;
  BlockChecksums checksums;
};

/// Adds the array's checksums to its file, which may be opened in any way.
/// CANCELLED after a stop.
absl::StatusOr<CheckedFile> WithChecksums(
    io::FileSystem& files, const std::string& folder, const ArrayFile& array,
    std::unique_ptr<io::ReadableFile> file, const std::stop_token& stop);

/// Reads block `number` of the array's data, which begins at `offset` of the
/// file, once more, because its bytes did not match their checksum: damage on
/// the way is gone then, damage on disk is not. DATA_LOSS naming file and block
/// if the bytes still do not match `crc32c`; errors of reading name the block,
/// too.
absl::Status ReadBlockAgain(io::ReadableFile& data, const ArrayFile& array,
                            uint64_t number, uint64_t offset, uint32_t crc32c,
                            absl::Span<std::byte> block);

/// Checks one block, the data's bytes from `begin` on, which were read into
/// `block`; if it does not match, reads it into `block` once more.
absl::Status CheckBlock(const CheckedFile& from, const ArrayFile& array,
                        uint64_t begin, absl::Span<std::byte> block);

/// Reads the data's bytes from `begin` on into `out` and checks them. REQUIRES:
/// the range consists of whole blocks.
absl::Status ReadChecked(const CheckedFile& from, const ArrayFile& array,
                         uint64_t begin, absl::Span<std::byte> out);

/// Reads the array of the dataset in `folder` past the page cache, and passes
/// its data to `use`, part by part. Stops at the first error of `use`;
/// CANCELLED after a stop.
absl::Status ScanArray(
    io::FileSystem& files, const std::string& folder, const ArrayFile& array,
    const std::stop_token& stop,
    absl::FunctionRef<absl::Status(absl::Span<const std::byte>)> use);

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

  /// The elements. REQUIRES: sizeof(T) is the size of an element.
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

/// Loads an array of the dataset in `folder`. In memory, every block is checked
/// as it arrives; CANCELLED after a stop. Mapped, only the size is checked.
absl::StatusOr<LoadedArray> LoadArray(io::FileSystem& files,
                                      const std::string& folder,
                                      const ArrayFile& array,
                                      Residency residency,
                                      const std::stop_token& stop);

/// FAILED_PRECONDITION, naming the file, if `size_bytes` is not the size at
/// import.
absl::Status CheckArraySize(const std::string& path, uint64_t size_bytes,
                            uint64_t imported_bytes);

/// OK if the array's file and its checksum file have their sizes of the import
/// and, for a file in place, its modification time and header.
/// FAILED_PRECONDITION naming the file otherwise.
absl::Status CheckArrayUnchanged(io::FileSystem& files,
                                 const std::string& folder,
                                 const ArrayFile& array);

/// The data of an array, from one end to the other, as a caller asks for it.
/// Reads past the page cache in whole pages, wherever in the file the data
/// begins, and checks each block. Single-owner.
class ArrayStream {
 public:
  /// Default memory of a stream's buffer; checksums take 4 bytes a block more.
  static constexpr uint64_t kBufferBytes = (8 << 20) + (256 << 10);

  /// The array of the dataset in `folder`, read into a buffer of
  /// `buffer_bytes`. `files` outlives the stream. FAILED_PRECONDITION for
  /// blocks of more than an eighth of the buffer; CANCELLED after a stop.
  static absl::StatusOr<std::unique_ptr<ArrayStream>> Open(
      io::FileSystem& files, const std::string& folder, const ArrayFile& array,
      const std::stop_token& stop = {}, uint64_t buffer_bytes = kBufferBytes);

  /// The next bytes of the data: `most`, or fewer if fewer are in the buffer;
  /// empty at the end. Valid until the next call. If `most` is a multiple of an
  /// element's size, so is the number of bytes.
  absl::StatusOr<absl::Span<const std::byte>> Next(uint64_t most);

  /// Bytes of the data that were returned so far.
  uint64_t position() const { return given_ - array_.data_offset; }

  const std::string& path() const { return from_.file->path(); }

 private:
  ArrayStream(CheckedFile from, const ArrayFile& array,
              io::AlignedMemory memory)
      : from_(std::move(from)),
        array_(array),
        memory_(std::move(memory)),
        checked_(array.data_offset),
        given_(array.data_offset) {}

  absl::Status Refill();

  const CheckedFile from_;
  const ArrayFile array_;
  io::AlignedMemory memory_;
  // Offsets in the file: of the first byte of memory_, a multiple of a page; of
  // the next read; of the end of the checked blocks; of the end of the bytes
  // returned so far.
  uint64_t base_ = 0;
  uint64_t read_ = 0;
  uint64_t checked_;
  uint64_t given_;
};

/// The file of an array of the dataset in `folder`. Every read checks the
/// blocks that it touches; of a block that is asked for in part, all is read. A
/// shard is read at the places of the whole array; other parts than its
/// KeptBytes are FAILED_PRECONDITION.
/// Opening it reads and checks all checksums and the header; checksums are not
/// kept in memory.
absl::StatusOr<std::unique_ptr<io::ReadableFile>> OpenVerifiedFile(
    io::FileSystem& files, const std::string& folder, const ArrayFile& array);

/// OpenVerifiedFile for a file that is read once, from one end to the other
/// (io::FileSystem::OpenForScan). CANCELLED after a stop while it is opened.
absl::StatusOr<std::unique_ptr<io::ReadableFile>> OpenVerifiedFileForScan(
    io::FileSystem& files, const std::string& folder, const ArrayFile& array,
    const std::stop_token& stop);

}  // namespace hearth::store

#endif  // HEARTH_ENGINE_STORE_STORED_ARRAY_H_
