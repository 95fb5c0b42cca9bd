#include "server/storage/job_id.h"

#include <cstddef>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"

namespace hearth::server {

std::string MakeJobId(const std::string& kind, int64_t number) {
  return absl::StrCat(kind, "-", number);
}

int64_t JobNumber(const std::string& id) {
  const size_t dash = id.rfind('-');
  int64_t number = 0;
  if (dash == std::string::npos ||
      !absl::SimpleAtoi(id.substr(dash + 1), &number) ||
      MakeJobId(id.substr(0, dash), number) != id) {
    return 0;
  }
  return number;
}

}  // namespace hearth::server
