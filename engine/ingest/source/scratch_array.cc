#include "engine/ingest/source/scratch_array.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/crc32c.h"
#include "engine/base/status.h"
#include "engine/store/array_type.h"

namespace hearth::ingest {

namespace {

constexpr size_t kBufferBytes = 256 << 10;

/// A file that reports another path: errors name the source instead of a
/// scratch file.
class NamedFile final : public io::ReadableFile {
 public:
  NamedFile(std::unique_ptr<io::ReadableFile> file, std::string path)
      : file_(std::move(file)), path_(std::move(path)) {}

  absl::Status Read(uint64_t offset, absl::Span<std::byte> out) override {
    return file_->Read(offset, out);
  }
  absl::StatusOr<io::FileInfo> Info() override { return file_->Info(); }
  const std::string& path() const override { return path_; }

 private:
  const std::unique_ptr<io::ReadableFile> file_;
  const std::string path_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<ScratchArray>> ScratchArray::Create(
    ImportContext& context, store::ElementType type, std::string source) {
  HEARTH_ASSIGN_OR_RETURN(std::string path, context.NewScratchPath("array"));
  auto array = std::unique_ptr<ScratchArray>(new ScratchArray(
      context.files(), std::move(path), type, std::move(source)));
  HEARTH_ASSIGN_OR_RETURN(array->file_, array->files_.Create(array->path_));
  return array;
}

absl::Status ScratchArray::Append(absl::Span<const std::byte> elements) {
  buffer_.insert(buffer_.end(), elements.begin(), elements.end());
  return buffer_.size() < kBufferBytes ? absl::OkStatus() : Flush();
}

absl::Status ScratchArray::Flush() {
  HEARTH_RETURN_IF_ERROR(file_->Append(buffer_));
  buffer_.clear();
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<ArrayReader>> ScratchArray::Finish(
    std::vector<int64_t> shape) {
  HEARTH_RETURN_IF_ERROR(Flush());
  HEARTH_RETURN_IF_ERROR(file_->Close());
  HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<io::ReadableFile> file,
                          files_.OpenForRead(path_));
  HEARTH_ASSIGN_OR_RETURN(const io::FileInfo info, file->Info());
  const auto bytes = store::ArrayBytes(shape, type_.item_bytes);
  if (!bytes.has_value() || static_cast<uint64_t>(*bytes) != info.size_bytes) {
    return absl::InternalError(absl::StrCat(
        path_, ": ", info.size_bytes, " bytes are no ", Name(type_),
        " array of shape ", store::FormatShape(shape)));
  }
  return ArrayReader::ReadRaw(
      std::make_unique<NamedFile>(std::move(file), source_),
      {.type = type_, .shape = std::move(shape)});
}

namespace {

constexpr char kWideSuffix[] = ".wide";
constexpr EdgeEnds kNarrow{INT32_MAX, INT32_MAX};
constexpr EdgeEnds kWide{INT64_MAX, INT64_MAX};

/// Edges of the 8-byte file, then edges of the 16-byte file.
class SpooledEdges final : public EdgeSource {
 public:
  struct Part {
    std::unique_ptr<io::ReadableFile> file;
    std::unique_ptr<EdgeSource> edges;
  };

  explicit SpooledEdges(std::vector<Part> parts) : parts_(std::move(parts)) {
    for (const Part& part : parts_) num_edges_ += part.edges->num_edges();
  }

  int64_t num_edges() const override { return num_edges_; }

  absl::Status Read(int64_t first, int64_t count, EdgeBlock& block) override {
    block.sources.clear();
    block.destinations.clear();
    for (const Part& part : parts_) {
      const int64_t here =
          std::clamp<int64_t>(part.edges->num_edges() - first, 0, count);
      if (here > 0) {
        HEARTH_RETURN_IF_ERROR(part.edges->Read(first, here, some_));
        Append(some_.sources, block.sources);
        Append(some_.destinations, block.destinations);
        count -= here;
        first += here;
      }
      first -= part.edges->num_edges();
    }
    return absl::OkStatus();
  }

 private:
  static void Append(const std::vector<int64_t>& some,
                     std::vector<int64_t>& all) {
    all.insert(all.end(), some.begin(), some.end());
  }

  const std::vector<Part> parts_;
  int64_t num_edges_ = 0;
  EdgeBlock some_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<EdgeSpool>> EdgeSpool::Create(
    ImportContext& context) {
  HEARTH_ASSIGN_OR_RETURN(std::string path, context.NewScratchPath("edges"));
  auto spool = std::unique_ptr<EdgeSpool>(
      new EdgeSpool(context.files(), std::move(path)));
  HEARTH_ASSIGN_OR_RETURN(spool->file_, spool->files_.Create(spool->path_));
  return spool;
}

absl::Status EdgeSpool::Add(int64_t source, int64_t destination) {
  if (!is_wide_ && std::max(source, destination) >= INT32_MAX) {
    HEARTH_RETURN_IF_ERROR(Widen());
  }
  AppendScratchEdge(is_wide_ ? kWide : kNarrow, source, destination, buffer_);
  ++(is_wide_ ? wide_ : narrow_).num_edges;
  return buffer_.size() < kBufferBytes ? absl::OkStatus() : Flush();
}

absl::Status EdgeSpool::Flush() {
  ScratchExtent& extent = is_wide_ ? wide_ : narrow_;
  extent.crc32c = Crc32c(buffer_, extent.crc32c);
  HEARTH_RETURN_IF_ERROR(file_->Append(buffer_));
  buffer_.clear();
  return absl::OkStatus();
}

absl::Status EdgeSpool::Widen() {
  HEARTH_RETURN_IF_ERROR(Flush());
  HEARTH_RETURN_IF_ERROR(file_->Close());
  HEARTH_ASSIGN_OR_RETURN(file_,
                          files_.Create(absl::StrCat(path_, kWideSuffix)));
  is_wide_ = true;
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<EdgeSource>> EdgeSpool::Finish() {
  HEARTH_RETURN_IF_ERROR(Flush());
  HEARTH_RETURN_IF_ERROR(file_->Close());
  std::vector<SpooledEdges::Part> parts(is_wide_ ? 2 : 1);
  HEARTH_ASSIGN_OR_RETURN(parts[0].file, files_.OpenForRead(path_));
  parts[0].edges = NewScratchEdgeSource(*parts[0].file, kNarrow, narrow_);
  if (is_wide_) {
    HEARTH_ASSIGN_OR_RETURN(
        parts[1].file, files_.OpenForRead(absl::StrCat(path_, kWideSuffix)));
    parts[1].edges = NewScratchEdgeSource(*parts[1].file, kWide, wide_);
  }
  return std::make_unique<SpooledEdges>(std::move(parts));
}

}  // namespace hearth::ingest
