#include "engine/ingest/inspect/verify.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "engine/base/clock.h"
#include "engine/base/crc32c.h"
#include "engine/base/status.h"
#include "engine/ingest/inspect/statistics.h"
#include "engine/io/aligned_memory.h"
#include "engine/io/whole_file.h"
#include "engine/pipeline/pipeline.h"
#include "engine/store/block_checksums.h"
#include "engine/store/manifest.h"
#include "engine/store/stored_array.h"

namespace hearth::ingest {

namespace {

/// Damage that a verification found: the first findings in words, and the
/// number of others. Thread-compatible.
class DamageList {
 public:
  static constexpr size_t kMaxListed = 20;

  /// Adds "`what`": a file, a part of it, and the problem.
  void Add(std::string what) {
    ++count_;
    if (listed_.size() < kMaxListed) listed_.push_back(std::move(what));
  }

  /// Adds the status's message if the status means damage: a file that is
  /// missing, too short, unreadable or different. Returns other errors.
  absl::Status AddIfDamage(const absl::Status& status);

  /// Adds the findings of `other` after these.
  void Append(DamageList other);

  bool empty() const { return count_ == 0; }

  /// DATA_LOSS that names `path` and all findings; OK if there are none.
  absl::Status ToStatus(const std::string& path) const;

 private:
  uint64_t count_ = 0;
  std::vector<std::string> listed_;
};

absl::Status DamageList::AddIfDamage(const absl::Status& status) {
  const bool is_damage = absl::IsDataLoss(status) || absl::IsNotFound(status) ||
                         absl::IsUnavailable(status);
  if (!is_damage) return status;
  Add(std::string(status.message()));
  return absl::OkStatus();
}

void DamageList::Append(DamageList other) {
  for (std::string& what : other.listed_) {
    if (listed_.size() < kMaxListed) listed_.push_back(std::move(what));
  }
  count_ += other.count_;
}

absl::Status DamageList::ToStatus(const std::string& path) const {
  if (empty()) return absl::OkStatus();
  const uint64_t unlisted = count_ - listed_.size();
  return absl::DataLossError(absl::StrCat(
      path, ": ", count_, count_ == 1 ? " part is" : " parts are",
      " damaged: ", absl::StrJoin(listed_, "; "),
      unlisted > 0 ? absl::StrCat("; and ", unlisted, " more") : ""));
}

// Two threads read an array in chunks of whole blocks, so that the disk has the
// next request while a chunk is checked. A chunk is read with its surroundings
// up to multiples of a page, which lets reads bypass the page cache. An array
// of one chunk is read on the caller's thread: a dataset of many types has
// hundreds of them.

constexpr uint64_t kChunkBytes = 4 << 20;
constexpr uint64_t kPageBytes = 4096;
constexpr int kThreads = 2;

// Of the whole array, and of what its file has.
uint64_t DataBytes(const store::ArrayFile& array) {
  return array.file_size_bytes - array.data_offset;
}
uint64_t KeptBytes(const store::ArrayFile& array) {
  return array.StoredBytes() - array.data_offset;
}

uint64_t ChecksumBytes(const store::ArrayFile& array) {
  return store::NumBlocks(DataBytes(array), array.crc_block_bytes) *
         sizeof(uint32_t);
}

absl::Span<std::byte> AsBytes(std::vector<uint32_t>& values) {
  return {reinterpret_cast<std::byte*>(values.data()),
          values.size() * sizeof(uint32_t)};
}

absl::Status CheckSize(io::ReadableFile& file, uint64_t size_bytes) {
  HEARTH_ASSIGN_OR_RETURN(const io::FileInfo info, file.Info());
  if (info.size_bytes == size_bytes) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(file.path(), ": has ",
                                          info.size_bytes, " bytes instead of ",
                                          size_bytes));
}

/// CRC32C of a file's first bytes, which are read into `scratch` piece by
/// piece.
absl::StatusOr<uint32_t> ChecksumOf(io::ReadableFile& file, uint64_t size_bytes,
                                    absl::Span<std::byte> scratch) {
  const uint64_t chunk_bytes = scratch.size() - scratch.size() % kPageBytes;
  uint32_t crc = 0;
  for (uint64_t at = 0; at < size_bytes; at += chunk_bytes) {
    const auto chunk = scratch.first(std::min(chunk_bytes, size_bytes - at));
    HEARTH_RETURN_IF_ERROR(file.Read(at, chunk));
    crc = Crc32c(chunk, crc);
  }
  return crc;
}

/// The first bytes of a file: their role and their checksum.
struct Beginning {
  uint64_t size_bytes = 0;
  uint32_t crc32c = 0;
  absl::string_view what;
};

/// DATA_LOSS, or the error of reading, if the bytes do not have that checksum
/// at the second attempt either.
absl::Status CheckBeginning(io::ReadableFile& file, const Beginning& beginning,
                            absl::Span<std::byte> scratch) {
  absl::StatusOr<uint32_t> crc =
      ChecksumOf(file, beginning.size_bytes, scratch);
  if (!crc.ok() || *crc != beginning.crc32c) {
    crc = ChecksumOf(file, beginning.size_bytes, scratch);
  }
  HEARTH_RETURN_IF_ERROR(crc.status());
  if (*crc == beginning.crc32c) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat(file.path(), ": ", beginning.what, " (bytes 0 .. ",
                   beginning.size_bytes - 1, ") does not match its checksum"));
}

/// Consecutive blocks of an array, and their damage.
class Chunk final : public pipeline::Item {
 public:
  Chunk(uint64_t first, uint64_t count) : first_block(first), blocks(count) {}

  const uint64_t first_block;
  const uint64_t blocks;
  DamageList damage;
};

/// The open files of an array. Blocks are numbered in the array; of a shard,
/// those are checked that its file has. Thread-safe.
class ArrayBlocks {
 public:
  ArrayBlocks(const store::ArrayFile& array,
              std::unique_ptr<io::ReadableFile> data,
              std::unique_ptr<io::ReadableFile> checksums)
      : array_(array),
        kept_(array.KeptBytes()),
        data_(std::move(data)),
        checksums_(std::move(checksums)) {}

  uint64_t chunk_blocks() const { return kChunkBytes / array_.crc_block_bytes; }
  uint64_t num_blocks() const {
    return store::NumBlocks(kept_.end - kept_.begin, array_.crc_block_bytes);
  }
  uint64_t num_chunks() const {
    return (num_blocks() + chunk_blocks() - 1) / chunk_blocks();
  }

  Chunk MakeChunk(uint64_t number) const {
    const uint64_t first = number * chunk_blocks();
    return Chunk(kept_.begin / array_.crc_block_bytes + first,
                 std::min(chunk_blocks(), num_blocks() - first));
  }

  /// Bytes of `count` blocks from `first_block` on.
  uint64_t SizeOfBlocks(uint64_t first_block, uint64_t count) const {
    return std::min(count * array_.crc_block_bytes,
                    kept_.end - first_block * array_.crc_block_bytes);
  }

  /// Bytes of the buffer for chunks of an array of `data_bytes`.
  static uint64_t ScratchBytes(uint64_t data_bytes) {
    return std::min(kChunkBytes, data_bytes) + 2 * kPageBytes;
  }

  /// Checks all blocks of a chunk.
  absl::Status Check(absl::Span<std::byte> scratch, Chunk& chunk) const {
    const uint64_t begin = OffsetOf(chunk.first_block);
    const uint64_t end = begin + SizeOfBlocks(chunk.first_block, chunk.blocks);
    const uint64_t page_begin = begin - begin % kPageBytes;
    const uint64_t page_end = std::min(
        (end + kPageBytes - 1) / kPageBytes * kPageBytes, array_.StoredBytes());
    std::vector<uint32_t> expected(chunk.blocks);
    absl::Status status =
        data_->Read(page_begin, scratch.first(page_end - page_begin));
    if (status.ok()) {
      status = checksums_->Read(chunk.first_block * sizeof(uint32_t),
                                AsBytes(expected));
    }
    for (uint64_t i = 0; i < chunk.blocks; ++i) {
      const uint64_t number = chunk.first_block + i;
      const auto bytes = scratch.subspan(OffsetOf(number) - page_begin,
                                         SizeOfBlocks(number, 1));
      if (status.ok() &&
          BlockCrc32c(bytes, array_.file_id, number) == expected[i]) {
        continue;
      }
      HEARTH_RETURN_IF_ERROR(chunk.damage.AddIfDamage(CheckAgain(number)));
    }
    return absl::OkStatus();
  }

 private:
  // Offset of a block in the file.
  uint64_t OffsetOf(uint64_t block) const {
    return array_.data_offset + block * array_.crc_block_bytes - kept_.begin;
  }

  /// Reads one block and its checksum by themselves: damage in transit is gone
  /// then, and the readable blocks around a bad sector are told apart.
  absl::Status CheckAgain(uint64_t number) const {
    std::vector<std::byte> block(SizeOfBlocks(number, 1));
    std::vector<uint32_t> expected(1);
    HEARTH_RETURN_IF_ERROR(
        checksums_->Read(number * sizeof(uint32_t), AsBytes(expected)));
    return store::ReadBlockAgain(*data_, array_, number, OffsetOf(number),
                                 expected[0], absl::MakeSpan(block));
  }

  const store::ArrayFile& array_;
  const store::ByteRange kept_;
  const std::unique_ptr<io::ReadableFile> data_;
  const std::unique_ptr<io::ReadableFile> checksums_;
};

class Verification {
 public:
  Verification(io::FileSystem& files, std::string folder,
               const VerifyProgress& progress, std::stop_token stop)
      : files_(files),
        folder_(std::move(folder)),
        progress_(progress),
        stop_(std::move(stop)) {}

  /// Checks arrays, and with `other_files` the files of the folder that are no
  /// arrays.
  absl::StatusOr<VerifyResult> Run(
      absl::Span<const store::ArrayFile* const> arrays,
      absl::FunctionRef<absl::Status()> other_files) {
    uint64_t scratch_bytes = 0;
    for (const store::ArrayFile* array : arrays) {
      total_ += array->StoredBytes() + ChecksumBytes(*array);
      scratch_bytes =
          std::max(scratch_bytes, ArrayBlocks::ScratchBytes(KeptBytes(*array)));
    }
    for (int i = 0; i < kThreads; ++i) {
      HEARTH_ASSIGN_OR_RETURN(scratch_.emplace_back(),
                              io::AlignedMemory::Allocate(scratch_bytes));
    }
    HEARTH_RETURN_IF_ERROR(other_files());
    for (const store::ArrayFile* array : arrays) {
      HEARTH_RETURN_IF_ERROR(damage_.AddIfDamage(CheckArray(*array)));
      ++result_.files;
    }
    HEARTH_RETURN_IF_ERROR(damage_.ToStatus(folder_));
    return result_;
  }

  /// Records damage that is there at the second attempt, too.
  absl::Status CheckTwice(absl::FunctionRef<absl::Status()> check) {
    absl::Status status = check();
    if (absl::IsDataLoss(status) || absl::IsUnavailable(status)) {
      status = check();
    }
    return damage_.AddIfDamage(status);
  }

 private:
  /// Returns damage after which nothing of the array can be checked.
  absl::Status CheckArray(const store::ArrayFile& array) {
    HEARTH_ASSIGN_OR_RETURN(
        std::unique_ptr<io::ReadableFile> checksums,
        files_.OpenForRead(io::JoinPath(folder_, array.crc_path)));
    HEARTH_RETURN_IF_ERROR(CheckSize(*checksums, ChecksumBytes(array)));
    HEARTH_RETURN_IF_ERROR(damage_.AddIfDamage(CheckBeginning(
        *checksums,
        {ChecksumBytes(array), array.crc_file_crc32c, "the whole file"},
        scratch_[0].bytes())));
    HEARTH_RETURN_IF_ERROR(Advance(ChecksumBytes(array)));
    HEARTH_ASSIGN_OR_RETURN(
        std::unique_ptr<io::ReadableFile> data,
        files_.OpenForScan(store::ArrayPath(folder_, array)));
    HEARTH_RETURN_IF_ERROR(CheckSize(*data, array.StoredBytes()));
    HEARTH_RETURN_IF_ERROR(damage_.AddIfDamage(CheckBeginning(
        *data, {array.data_offset, array.header_crc32c, "the header"},
        scratch_[0].bytes())));
    HEARTH_RETURN_IF_ERROR(Advance(array.data_offset));
    return CheckBlocks(
        ArrayBlocks(array, std::move(data), std::move(checksums)));
  }

  absl::Status CheckBlocks(const ArrayBlocks& blocks) {
    if (blocks.num_chunks() > 1) return CheckChunks(blocks);
    Chunk chunk = blocks.MakeChunk(0);
    HEARTH_RETURN_IF_ERROR(blocks.Check(scratch_[0].bytes(), chunk));
    return Collect(blocks, chunk);
  }

  absl::Status CheckChunks(const ArrayBlocks& blocks) {
    pipeline::Stage check;
    check.name = "verify";
    check.width = kThreads;
    check.work = [&](int thread, pipeline::Item& item) {
      return blocks.Check(scratch_[static_cast<size_t>(thread)].bytes(),
                          static_cast<Chunk&>(item));
    };
    const auto make = [&](int64_t number) {
      return std::make_unique<Chunk>(
          blocks.MakeChunk(static_cast<uint64_t>(number)));
    };
    const auto collect = [&](std::unique_ptr<pipeline::Item> item) {
      return Collect(blocks, static_cast<Chunk&>(*item));
    };
    return pipeline::NewPipeline({std::move(check)}, "collect", Clock::Real())
        ->Run(static_cast<int64_t>(blocks.num_chunks()), make, collect, stop_);
  }

  absl::Status Collect(const ArrayBlocks& blocks, Chunk& chunk) {
    damage_.Append(std::move(chunk.damage));
    result_.blocks += chunk.blocks;
    return Advance(blocks.SizeOfBlocks(chunk.first_block, chunk.blocks));
  }

  absl::Status Advance(uint64_t bytes) {
    if (stop_.stop_requested()) {
      return absl::CancelledError("the verification was cancelled");
    }
    result_.bytes += bytes;
    if (progress_) progress_(result_.bytes, total_);
    return absl::OkStatus();
  }

  io::FileSystem& files_;
  const std::string folder_;
  const VerifyProgress& progress_;
  const std::stop_token stop_;
  /// Buffer of each thread; a single thread uses the caller's.
  std::vector<io::AlignedMemory> scratch_;
  uint64_t total_ = 0;
  DamageList damage_;
  VerifyResult result_;
};

absl::Status CheckManifest(io::FileSystem& files, const std::string& folder) {
  const std::string path = io::JoinPath(folder, store::Manifest::kFileName);
  HEARTH_ASSIGN_OR_RETURN(
      const std::string text,
      io::ReadWholeFile(files, path, store::Manifest::kMaxFileBytes));
  return store::ParseManifest(text, path).status();
}

}  // namespace

absl::StatusOr<VerifyResult> VerifyDataset(io::FileSystem& files,
                                           const store::Dataset& dataset,
                                           const VerifyProgress& progress,
                                           std::stop_token stop) {
  const std::string& folder = dataset.path();
  Verification verification(files, folder, progress, std::move(stop));
  return verification.Run(dataset.manifest().Arrays(), [&]() -> absl::Status {
    HEARTH_RETURN_IF_ERROR(
        verification.CheckTwice([&] { return CheckManifest(files, folder); }));
    return verification.CheckTwice(
        [&] { return LoadStatistics(files, folder).status(); });
  });
}

absl::StatusOr<VerifyResult> VerifyArrays(
    io::FileSystem& files, const std::string& folder,
    absl::Span<const store::ArrayFile* const> arrays,
    const VerifyProgress& progress, std::stop_token stop) {
  return Verification(files, folder, progress, std::move(stop)).Run(arrays, [] {
    return absl::OkStatus();
  });
}

}  // namespace hearth::ingest
