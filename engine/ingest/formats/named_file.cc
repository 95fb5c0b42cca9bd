#include "engine/ingest/formats/named_file.h"

#include <utility>

namespace hearth::ingest {
namespace {

class NamedFile final : public io::ReadableFile {
 public:
  NamedFile(std::unique_ptr<io::ReadableFile> file, std::string name)
      : file_(std::move(file)), name_(std::move(name)) {}

  absl::Status Read(uint64_t offset, absl::Span<std::byte> out) override {
    return file_->Read(offset, out);
  }
  absl::StatusOr<io::FileInfo> Info() override { return file_->Info(); }
  const std::string& path() const override { return name_; }

 private:
  const std::unique_ptr<io::ReadableFile> file_;
  const std::string name_;
};

}  // namespace

std::unique_ptr<io::ReadableFile> NewNamedFile(
    std::unique_ptr<io::ReadableFile> file, std::string name) {
  return std::make_unique<NamedFile>(std::move(file), std::move(name));
}

}  // namespace hearth::ingest
