#include "engine/io/memory_file.h"

#include <cstring>
#include <utility>

#include "absl/strings/str_cat.h"

namespace hearth::io {
namespace {

class MemoryFile final : public ReadableFile {
 public:
  MemoryFile(std::string contents, std::string path)
      : contents_(std::move(contents)), path_(std::move(path)) {}

  absl::Status Read(uint64_t offset, absl::Span<std::byte> out) override {
    if (offset > contents_.size() || out.size() > contents_.size() - offset) {
      return absl::DataLossError(
          absl::StrCat(path_, ": ends at byte ", contents_.size()));
    }
    if (!out.empty()) {
      std::memcpy(out.data(), contents_.data() + offset, out.size());
    }
    return absl::OkStatus();
  }

  absl::StatusOr<FileInfo> Info() override {
    FileInfo info;
    info.size_bytes = contents_.size();
    info.is_regular = true;
    return info;
  }

  const std::string& path() const override { return path_; }

 private:
  const std::string contents_;
  const std::string path_;
};

}  // namespace

std::unique_ptr<ReadableFile> NewMemoryFile(std::string contents,
                                            std::string path) {
  return std::make_unique<MemoryFile>(std::move(contents), std::move(path));
}

}  // namespace hearth::io
