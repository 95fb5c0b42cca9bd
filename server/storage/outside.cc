#include "server/storage/outside.h"

#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"
#include "engine/base/status_macros.h"
#include "engine/io/atomic_file.h"

namespace hearth::server {
namespace {

// The path without symbolic links, "." and "..", as far as it exists; what does
// not exist is taken for folders to come.
std::string Resolve(io::FileSystem& files, const std::string& path) {
  std::string resolved = "/";
  for (const absl::string_view part :
       absl::StrSplit(path, '/', absl::SkipEmpty())) {
    if (part == ".") continue;
    if (part == "..") {
      resolved = io::ParentDirectory(resolved);
      continue;
    }
    const std::string next = resolved == "/"
                                 ? absl::StrCat("/", part)
                                 : absl::StrCat(resolved, "/", part);
    resolved = files.RealPath(next).value_or(next);
  }
  return resolved;
}

}  // namespace

absl::Status CheckOutside(io::FileSystem& files, const std::string& data_dir,
                          const std::string& destination) {
  HEARTH_ASSIGN_OR_RETURN(const std::string owned, files.RealPath(data_dir));
  const std::string resolved = Resolve(files, destination);
  if (resolved != owned && !absl::StartsWith(resolved, owned + "/")) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(
      absl::StrCat(destination, " lies in the daemon's own data directory, ",
                   owned, "; choose a folder elsewhere"));
}

}  // namespace hearth::server
