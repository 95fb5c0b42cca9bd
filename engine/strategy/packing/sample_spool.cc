#include "engine/strategy/packing/sample_spool.h"

#include <cstring>
#include <type_traits>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/crc32c.h"
#include "engine/base/status.h"
#include "engine/io/whole_file.h"
#include "engine/strategy/packing/batch_code.h"

namespace hearth::strategy {

namespace {

using store::NodeId;

constexpr char kMagic[8] = {'H', 'e', 'a', 'r', 't', 'h', 'L', '1'};
// A larger index is taken as damaged.
constexpr uint64_t kMaxIndexBytes = uint64_t{128} << 30;

struct IndexHeader {
  char magic[8];
  uint64_t num_records;
  uint64_t file_bytes;
  // The CRC32C of the fields above and of the records.
  uint32_t crc;
  uint32_t zero;
};
static_assert(std::is_trivially_copyable_v<IndexHeader>);

uint32_t IndexCrc(const IndexHeader& header,
                  absl::Span<const std::byte> records) {
  return Crc32c(records, Crc32c({reinterpret_cast<const std::byte*>(&header),
                                 offsetof(IndexHeader, crc)}));
}

std::string IndexPath(const std::string& path) {
  return absl::StrCat(path, ".index");
}

template <typename T>
absl::Span<const std::byte> BytesOf(const std::vector<T>& values) {
  return {reinterpret_cast<const std::byte*>(values.data()),
          values.size() * sizeof(T)};
}

}  // namespace

SampleSpoolWriter::SampleSpoolWriter(io::FileSystem& files, std::string path,
                                     std::unique_ptr<io::WritableFile> file)
    : files_(files), path_(std::move(path)), file_(std::move(file)) {}

absl::StatusOr<std::unique_ptr<SampleSpoolWriter>> SampleSpoolWriter::Create(
    io::FileSystem& files, std::string path) {
  // An index must never stand beside samples of another spool.
  HEARTH_RETURN_IF_ERROR(files.RemoveTree(IndexPath(path)));
  HEARTH_RETURN_IF_ERROR(files.SyncDirectory(io::ParentDirectory(path)));
  HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<io::WritableFile> file,
                          files.Create(path));
  return std::unique_ptr<SampleSpoolWriter>(
      new SampleSpoolWriter(files, std::move(path), std::move(file)));
}

SampleSpoolWriter::~SampleSpoolWriter() {
  // The error that led here was reported.
  if (!finished_) SampleSpool::Remove(files_, path_).IgnoreError();
}

absl::Status SampleSpoolWriter::Append(const sample::MiniBatch& batch) {
  const std::vector<std::byte> bytes = EncodeBatch(batch);
  HEARTH_RETURN_IF_ERROR(file_->Append(bytes));
  records_.push_back({.epoch_key = batch.key.epoch_key,
                      .batch = batch.key.batch,
                      .offset = end_,
                      .total_bytes = bytes.size(),
                      .nodes_bytes = EncodedNodesBytes(batch)});
  end_ += bytes.size();
  return absl::OkStatus();
}

absl::Status SampleSpoolWriter::Finish() {
  HEARTH_RETURN_IF_ERROR(file_->Sync());
  HEARTH_RETURN_IF_ERROR(file_->Close());
  IndexHeader header = {};
  std::memcpy(header.magic, kMagic, sizeof(kMagic));
  header.num_records = records_.size();
  header.file_bytes = end_;
  header.crc = IndexCrc(header, BytesOf(records_));
  HEARTH_RETURN_IF_ERROR(io::WritePiecesAtomically(
      files_, IndexPath(path_),
      {absl::MakeConstSpan(reinterpret_cast<const std::byte*>(&header),
                           sizeof(header)),
       BytesOf(records_)}));
  finished_ = true;
  return absl::OkStatus();
}

SampleSpool::SampleSpool(std::unique_ptr<io::ReadableFile> file,
                         std::vector<Record> records)
    : file_(std::move(file)), records_(std::move(records)) {
  sizes_.reserve(records_.size());
  for (const Record& record : records_) sizes_.push_back(record.total_bytes);
}

absl::StatusOr<std::unique_ptr<SampleSpool>> SampleSpool::Open(
    io::FileSystem& files, const std::string& path) {
  HEARTH_ASSIGN_OR_RETURN(
      const std::string index,
      io::ReadWholeFile(files, IndexPath(path), kMaxIndexBytes));
  IndexHeader header = {};
  if (index.size() >= sizeof(header)) {
    std::memcpy(&header, index.data(), sizeof(header));
  }
  const uint64_t records_bytes = index.size() - sizeof(header);
  const auto records_at = reinterpret_cast<const std::byte*>(index.data()) +
                          (index.size() >= sizeof(header) ? sizeof(header) : 0);
  if (index.size() < sizeof(header) ||
      std::memcmp(header.magic, kMagic, sizeof(kMagic)) != 0 ||
      records_bytes % sizeof(Record) != 0 ||
      records_bytes / sizeof(Record) != header.num_records ||
      header.crc != IndexCrc(header, {records_at, records_bytes})) {
    return absl::DataLossError(absl::StrCat(
        IndexPath(path), ": is damaged (its checksum does not match)"));
  }
  std::vector<Record> records(header.num_records);
  if (!records.empty()) {
    std::memcpy(records.data(), records_at, records_bytes);
  }
  HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<io::ReadableFile> file,
                          files.OpenForRead(path));
  HEARTH_ASSIGN_OR_RETURN(const io::FileInfo info, file->Info());
  if (info.size_bytes != header.file_bytes) {
    return absl::DataLossError(absl::StrCat(path, ": has ", info.size_bytes,
                                            " bytes, not ", header.file_bytes));
  }
  return std::unique_ptr<SampleSpool>(
      new SampleSpool(std::move(file), std::move(records)));
}

absl::Status SampleSpool::Remove(io::FileSystem& files,
                                 const std::string& path) {
  HEARTH_RETURN_IF_ERROR(files.RemoveTree(IndexPath(path)));
  HEARTH_RETURN_IF_ERROR(
      files.RemoveTree(absl::StrCat(IndexPath(path), io::kTemporarySuffix)));
  return files.RemoveTree(path);
}

absl::StatusOr<absl::Span<const NodeId>> SampleSpool::Load(int64_t batch) {
  if (batch == loaded_) return absl::MakeConstSpan(nodes_);
  loaded_ = -1;
  const Record& record = records_[batch];
  bytes_.resize(record.nodes_bytes);
  absl::Status status;
  // A second read heals damage in transit; damage on disk stays.
  for (int attempt = 0; attempt < 2; ++attempt) {
    HEARTH_RETURN_IF_ERROR(file_->Read(record.offset, absl::MakeSpan(bytes_)));
    status = DecodeBatchNodes(bytes_, KeyOf(batch), nodes_);
    if (status.ok()) {
      loaded_ = batch;
      return absl::MakeConstSpan(nodes_);
    }
  }
  return AtBatch(batch, status);
}

absl::Status SampleSpool::Read(int64_t batch, absl::Span<std::byte> out) {
  const Record& record = records_[batch];
  absl::Status status;
  for (int attempt = 0; attempt < 2; ++attempt) {
    HEARTH_RETURN_IF_ERROR(file_->Read(record.offset, out));
    status = CheckBatch(out, KeyOf(batch));
    if (status.ok()) return status;
  }
  return AtBatch(batch, status);
}

absl::Status SampleSpool::AtBatch(int64_t batch,
                                  const absl::Status& status) const {
  return Annotate(status, absl::StrCat(file_->path(), ": batch ", batch,
                                       " at byte ", records_[batch].offset));
}

}  // namespace hearth::strategy
