#include "engine/base/version.h"

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace hearth {
namespace {

// The numbers of a version that decide what it understands.
using Line = std::array<uint32_t, 2>;

std::optional<Line> LineOf(absl::string_view version) {
  const std::vector<absl::string_view> parts = absl::StrSplit(version, '.');
  Line line = {};
  if (parts.size() < 2 || !absl::SimpleAtoi(parts[0], &line[0]) ||
      !absl::SimpleAtoi(parts[1], &line[1])) {
    return std::nullopt;
  }
  if (line[0] > 0) line[1] = 0;
  return line;
}

}  // namespace

absl::Status CheckVersions(absl::string_view client, absl::string_view daemon) {
  const std::optional<Line> clients = LineOf(client);
  const std::optional<Line> daemons = LineOf(daemon);
  if (!clients.has_value() || !daemons.has_value() || *clients == *daemons) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(absl::StrCat(
      "hearthd ", daemon, " is ", *daemons < *clients ? "older" : "newer",
      " than this client, ", client,
      ", can speak with: install the same version of both"));
}

}  // namespace hearth
