#include "engine/strategy/diskgnn/packing/join_packs.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <memory>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "engine/base/crc32c.h"
#include "engine/base/status.h"
#include "engine/base/thread_team.h"
#include "engine/io/aligned_memory.h"
#include "engine/io/whole_file.h"
#include "engine/store/block_checksums.h"
#include "engine/strategy/diskgnn/packing/pack_files.h"
#include "engine/strategy/diskgnn/packing/plan_reader.h"
#include "engine/strategy/packing/file_range.h"

// 1. Reserve the plan's packs; copy the packs of all parts to their places.
// 2. Append the rows of the parts' disk caches, and those of their images, in
//    the order of the parts. Pages of the disk cache are not those of a part:
//    they get checksums of their own.
// 3. Sync all files, rename them, write the index.

namespace hearth::strategy {

namespace {

constexpr uint64_t kBufferBytes = 4 << 20;

/// Takes bytes that lie at `offset` of a part's file.
using Sink = absl::FunctionRef<absl::Status(uint64_t offset,
                                            absl::Span<const std::byte>)>;

absl::Status Damaged(const std::string& path) {
  return absl::DataLossError(
      absl::StrCat(path, ": is damaged (its checksum does not match)"));
}

/// Extends `crc`, of the bytes of `range` so far, by those of `block`, which
/// begins at `offset`.
void Extend(const FileRange& range, uint64_t offset,
            absl::Span<const std::byte> block, uint32_t& crc) {
  const uint64_t begin = std::max(range.offset, offset);
  const uint64_t end =
      std::min(range.offset + range.bytes, offset + block.size());
  if (begin < end) {
    crc = Crc32c(block.subspan(begin - offset, end - begin), crc);
  }
}

/// Reads the files of a part. Single-owner.
class PartReader {
 public:
  static absl::StatusOr<PartReader> Open(io::FileSystem& files,
                                         const PackedPart& part,
                                         const PackedLayout& whole,
                                         const std::stop_token& stop) {
    HEARTH_ASSIGN_OR_RETURN(PackedLayout layout,
                            ReadIndexAlone(files, part.folder, whole.plan_id));
    const PackedLayout planned =
        LayoutOfPart(part.part, whole, part.num_batches);
    bool same = layout.num_batches() == planned.num_batches() &&
                layout.row_bytes == planned.row_bytes;
    for (int64_t i = 0; same && i < layout.num_batches(); ++i) {
      const Chunk& a = layout.chunks[i];
      const Chunk& b = planned.chunks[i];
      same = a.offset == b.offset && a.sample_bytes == b.sample_bytes &&
             a.counts == b.counts;
    }
    layout.rows = planned.rows;
    if (!same) {
      return absl::DataLossError(
          absl::StrCat(part.folder, ": has another layout than its plan"));
    }
    HEARTH_ASSIGN_OR_RETURN(io::AlignedMemory memory,
                            io::AlignedMemory::Allocate(kBufferBytes));
    return PartReader(files, part, std::move(layout), std::move(memory), stop);
  }

  const PackedLayout& layout() const { return layout_; }

  absl::Status Packs(Sink sink) {
    HEARTH_RETURN_IF_ERROR(Begin(kPacksFile));
    for (int64_t batch = 0; batch < layout_.num_batches(); ++batch) {
      const Chunk& chunk = layout_.chunks[batch];
      const FileRange sample = layout_.SampleRange(batch);
      const FileRange table = layout_.TableRange(batch);
      const FileRange features = layout_.FeaturesRange(batch);
      uint32_t sample_crc = 0, table_crc = 0, features_crc = 0;
      HEARTH_RETURN_IF_ERROR(
          Read(sample.offset, features.end() - sample.offset,
               [&](uint64_t offset, absl::Span<const std::byte> block) {
                 Extend(sample, offset, block, sample_crc);
                 Extend(table, offset, block, table_crc);
                 Extend(features, offset, block, features_crc);
                 return sink(offset, block);
               }));
      if (sample_crc != chunk.sample_crc || table_crc != chunk.table_crc ||
          features_crc != chunk.features_crc) {
        return Damaged(file_->path());
      }
    }
    return absl::OkStatus();
  }

  absl::Status DiskCache(Sink sink) {
    const auto rows_bytes =
        static_cast<uint64_t>(part_.part.rows.disk * layout_.row_bytes);
    const uint64_t bytes = RoundUpToPage(rows_bytes);
    HEARTH_ASSIGN_OR_RETURN(
        const store::BlockChecksums checksums,
        store::BlockChecksums::Load(
            files_, io::JoinPath(part_.folder, kDiskChecksumsFile),
            bytes / kPageBytes, layout_.disk_checksums_crc, stop_));
    HEARTH_RETURN_IF_ERROR(Begin(kDiskCacheFile));
    return Read(0, bytes,
                [&](uint64_t offset, absl::Span<const std::byte> block) {
                  for (uint64_t at = 0; at < block.size(); at += kPageBytes) {
                    if (!checksums.Matches(block.subspan(at, kPageBytes),
                                           layout_.plan_id,
                                           (offset + at) / kPageBytes)) {
                      return Damaged(file_->path());
                    }
                  }
                  // The last page may be filled up with zeros.
                  return sink(offset, block.first(std::min<uint64_t>(
                                          block.size(), rows_bytes - offset)));
                });
  }

  absl::Status Image(const char* name, int64_t rows, uint32_t wanted,
                     Sink sink) {
    HEARTH_RETURN_IF_ERROR(Begin(name));
    uint32_t crc = 0;
    HEARTH_RETURN_IF_ERROR(
        Read(0, static_cast<uint64_t>(rows * layout_.row_bytes),
             [&](uint64_t offset, absl::Span<const std::byte> block) {
               crc = Crc32c(block, crc);
               return sink(offset, block);
             }));
    return crc == wanted ? absl::OkStatus() : Damaged(file_->path());
  }

  absl::Status GpuImage(Sink sink) {
    return Image(kGpuCacheFile, part_.part.rows.gpu, layout_.gpu_crc, sink);
  }
  absl::Status CpuImage(Sink sink) {
    return Image(kCpuCacheFile, part_.part.rows.cpu, layout_.cpu_crc, sink);
  }

 private:
  PartReader(io::FileSystem& files, const PackedPart& part, PackedLayout layout,
             io::AlignedMemory memory, const std::stop_token& stop)
      : files_(files),
        part_(part),
        layout_(std::move(layout)),
        memory_(std::move(memory)),
        stop_(stop) {}

  absl::Status Begin(const char* name) {
    absl::StatusOr<std::unique_ptr<io::ReadableFile>> file =
        files_.OpenForScan(io::JoinPath(part_.folder, name));
    if (absl::IsNotFound(file.status())) {
      return absl::DataLossError(file.status().message());
    }
    HEARTH_RETURN_IF_ERROR(file.status());
    file_ = *std::move(file);
    return absl::OkStatus();
  }

  absl::Status Read(uint64_t offset, uint64_t bytes, Sink sink) {
    while (bytes > 0) {
      if (stop_.stop_requested()) {
        return absl::CancelledError("reading pieces: stopped on request");
      }
      const absl::Span<std::byte> block =
          memory_.bytes().first(std::min(bytes, kBufferBytes));
      HEARTH_RETURN_IF_ERROR(file_->Read(offset, block));
      HEARTH_RETURN_IF_ERROR(sink(offset, block));
      offset += block.size();
      bytes -= block.size();
    }
    return absl::OkStatus();
  }

  io::FileSystem& files_;
  const PackedPart& part_;
  PackedLayout layout_;
  io::AlignedMemory memory_;
  const std::stop_token& stop_;
  std::unique_ptr<io::ReadableFile> file_;
};

class Joiner {
 public:
  Joiner(io::FileSystem& files, absl::Span<const PackedPart> parts,
         PackedLayout& layout, const JoinOptions& options)
      : files_(files), parts_(parts), layout_(layout), options_(options) {}

  absl::Status Join(PackFiles& plan) {
    HEARTH_ASSIGN_OR_RETURN(packs_,
                            files_.CreateUncached(plan.Temporary(kPacksFile)));
    HEARTH_RETURN_IF_ERROR(packs_->Allocate(layout_.packs_bytes()));
    HEARTH_ASSIGN_OR_RETURN(
        const std::unique_ptr<ThreadTeam> team,
        ThreadTeam::Create(std::clamp<int>(
            options_.threads, 1,
            static_cast<int>(std::max<int64_t>(1, std::ssize(parts_))))));
    HEARTH_RETURN_IF_ERROR(team->TryRun(
        std::ssize(parts_), [&](int64_t i) { return CopyPacks(parts_[i]); }));
    HEARTH_RETURN_IF_ERROR(packs_->Sync());
    HEARTH_RETURN_IF_ERROR(packs_->Close());
    HEARTH_RETURN_IF_ERROR(AppendRows(plan));
    return plan.Commit(layout_);
  }

 private:
  void Progress(uint64_t bytes) {
    absl::MutexLock lock(&mutex_);
    done_ += bytes;
    if (options_.progress) options_.progress(done_, layout_.total_bytes());
  }

  absl::Status CopyPacks(const PackedPart& part) {
    HEARTH_ASSIGN_OR_RETURN(
        PartReader reader,
        PartReader::Open(files_, part, layout_, options_.stop));
    if (part.num_batches == 0) return absl::OkStatus();
    const int64_t first = part.part.first_batch;
    const uint64_t begin = layout_.chunks[first].offset;
    HEARTH_RETURN_IF_ERROR(
        reader.Packs([&](uint64_t offset, absl::Span<const std::byte> block) {
          Progress(block.size());
          return packs_->Write(begin + offset, block);
        }));
    for (int64_t i = 0; i < part.num_batches; ++i) {
      const Chunk& from = reader.layout().chunks[i];
      Chunk& to = layout_.chunks[first + i];
      to.sample_crc = from.sample_crc;
      to.table_crc = from.table_crc;
      to.features_crc = from.features_crc;
    }
    return absl::OkStatus();
  }

  absl::Status AppendRows(const PackFiles& plan) {
    const auto stream = [&](const char* name, uint64_t bytes) {
      return io::StreamWriter::Create(files_, plan.Temporary(name), bytes);
    };
    HEARTH_ASSIGN_OR_RETURN(const auto disk,
                            stream(kDiskCacheFile, layout_.disk_cache_bytes()));
    HEARTH_ASSIGN_OR_RETURN(
        const auto checksums,
        store::BlockChecksumWriter::Create(
            files_, plan.Temporary(kDiskChecksumsFile), layout_.plan_id,
            static_cast<uint32_t>(kPageBytes)));
    HEARTH_ASSIGN_OR_RETURN(const auto gpu,
                            stream(kGpuCacheFile, layout_.gpu_cache_bytes()));
    HEARTH_ASSIGN_OR_RETURN(const auto cpu,
                            stream(kCpuCacheFile, layout_.cpu_cache_bytes()));
    uint64_t disk_bytes = 0;
    const auto append_disk = [&](absl::Span<const std::byte> rows) {
      disk_bytes += rows.size();
      const absl::Status status = checksums->Append(rows);
      return status.ok() ? disk->Append(rows) : status;
    };
    for (const PackedPart& part : parts_) {
      HEARTH_ASSIGN_OR_RETURN(
          PartReader reader,
          PartReader::Open(files_, part, layout_, options_.stop));
      const auto to = [&](io::StreamWriter& writer) {
        return [this, &writer](uint64_t /*offset*/,
                               absl::Span<const std::byte> rows) {
          Progress(rows.size());
          return writer.Append(rows);
        };
      };
      HEARTH_RETURN_IF_ERROR(reader.DiskCache(
          [&](uint64_t /*offset*/, absl::Span<const std::byte> rows) {
            Progress(rows.size());
            return append_disk(rows);
          }));
      HEARTH_RETURN_IF_ERROR(reader.GpuImage(to(*gpu)));
      HEARTH_RETURN_IF_ERROR(reader.CpuImage(to(*cpu)));
    }
    static constexpr std::array<std::byte, kPageBytes> kZeros = {};
    HEARTH_RETURN_IF_ERROR(append_disk(absl::MakeConstSpan(kZeros).first(
        layout_.disk_cache_bytes() - disk_bytes)));
    for (io::StreamWriter* const writer : {disk.get(), gpu.get(), cpu.get()}) {
      HEARTH_RETURN_IF_ERROR(writer->Finish());
    }
    HEARTH_ASSIGN_OR_RETURN(const auto summary, checksums->Finish());
    layout_.disk_checksums_crc = summary.file_crc32c;
    layout_.gpu_crc = gpu->crc();
    layout_.cpu_crc = cpu->crc();
    return absl::OkStatus();
  }

  io::FileSystem& files_;
  const absl::Span<const PackedPart> parts_;
  PackedLayout& layout_;
  const JoinOptions& options_;
  std::unique_ptr<io::WritableFile> packs_;
  absl::Mutex mutex_;
  uint64_t done_ = 0;
};

}  // namespace

absl::StatusOr<PackedLayout> JoinPacks(io::FileSystem& files,
                                       absl::Span<const PackedPart> parts,
                                       PackedLayout layout,
                                       const JoinOptions& options) {
  PackFiles plan(files, options.folder);
  HEARTH_RETURN_IF_ERROR(plan.Begin());
  HEARTH_RETURN_IF_ERROR(Joiner(files, parts, layout, options).Join(plan));
  return layout;
}

absl::Status CheckPart(io::FileSystem& files, const PackedPart& part,
                       const PackedLayout& layout,
                       const std::stop_token& stop) {
  const auto drop = [](uint64_t, absl::Span<const std::byte>) {
    return absl::OkStatus();
  };
  HEARTH_ASSIGN_OR_RETURN(PartReader reader,
                          PartReader::Open(files, part, layout, stop));
  HEARTH_RETURN_IF_ERROR(reader.Packs(drop));
  HEARTH_RETURN_IF_ERROR(reader.DiskCache(drop));
  HEARTH_RETURN_IF_ERROR(reader.GpuImage(drop));
  return reader.CpuImage(drop);
}

}  // namespace hearth::strategy
