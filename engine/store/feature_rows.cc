#include "engine/store/feature_rows.h"

#include <algorithm>
#include <cassert>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <utility>

#include "absl/base/const_init.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "engine/base/status.h"
#include "engine/io/whole_file.h"
#include "engine/store/array_type.h"
#include "engine/store/array_writer.h"
#include "engine/store/stored_array.h"

namespace hearth::store {

namespace {

template <float (*kWiden)(uint16_t)>
void Widen(const std::byte* stored, size_t columns, std::byte* row) {
  for (size_t i = 0; i < columns; ++i) {
    uint16_t bits;
    std::memcpy(&bits, stored + i * sizeof(bits), sizeof(bits));
    const float value = kWiden(bits);
    std::memcpy(row + i * sizeof(value), &value, sizeof(value));
  }
}

// Bytes of stored rows that are read at a time, to be converted.
constexpr uint64_t kChunkBytes = 1 << 20;

class JoinedRows final : public io::ReadableFile {
 public:
  JoinedRows(std::vector<RowsOfFile> parts, uint32_t row_bytes)
      : parts_(std::move(parts)),
        row_bytes_(row_bytes),
        path_(parts_.front().file->path()) {
    const io::RowTable& last = parts_.back().table;
    size_bytes_ =
        static_cast<uint64_t>(last.first_row + last.num_rows) * row_bytes_;
    if (parts_.size() > 1) {
      absl::StrAppend(&path_, " and ", parts_.size() - 1, " other files");
    }
  }

  absl::Status Read(uint64_t offset, absl::Span<std::byte> out) override {
    if (offset > size_bytes_ || out.size() > size_bytes_ - offset) {
      return absl::DataLossError(
          absl::StrCat(path_, ": ends at byte ", size_bytes_));
    }
    for (const RowsOfFile& part : parts_) {
      const uint64_t end =
          static_cast<uint64_t>(part.table.first_row + part.table.num_rows) *
          row_bytes_;
      if (offset >= end || out.empty()) continue;
      const absl::Span<std::byte> within =
          out.first(std::min<uint64_t>(out.size(), end - offset));
      HEARTH_RETURN_IF_ERROR(ReadPart(part, offset, within));
      offset += within.size();
      out.remove_prefix(within.size());
    }
    return absl::OkStatus();
  }

  absl::StatusOr<io::FileInfo> Info() override {
    HEARTH_ASSIGN_OR_RETURN(io::FileInfo info, parts_.front().file->Info());
    info.size_bytes = size_bytes_;
    return info;
  }

  const std::string& path() const override { return path_; }

 private:
  // Fills `out` from `offset`; the range lies in the rows of one part.
  absl::Status ReadPart(const RowsOfFile& part, uint64_t offset,
                        absl::Span<std::byte> out) const {
    const io::RowTable& table = part.table;
    if (!table.convert) {
      const uint64_t begin =
          static_cast<uint64_t>(table.first_row) * row_bytes_;
      return part.file->Read(table.first_offset + (offset - begin), out);
    }
    const uint64_t at_once =
        std::max<uint64_t>(1, kChunkBytes / table.row_bytes);
    std::vector<std::byte> stored;
    std::vector<std::byte> row(row_bytes_);
    while (!out.empty()) {
      const uint64_t first = offset / row_bytes_;
      const uint64_t end = (offset + out.size() + row_bytes_ - 1) / row_bytes_;
      const uint64_t count = std::min(at_once, end - first);
      stored.resize(count * table.row_bytes);
      HEARTH_RETURN_IF_ERROR(
          part.file->Read(table.RowOffset(static_cast<int64_t>(first)),
                          absl::MakeSpan(stored)));
      for (uint64_t i = 0; i < count; ++i) {
        table.convert(stored.data() + i * table.row_bytes, row.data());
        // The first row and the last may be asked for in part.
        const uint64_t skipped = offset - (first + i) * row_bytes_;
        const uint64_t taken =
            std::min<uint64_t>(out.size(), row_bytes_ - skipped);
        std::memcpy(out.data(), row.data() + skipped, taken);
        offset += taken;
        out.remove_prefix(taken);
      }
    }
    return absl::OkStatus();
  }

  const std::vector<RowsOfFile> parts_;
  const uint64_t row_bytes_;
  std::string path_;
  uint64_t size_bytes_ = 0;
};

uint32_t RowBytesOf(const ArrayFile& features) {
  return static_cast<uint32_t>(RowBytes(features.shape[1], features.dtype));
}

// Two jobs must not write the same temporary file.
ABSL_CONST_INIT absl::Mutex making(absl::kConstInit);

absl::Status WriteChecksums(io::FileSystem& files, const std::string& folder,
                            const ArrayFile& features, const std::string& path,
                            const std::stop_token& stop) {
  HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<BlockChecksumWriter> writer,
                          NewRowChecksumWriter(files, path, features));
  HEARTH_RETURN_IF_ERROR(ScanArray(
      files, folder, features, stop,
      [&](absl::Span<const std::byte> part) { return writer->Append(part); }));
  return writer->Finish(features.crc_file_crc32c).status();
}

// Makes the file `path`, whole or not at all.
absl::Status MakeFile(io::FileSystem& files, const std::string& folder,
                      const ArrayFile& features, const std::string& path,
                      const std::stop_token& stop) {
  const std::string temporary = absl::StrCat(path, io::kTemporarySuffix);
  absl::Status status =
      WriteChecksums(files, folder, features, temporary, stop);
  if (status.ok()) status = files.Rename(temporary, path);
  if (!status.ok()) {
    // The first error is returned, not that of removing.
    files.RemoveTree(temporary).IgnoreError();
    return status;
  }
  return files.SyncDirectory(folder);
}

}  // namespace

RowFormat StoredFormat(const NodeTypeEntry& type) {
  return {.dim = type.features.shape[1], .dtype = type.features.dtype};
}

RowFormat CommonFormat(const Manifest& manifest) {
  RowFormat common;
  for (const NodeTypeEntry& type : manifest.node_types) {
    if (type.features.path.empty()) continue;
    const RowFormat stored = StoredFormat(type);
    const bool same = common.dim == 0 || common.dtype == stored.dtype;
    common = {.dim = std::max(common.dim, stored.dim),
              .dtype = same ? stored.dtype : DType::kFloat32};
  }
  return common;
}

std::function<void(const std::byte*, std::byte*)> RowConversion(
    const RowFormat& from, const RowFormat& to) {
  if (from == to) return nullptr;
  assert(from.dim <= to.dim);
  const auto columns = static_cast<size_t>(from.dim);
  const auto written = static_cast<size_t>(from.dim * SizeOf(to.dtype));
  const auto zeros =
      static_cast<size_t>((to.dim - from.dim) * SizeOf(to.dtype));
  // The scale, which stays behind all elements.
  const size_t behind = static_cast<size_t>(to.row_bytes()) - written - zeros;
  return [=](const std::byte* stored, std::byte* row) {
    if (from.dtype == to.dtype) {
      std::memcpy(row, stored, written);
    } else if (from.dtype == DType::kFloat16) {
      Widen<Float16ToFloat>(stored, columns, row);
    } else {
      Widen<BFloat16ToFloat>(stored, columns, row);
    }
    std::memset(row + written, 0, zeros);
    std::memcpy(row + written + zeros, stored + written, behind);
  };
}

std::unique_ptr<io::ReadableFile> NewJoinedRows(std::vector<RowsOfFile> parts,
                                                uint32_t row_bytes) {
  return std::make_unique<JoinedRows>(std::move(parts), row_bytes);
}

std::string RowChecksumPath(const ArrayFile& features) {
  return absl::StrCat(absl::StripSuffix(features.crc_path, kChecksumSuffix),
                      ".rows", kChecksumSuffix);
}

uint64_t RowChecksumBytes(int64_t num_rows) {
  return static_cast<uint64_t>(num_rows) * sizeof(uint32_t) +
         BlockChecksums::kSealBytes;
}

absl::StatusOr<std::unique_ptr<BlockChecksumWriter>> NewRowChecksumWriter(
    io::FileSystem& files, const std::string& path, const ArrayFile& features) {
  return BlockChecksumWriter::Create(files, path, features.file_id,
                                     RowBytesOf(features));
}

RowChecksums::RowChecksums(const ArrayFile& features, BlockChecksums checksums)
    : file_id_(features.file_id),
      row_bytes_(RowBytesOf(features)),
      checksums_(std::move(checksums)) {}

absl::StatusOr<std::unique_ptr<RowChecksums>> RowChecksums::Load(
    io::FileSystem& files, const std::string& folder, const ArrayFile& features,
    const std::stop_token& stop) {
  const std::string path = io::JoinPath(folder, RowChecksumPath(features));
  const auto load = [&] {
    return BlockChecksums::LoadSealed(files, path,
                                      static_cast<uint64_t>(features.shape[0]),
                                      features.crc_file_crc32c, stop);
  };
  absl::StatusOr<BlockChecksums> checksums = load();
  if (absl::IsNotFound(checksums.status()) ||
      absl::IsDataLoss(checksums.status())) {
    absl::MutexLock lock(&making);
    HEARTH_RETURN_IF_ERROR(MakeFile(files, folder, features, path, stop));
    checksums = load();
  }
  HEARTH_RETURN_IF_ERROR(checksums.status());
  return std::unique_ptr<RowChecksums>(
      new RowChecksums(features, *std::move(checksums)));
}

bool RowChecksums::Matches(int64_t row, const std::byte* bytes) const {
  return checksums_.Matches({bytes, row_bytes_}, file_id_,
                            static_cast<uint64_t>(row));
}

}  // namespace hearth::store
