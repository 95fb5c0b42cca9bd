#include "engine/ingest/import/written_array.h"

#include <utility>

#include "engine/base/status_macros.h"
#include "engine/store/verified_file.h"

namespace hearth::ingest {

absl::StatusOr<std::unique_ptr<ArrayReader>> OpenWritten(
    io::FileSystem& files, const std::string& folder,
    const store::ArrayFile& array) {
  HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<io::ReadableFile> file,
                          store::OpenVerifiedFile(files, folder, array));
  return ArrayReader::ReadNpy(std::move(file));
}

}  // namespace hearth::ingest
