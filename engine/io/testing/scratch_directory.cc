#include "engine/io/testing/scratch_directory.h"

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <system_error>

namespace hearth::io {

ScratchDirectory::ScratchDirectory() {
  const char* parent = std::getenv("TEST_TMPDIR");
  path_ = std::string(parent != nullptr ? parent : "/tmp") + "/scratch.XXXXXX";
  if (::mkdtemp(path_.data()) == nullptr) {
    std::perror(path_.c_str());
    std::abort();
  }
}

ScratchDirectory::~ScratchDirectory() {
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
}

}  // namespace hearth::io
