#include "engine/ingest/export/output_folder.h"

#include <zlib.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/status.h"
#include "engine/io/whole_file.h"

namespace hearth::ingest {

namespace {

constexpr size_t kBlockBytes = 1 << 20;
// zlib counts the bytes of one call in 32 bits.
constexpr size_t kMaxInput = 1 << 30;
// 15 bits of window, plus 16 for gzip's header instead of zlib's.
constexpr int kGzipWindow = 15 + 16;
// A fast level: these files are read more often than written, but disks are
// quick.
constexpr int kLevel = 4;
constexpr int kMemoryLevel = 8;

class FileSink : public ByteSink {
 public:
  explicit FileSink(std::unique_ptr<io::WritableFile> file)
      : file_(std::move(file)) {}

  absl::Status Append(absl::Span<const std::byte> data) override {
    if (block_.size() + data.size() > kBlockBytes) {
      HEARTH_RETURN_IF_ERROR(Flush());
    }
    if (data.size() >= kBlockBytes) return file_->Append(data);
    block_.insert(block_.end(), data.begin(), data.end());
    return absl::OkStatus();
  }

  absl::Status Finish() override {
    HEARTH_RETURN_IF_ERROR(Flush());
    HEARTH_RETURN_IF_ERROR(file_->Sync());
    return file_->Close();
  }

 private:
  absl::Status Flush() {
    if (block_.empty()) return absl::OkStatus();
    const absl::Status status = file_->Append(block_);
    block_.clear();
    return status;
  }

  const std::unique_ptr<io::WritableFile> file_;
  std::vector<std::byte> block_;
};

class GzipSink : public ByteSink {
 public:
  explicit GzipSink(std::unique_ptr<ByteSink> compressed)
      : compressed_(std::move(compressed)), block_(kBlockBytes) {
    ready_ = deflateInit2(&stream_, kLevel, Z_DEFLATED, kGzipWindow,
                          kMemoryLevel, Z_DEFAULT_STRATEGY) == Z_OK;
  }
  ~GzipSink() override {
    if (ready_) deflateEnd(&stream_);
  }

  absl::Status Append(absl::Span<const std::byte> data) override {
    while (!data.empty()) {
      const auto part = data.first(std::min(data.size(), kMaxInput));
      HEARTH_RETURN_IF_ERROR(Deflate(part, Z_NO_FLUSH));
      data.remove_prefix(part.size());
    }
    return absl::OkStatus();
  }

  absl::Status Finish() override {
    HEARTH_RETURN_IF_ERROR(Deflate({}, Z_FINISH));
    return compressed_->Finish();
  }

 private:
  absl::Status Deflate(absl::Span<const std::byte> data, int flush) {
    if (!ready_) {
      return absl::ResourceExhaustedError("zlib: no memory to compress with");
    }
    stream_.next_in =
        reinterpret_cast<Bytef*>(const_cast<std::byte*>(data.data()));
    stream_.avail_in = static_cast<uInt>(data.size());
    do {
      stream_.next_out = reinterpret_cast<Bytef*>(block_.data());
      stream_.avail_out = static_cast<uInt>(block_.size());
      deflate(&stream_, flush);
      HEARTH_RETURN_IF_ERROR(compressed_->Append(absl::MakeConstSpan(
          block_.data(), block_.size() - stream_.avail_out)));
    } while (stream_.avail_out == 0);
    return absl::OkStatus();
  }

  const std::unique_ptr<ByteSink> compressed_;
  z_stream stream_ = {};
  bool ready_ = false;
  std::vector<std::byte> block_;
};

}  // namespace

std::unique_ptr<ByteSink> NewFileSink(std::unique_ptr<io::WritableFile> file) {
  return std::make_unique<FileSink>(std::move(file));
}

std::unique_ptr<ByteSink> NewGzipSink(std::unique_ptr<ByteSink> compressed) {
  return std::make_unique<GzipSink>(std::move(compressed));
}

OutputFolder::OutputFolder(io::FileSystem& files,
                           const std::string& destination)
    : files_(files),
      destination_(destination),
      folder_(absl::StrCat(destination, io::kTemporarySuffix)) {}

OutputFolder::~OutputFolder() {
  // Failures of the removal are ignored: an earlier error is the one to report.
  if (!published_) files_.RemoveTree(folder_).IgnoreError();
}

absl::StatusOr<std::unique_ptr<OutputFolder>> OutputFolder::Create(
    io::FileSystem& files, const std::string& destination) {
  if (destination.empty()) {
    return absl::InvalidArgumentError("a folder to write needs a path");
  }
  const absl::Status there = files.Stat(destination).status();
  if (there.ok()) {
    return absl::AlreadyExistsError(
        absl::StrCat(destination, ": already exists"));
  }
  if (!absl::IsNotFound(there)) return there;
  std::unique_ptr<OutputFolder> folder(new OutputFolder(files, destination));
  HEARTH_RETURN_IF_ERROR(files.RemoveTree(folder->folder_));
  HEARTH_RETURN_IF_ERROR(files.CreateDirectory(folder->folder_));
  return folder;
}

absl::StatusOr<std::unique_ptr<io::WritableFile>> OutputFolder::NewFile(
    const std::string& path) {
  for (size_t slash = path.find('/'); slash != std::string::npos;
       slash = path.find('/', slash + 1)) {
    const std::string parent = path.substr(0, slash);
    if (!made_.insert(parent).second) continue;
    HEARTH_RETURN_IF_ERROR(
        files_.CreateDirectory(io::JoinPath(folder_, parent)));
  }
  return files_.Create(io::JoinPath(folder_, path));
}

absl::StatusOr<std::unique_ptr<ByteSink>> OutputFolder::NewSink(
    const std::string& path) {
  HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<io::WritableFile> file,
                          NewFile(path));
  return NewFileSink(std::move(file));
}

absl::Status OutputFolder::WriteText(const std::string& path,
                                     absl::string_view text) {
  HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<ByteSink> sink, NewSink(path));
  HEARTH_RETURN_IF_ERROR(sink->AppendText(text));
  return sink->Finish();
}

absl::Status OutputFolder::Publish() {
  for (const std::string& folder : made_) {
    HEARTH_RETURN_IF_ERROR(files_.SyncDirectory(io::JoinPath(folder_, folder)));
  }
  HEARTH_RETURN_IF_ERROR(files_.SyncDirectory(folder_));
  HEARTH_RETURN_IF_ERROR(files_.Rename(folder_, destination_));
  published_ = true;
  const absl::Status status =
      files_.SyncDirectory(io::ParentDirectory(destination_));
  // It is unknown whether the rename is durable: take it back.
  if (!status.ok()) files_.RemoveTree(destination_).IgnoreError();
  return status;
}

}  // namespace hearth::ingest
