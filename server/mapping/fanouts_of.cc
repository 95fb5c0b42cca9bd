#include "server/mapping/fanouts_of.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "engine/base/status_macros.h"

namespace hearth::server {
namespace {

constexpr int32_t kMostNeighbors = 1 << 20;

absl::StatusOr<job::EdgeTypeFanouts> ParseEntry(absl::string_view entry) {
  const std::pair<absl::string_view, absl::string_view> parts =
      absl::StrSplit(entry, absl::MaxSplits('=', 1));
  if (parts.first.empty() || parts.second.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "must be like paper:cites:paper=15,10, not \"", entry, "\""));
  }
  job::EdgeTypeFanouts of_type = {.edge_type = std::string(parts.first),
                                  .fanouts = {}};
  for (const absl::string_view number : absl::StrSplit(parts.second, ',')) {
    int32_t fanout = 0;
    if (!absl::SimpleAtoi(number, &fanout) || fanout < -1 ||
        fanout > kMostNeighbors) {
      return absl::InvalidArgumentError(
          absl::StrCat("\"", number, "\" of ", of_type.edge_type,
                       " must be within -1 .. ", kMostNeighbors));
    }
    of_type.fanouts.push_back(fanout);
  }
  return of_type;
}

}  // namespace

absl::StatusOr<std::vector<job::EdgeTypeFanouts>> ParseFanoutsOf(
    absl::string_view text) {
  std::vector<job::EdgeTypeFanouts> all;
  if (text.empty()) return all;
  for (const absl::string_view entry : absl::StrSplit(text, ';')) {
    HEARTH_ASSIGN_OR_RETURN(job::EdgeTypeFanouts of_type, ParseEntry(entry));
    const bool again =
        std::any_of(all.begin(), all.end(), [&](const auto& other) {
          return other.edge_type == of_type.edge_type;
        });
    if (again) {
      return absl::InvalidArgumentError(
          absl::StrCat("names ", of_type.edge_type, " twice"));
    }
    all.push_back(std::move(of_type));
  }
  return all;
}

}  // namespace hearth::server
