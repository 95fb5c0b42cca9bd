#include "engine/store/feature_stripes.h"

#include <algorithm>
#include <bit>
#include <numeric>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/status.h"
#include "engine/io/aligned_memory.h"
#include "engine/io/block_device.h"
#include "engine/io/read_plan.h"
#include "engine/store/block_checksums.h"
#include "engine/store/feature_rows.h"

namespace hearth::store {
namespace {

// Bytes that are read and written at a time.
constexpr uint64_t kPieceBytes = 1 << 20;
constexpr uint32_t kBlockBytes = 64 << 10;
static_assert(kPieceBytes % kBlockBytes == 0);
static_assert(io::kStripeGapBytes % FeatureStripes::kStripeUnit == 0);

std::string PathOf(const std::string& folder, size_t table) {
  return io::JoinPath(folder, absl::StrCat("features-", table));
}

std::string ChecksumPath(const std::string& path) {
  return absl::StrCat(path, ".crc");
}

uint64_t ChecksumFileBytes(uint64_t bytes) {
  return NumBlocks(bytes, kBlockBytes) * sizeof(uint32_t) +
         BlockChecksums::kSealBytes;
}

// The least k for which 2^k rows are whole units and at least `least_bytes`.
int Log2StripeRows(uint64_t row_bytes, uint64_t least_bytes) {
  // A power of two, as the unit is one.
  const uint64_t whole = FeatureStripes::kStripeUnit /
                         std::gcd(row_bytes, FeatureStripes::kStripeUnit);
  const uint64_t rows = (least_bytes + row_bytes - 1) / row_bytes;
  return std::countr_zero(std::bit_ceil(std::max(whole, rows)));
}

absl::Status Stopped(const std::stop_token& stop, const std::string& path) {
  if (!stop.stop_requested()) return absl::OkStatus();
  return absl::CancelledError(absl::StrCat(path, ": stopped on request"));
}

absl::Status CheckSize(io::FileSystem& files, const std::string& path,
                       uint64_t bytes) {
  HEARTH_ASSIGN_OR_RETURN(const io::FileInfo info, files.Stat(path));
  if (info.size_bytes == bytes) return absl::OkStatus();
  return absl::DataLossError(absl::StrCat(path, ": has ", info.size_bytes,
                                          " bytes in place of ", bytes));
}

}  // namespace

uint64_t FeatureStripes::Table::num_stripes() const {
  const uint64_t bytes = static_cast<uint64_t>(num_rows) * row_bytes;
  return (bytes + stripe_bytes() - 1) / stripe_bytes();
}

uint64_t FeatureStripes::Table::EndOf(uint64_t stripe) const {
  return std::min(BeginOf(stripe + 1),
                  static_cast<uint64_t>(num_rows) * row_bytes);
}

FeatureStripes::FeatureStripes(const Manifest& manifest, int disks)
    : disks_(disks) {
  for (const NodeTypeEntry& type : manifest.node_types) {
    Table& table = tables_.emplace_back();
    table.features = type.features;
    table.num_rows = type.num_nodes;
    table.row_bytes = static_cast<uint64_t>(StoredFormat(type).row_bytes());
    const uint64_t fair = static_cast<uint64_t>(table.num_rows) *
                          table.row_bytes /
                          (kLeastStripes * static_cast<uint64_t>(disks_));
    table.log2_stripe_rows =
        Log2StripeRows(table.row_bytes, std::min(kLeastStripeBytes, fair));
  }
}

std::string FeatureStripes::Describe(int disk) const {
  std::string text = absl::StrCat("feature stripes ", kVersion, ";disk ", disk,
                                  " of ", disks_);
  for (const Table& table : tables_) {
    absl::StrAppend(&text, ";", table.num_rows, " rows of ", table.row_bytes,
                    " in stripes of ", table.stripe_bytes());
  }
  return text;
}

uint64_t FeatureStripes::BytesOf(const Table& table, int disk) const {
  const auto disks = static_cast<uint64_t>(disks_);
  const auto first = static_cast<uint64_t>(disk);
  const uint64_t all = table.num_stripes();
  if (first >= all) return 0;
  // All stripes are whole, except the last of all disks.
  const uint64_t own = (all - first + disks - 1) / disks;
  const uint64_t last = first + (own - 1) * disks;
  return (own - 1) * table.stripe_bytes() + table.EndOf(last) -
         table.BeginOf(last);
}

uint64_t FeatureStripes::StripeBytes(int disk) const {
  uint64_t bytes = 0;
  for (const Table& table : tables_) bytes += BytesOf(table, disk);
  return bytes;
}

uint64_t FeatureStripes::FileBytes(int disk) const {
  uint64_t bytes = 0;
  for (const Table& table : tables_) {
    bytes += BytesOf(table, disk) + ChecksumFileBytes(BytesOf(table, disk));
  }
  return bytes;
}

uint64_t FeatureStripes::FileId(const Table& table, int disk) const {
  return table.features.file_id + static_cast<uint64_t>(disk) + 1;
}

absl::StatusOr<FeatureStripes::Sources> FeatureStripes::OpenSources(
    const Dataset& dataset, const std::stop_token& stop) {
  Sources sources;
  for (size_t type = 0; type < dataset.manifest().node_types.size(); ++type) {
    HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<io::ReadableFile> source,
                            dataset.ScanFeatures(stop, type));
    sources.push_back(std::move(source));
  }
  return sources;
}

absl::Status FeatureStripes::Write(io::FileSystem& files,
                                   const Sources& sources, int disk,
                                   const std::string& folder,
                                   const Progress& progress,
                                   const std::stop_token& stop) const {
  for (size_t i = 0; i < tables_.size(); ++i) {
    HEARTH_RETURN_IF_ERROR(WriteTable(files, tables_[i], *sources[i], disk,
                                      PathOf(folder, i), progress, stop));
  }
  return absl::OkStatus();
}

absl::Status FeatureStripes::WriteTable(io::FileSystem& files,
                                        const Table& table,
                                        io::ReadableFile& source, int disk,
                                        const std::string& path,
                                        const Progress& progress,
                                        const std::stop_token& stop) const {
  HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<io::WritableFile> file,
                          files.CreateUncached(path));
  HEARTH_RETURN_IF_ERROR(file->Allocate(BytesOf(table, disk)));
  HEARTH_ASSIGN_OR_RETURN(
      const std::unique_ptr<BlockChecksumWriter> checksums,
      BlockChecksumWriter::Create(files, ChecksumPath(path),
                                  FileId(table, disk), kBlockBytes));
  HEARTH_ASSIGN_OR_RETURN(io::AlignedMemory memory,
                          io::AlignedMemory::Allocate(kPieceBytes));
  for (auto stripe = static_cast<uint64_t>(disk); stripe < table.num_stripes();
       stripe += static_cast<uint64_t>(disks_)) {
    for (uint64_t at = table.BeginOf(stripe); at < table.EndOf(stripe);
         at += kPieceBytes) {
      HEARTH_RETURN_IF_ERROR(Stopped(stop, path));
      const absl::Span<std::byte> piece =
          memory.bytes().first(std::min(kPieceBytes, table.EndOf(stripe) - at));
      HEARTH_RETURN_IF_ERROR(
          source.Read(table.features.data_offset + at, piece));
      HEARTH_RETURN_IF_ERROR(file->Append(piece));
      HEARTH_RETURN_IF_ERROR(checksums->Append(piece));
      progress(piece.size());
    }
  }
  HEARTH_RETURN_IF_ERROR(file->Sync());
  HEARTH_RETURN_IF_ERROR(file->Close());
  return checksums->Finish(table.features.crc_file_crc32c).status();
}

absl::Status FeatureStripes::CheckSizes(io::FileSystem& files, int disk,
                                        const std::string& folder) const {
  for (size_t i = 0; i < tables_.size(); ++i) {
    const std::string path = PathOf(folder, i);
    const uint64_t bytes = BytesOf(tables_[i], disk);
    HEARTH_RETURN_IF_ERROR(CheckSize(files, path, bytes));
    HEARTH_RETURN_IF_ERROR(
        CheckSize(files, ChecksumPath(path), ChecksumFileBytes(bytes)));
  }
  return absl::OkStatus();
}

absl::Status FeatureStripes::Verify(io::FileSystem& files, int disk,
                                    const std::string& folder,
                                    VerificationRecord& record,
                                    const Progress& progress,
                                    const std::stop_token& stop) const {
  for (size_t i = 0; i < tables_.size(); ++i) {
    const std::string path = PathOf(folder, i);
    HEARTH_ASSIGN_OR_RETURN(const io::FileInfo before, files.Stat(path));
    if (record.Holds(path, before)) continue;
    HEARTH_RETURN_IF_ERROR(
        VerifyTable(files, tables_[i], disk, path, progress, stop));
    record.Add(path, before);
  }
  return absl::OkStatus();
}

absl::Status FeatureStripes::VerifyTable(io::FileSystem& files,
                                         const Table& table, int disk,
                                         const std::string& path,
                                         const Progress& progress,
                                         const std::stop_token& stop) const {
  const uint64_t bytes = BytesOf(table, disk);
  HEARTH_ASSIGN_OR_RETURN(
      const BlockChecksums checksums,
      BlockChecksums::LoadSealed(files, ChecksumPath(path),
                                 NumBlocks(bytes, kBlockBytes),
                                 table.features.crc_file_crc32c, stop));
  HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<io::ReadableFile> file,
                          files.OpenForScan(path));
  HEARTH_ASSIGN_OR_RETURN(io::AlignedMemory memory,
                          io::AlignedMemory::Allocate(kPieceBytes));
  for (uint64_t at = 0; at < bytes; at += kPieceBytes) {
    HEARTH_RETURN_IF_ERROR(Stopped(stop, path));
    const absl::Span<std::byte> piece =
        memory.bytes().first(std::min(kPieceBytes, bytes - at));
    HEARTH_RETURN_IF_ERROR(file->Read(at, piece));
    for (uint64_t begin = 0; begin < piece.size(); begin += kBlockBytes) {
      const absl::Span<std::byte> block = piece.subspan(begin, kBlockBytes);
      const uint64_t number = (at + begin) / kBlockBytes;
      if (checksums.Matches(block, FileId(table, disk), number)) continue;
      // Reads once more: damage on the way is gone then, damage on the disk is
      // not.
      HEARTH_RETURN_IF_ERROR(file->Read(at + begin, block));
      if (checksums.Matches(block, FileId(table, disk), number)) continue;
      return absl::DataLossError(absl::StrCat(
          path, ": the block of ", block.size(), " bytes at byte ", at + begin,
          " is damaged (its checksum does not match)"));
    }
    progress(piece.size());
  }
  return absl::OkStatus();
}

absl::StatusOr<StripedFeatures> FeatureStripes::Open(
    io::FileSystem& files, absl::Span<const std::string> folders,
    const StoredFeatures& features) const {
  StripedFeatures striped;
  striped.features.layout = {.row_bytes = features.layout.row_bytes,
                             .num_rows = features.layout.num_rows};
  striped.features.dim = features.dim;
  striped.features.dtype = features.dtype;
  striped.largest_of_disk.resize(folders.size());
  std::vector<io::RowTable> rows;
  if (features.layout.tables != nullptr) {
    rows = *features.layout.tables;
  } else {
    rows = {{.num_rows = features.layout.num_rows,
             .row_bytes = features.layout.row_bytes}};
  }
  std::vector<std::unique_ptr<io::BlockDevice>> parts;
  for (size_t i = 0; i < tables_.size(); ++i) {
    rows[i].first_offset = io::JoinedPartOffset(i);
    rows[i].log2_stripe_rows = tables_[i].log2_stripe_rows;
    rows[i].stripe_gap_bytes = io::kStripeGapBytes;
    std::vector<std::unique_ptr<io::BlockDevice>> of_disks;
    for (size_t disk = 0; disk < folders.size(); ++disk) {
      HEARTH_ASSIGN_OR_RETURN(
          std::unique_ptr<io::BlockDevice> file,
          files.OpenBlockDevice(PathOf(folders[disk], i), {}));
      if (file->alignment() > kStripeUnit) {
        return absl::FailedPreconditionError(absl::StrCat(
            file->path(), ": its disk wants reads to be aligned to ",
            file->alignment(), " bytes; stripes are to ", kStripeUnit));
      }
      io::BlockDevice*& largest = striped.largest_of_disk[disk];
      if (largest == nullptr || file->size_bytes() > largest->size_bytes()) {
        largest = file.get();
      }
      of_disks.push_back(std::move(file));
    }
    parts.push_back(
        io::NewStripedDevice(std::move(of_disks), tables_[i].stripe_bytes()));
    if (i + 1 < tables_.size() &&
        parts.back()->size_bytes() > io::JoinedPartOffset(1)) {
      return absl::FailedPreconditionError(absl::StrCat(
          PathOf(folders[0], i), ": rows of ", parts.back()->size_bytes(),
          " bytes are more than one node type of several may have "
          "in stripes"));
    }
  }
  striped.features.device = io::NewJoinedDevice(std::move(parts));
  striped.features.layout.tables =
      std::make_shared<const std::vector<io::RowTable>>(std::move(rows));
  return striped;
}

}  // namespace hearth::store
