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

/// Reads arrays against their block checksums, from one end to the other. What
/// does not match is read once more, and is then DATA_LOSS naming file and
/// block.

namespace hearth::store {

/// Where the array's file is, given the dataset's folder.
std::string ArrayPath(const std::string& folder, const ArrayFile& array);

/// An array's file and the checksums of its blocks.
struct CheckedFile {
  std::unique_ptr<io::ReadableFile> file;
  BlockChecksums checksums;
};

/// Takes the array's file, opened in any way, and loads its checksums.
/// CANCELLED after a stop.
absl::StatusOr<CheckedFile> WithChecksums(
    io::FileSystem& files, const std::string& folder, const ArrayFile& array,
    std::unique_ptr<io::ReadableFile> file, const std::stop_token& stop);

/// Reads block `number` of the array's data once more, because its bytes did
/// not match their checksum: damage on the way is gone then, damage on disk is
/// not. DATA_LOSS naming file and block if they are not of checksum `crc32c`
/// now; an error of reading names the block, too.
absl::Status ReadBlockAgain(io::ReadableFile& data, const ArrayFile& array,
                            uint64_t number, uint32_t crc32c,
                            absl::Span<std::byte> block);

/// Checks one block, the data's bytes from `begin` on, which were read into
/// `block`; if it does not match, it is read there once more.
absl::Status CheckBlock(const CheckedFile& from, const ArrayFile& array,
                        uint64_t begin, absl::Span<std::byte> block);

/// Reads the data's bytes from `begin`, at which a block begins, into `out`,
/// which ends where a block does.
absl::Status ReadChecked(const CheckedFile& from, const ArrayFile& array,
                         uint64_t begin, absl::Span<std::byte> out);

/// Reads the array of the dataset in `folder` past the page cache, and hands
/// its data to `use`, part by part. The first error of it; CANCELLED after a
/// stop.
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

/// The data of an array, from one end to the other, as a caller asks for it.
/// Read past the page cache in whole pages, wherever in the file the data
/// begins, and each block against its checksum: what does not match is read
/// once more, and is then DATA_LOSS naming file and block. Single-owner.
class ArrayStream {
 public:
  /// Memory that a stream holds, unless told, beside 4 bytes a block.
  static constexpr uint64_t kBufferBytes = (8 << 20) + (256 << 10);

  /// The array of the dataset in `folder`, read into a buffer of
  /// `buffer_bytes`. `files` outlives the stream. FAILED_PRECONDITION for
  /// blocks of more than an eighth of the buffer; CANCELLED after a stop.
  static absl::StatusOr<std::unique_ptr<ArrayStream>> Open(
      io::FileSystem& files, const std::string& folder, const ArrayFile& array,
      const std::stop_token& stop = {}, uint64_t buffer_bytes = kBufferBytes);

  /// The next bytes of the data: `most`, or as many as there are at hand; none
  /// at the end. They stay until the next call. If `most` is a multiple of an
  /// element's size, so are the bytes.
  absl::StatusOr<absl::Span<const std::byte>> Next(uint64_t most);

  /// Bytes of the data that were given out.
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
  // Places in the file: what memory_ begins with, a multiple of a page; where
  // the next read begins; the end of the blocks that were checked; the end of
  // what was given out.
  uint64_t base_ = 0;
  uint64_t read_ = 0;
  uint64_t checked_;
  uint64_t given_;
};

/// The file of an array of the dataset in `folder`, every block of which is
/// compared with its checksum whenever it is read: whole blocks in place, a
/// part of one with all of it. What does not match is read once more, and is
/// then DATA_LOSS naming file and block. Opening it reads all checksums and the
/// header, and finds damage there in the same way; checksums are not kept in
/// memory.
absl::StatusOr<std::unique_ptr<io::ReadableFile>> OpenVerifiedFile(
    io::FileSystem& files, const std::string& folder, const ArrayFile& array);

/// The same for a file that is read once, from one end to the other; see
/// io::FileSystem::OpenForScan. CANCELLED after a stop while it is opened.
absl::StatusOr<std::unique_ptr<io::ReadableFile>> OpenVerifiedFileForScan(
    io::FileSystem& files, const std::string& folder, const ArrayFile& array,
    const std::stop_token& stop);

}  // namespace hearth::store

#endif  // HEARTH_ENGINE_STORE_STORED_ARRAY_H_
