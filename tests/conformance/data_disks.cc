#include "tests/conformance/data_disks.h"

#include <map>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/clock.h"
#include "engine/io/file_system.h"

namespace hearth::testing {

absl::Span<plan::PlanStore* const> DataDisks(const std::string& folder) {
  constexpr int kDisks = 3;
  static auto& stores =
      *new std::map<std::string, std::vector<plan::PlanStore*>>();
  std::vector<plan::PlanStore*>& disks = stores[folder];
  while (disks.size() < kDisks) {
    disks.push_back(new plan::PlanStore(
        io::FileSystem::Posix(), Clock::Real(),
        {.folder = absl::StrCat(folder, "_disk", disks.size())}));
  }
  return disks;
}

}  // namespace hearth::testing
