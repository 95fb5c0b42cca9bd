#include "engine/strategy/superbatch/changeset_file.h"

#include <cstddef>
#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/crc32c.h"
#include "engine/base/status_macros.h"

// A record: Header, in_ids, out_ids, in_positions. The initial rows are the
// in_ids of record 0; record b + 1 is that of batch b.

namespace hearth::strategy {
namespace {

using store::NodeId;

struct Header {
  uint64_t record;
  uint64_t num_in;
  uint64_t num_out;
  uint64_t num_positions;
  // The CRC32C of everything else, the fields above first.
  uint32_t crc;
  uint32_t zero;

  uint64_t record_bytes() const {
    return sizeof(Header) + (num_in + num_out) * sizeof(NodeId) +
           num_positions * sizeof(int32_t);
  }
};

uint32_t RecordCrc(const Header& header, absl::Span<const std::byte> record) {
  return Crc32c(record.subspan(sizeof(Header)),
                Crc32c({reinterpret_cast<const std::byte*>(&header),
                        offsetof(Header, crc)}));
}

template <typename T>
void AppendNumbers(const std::vector<T>& values, std::byte*& at) {
  if (values.empty()) return;
  std::memcpy(at, values.data(), values.size() * sizeof(T));
  at += values.size() * sizeof(T);
}

template <typename T>
void Take(uint64_t count, const std::byte*& at, std::vector<T>& values) {
  values.resize(count);
  if (count == 0) return;
  std::memcpy(values.data(), at, count * sizeof(T));
  at += count * sizeof(T);
}

/// False if `bytes` is not record `number`.
bool Decode(absl::Span<const std::byte> bytes, uint64_t number,
            Changeset& changeset) {
  Header header;
  if (bytes.size() < sizeof(header)) return false;
  std::memcpy(&header, bytes.data(), sizeof(header));
  if (header.crc != RecordCrc(header, bytes) || header.record != number ||
      header.record_bytes() != bytes.size()) {
    return false;
  }
  const std::byte* at = bytes.data() + sizeof(header);
  Take(header.num_in, at, changeset.in_ids);
  Take(header.num_out, at, changeset.out_ids);
  Take(header.num_positions, at, changeset.in_positions);
  return true;
}

}  // namespace

ChangesetFileWriter::ChangesetFileWriter(io::FileSystem& files,
                                         std::string path,
                                         std::unique_ptr<io::WritableFile> file)
    : files_(files), path_(std::move(path)), file_(std::move(file)) {}

absl::StatusOr<std::unique_ptr<ChangesetFileWriter>>
ChangesetFileWriter::Create(io::FileSystem& files, std::string path) {
  HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<io::WritableFile> file,
                          files.Create(path));
  return std::unique_ptr<ChangesetFileWriter>(
      new ChangesetFileWriter(files, std::move(path), std::move(file)));
}

ChangesetFileWriter::~ChangesetFileWriter() {
  // An error has been told already; the folder goes with the pass anyway.
  if (!finished_) files_.RemoveTree(path_).IgnoreError();
}

absl::Status ChangesetFileWriter::Initialize(absl::Span<const NodeId> ids) {
  Changeset initial;
  initial.in_ids.assign(ids.begin(), ids.end());
  return Append(initial);
}

absl::Status ChangesetFileWriter::Update(int64_t /*batch*/,
                                         const Changeset& changeset) {
  return Append(changeset);
}

absl::Status ChangesetFileWriter::Append(const Changeset& changeset) {
  Header header = {};
  header.record = offsets_.size() - 1;
  header.num_in = changeset.in_ids.size();
  header.num_out = changeset.out_ids.size();
  header.num_positions = changeset.in_positions.size();
  std::vector<std::byte> record(header.record_bytes());
  std::byte* at = record.data() + sizeof(header);
  AppendNumbers(changeset.in_ids, at);
  AppendNumbers(changeset.out_ids, at);
  AppendNumbers(changeset.in_positions, at);
  header.crc = RecordCrc(header, record);
  std::memcpy(record.data(), &header, sizeof(header));
  HEARTH_RETURN_IF_ERROR(file_->Append(record));
  offsets_.push_back(offsets_.back() + record.size());
  return absl::OkStatus();
}

absl::StatusOr<std::vector<uint64_t>> ChangesetFileWriter::Finish() {
  HEARTH_RETURN_IF_ERROR(file_->Close());
  finished_ = true;
  return std::move(offsets_);
}

ChangesetFileReader::ChangesetFileReader(std::unique_ptr<io::ReadableFile> file,
                                         std::vector<uint64_t> offsets)
    : file_(std::move(file)), offsets_(std::move(offsets)) {}

absl::StatusOr<std::unique_ptr<ChangesetFileReader>> ChangesetFileReader::Open(
    io::FileSystem& files, const std::string& path,
    std::vector<uint64_t> offsets) {
  HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<io::ReadableFile> file,
                          files.OpenForRead(path));
  HEARTH_ASSIGN_OR_RETURN(const io::FileInfo info, file->Info());
  if (info.size_bytes != offsets.back()) {
    return absl::DataLossError(absl::StrCat(path, ": has ", info.size_bytes,
                                            " bytes, not ", offsets.back()));
  }
  return std::unique_ptr<ChangesetFileReader>(
      new ChangesetFileReader(std::move(file), std::move(offsets)));
}

absl::StatusOr<Changeset> ChangesetFileReader::Read(size_t record) const {
  const uint64_t offset = offsets_[record];
  std::vector<std::byte> bytes(offsets_[record + 1] - offset);
  Changeset changeset;
  // Damage on the way is gone at the second reading; damage on disk is not.
  for (int attempt = 0; attempt < 2; ++attempt) {
    HEARTH_RETURN_IF_ERROR(file_->Read(offset, absl::MakeSpan(bytes)));
    if (Decode(bytes, record, changeset)) return changeset;
  }
  return absl::DataLossError(
      absl::StrCat(file_->path(), ": the changeset at byte ", offset,
                   " is damaged (its checksum does not match)"));
}

absl::StatusOr<std::vector<NodeId>> ChangesetFileReader::ReadInitial() const {
  HEARTH_ASSIGN_OR_RETURN(Changeset initial, Read(0));
  return std::move(initial.in_ids);
}

absl::StatusOr<Changeset> ChangesetFileReader::ReadUpdate(int64_t batch) const {
  return Read(static_cast<size_t>(batch) + 1);
}

}  // namespace hearth::strategy
