#ifndef HEARTH_ENGINE_INGEST_PARSE_ZIP_MEMBER_H_
#define HEARTH_ENGINE_INGEST_PARSE_ZIP_MEMBER_H_

#include <cstdint>
#include <memory>

#include "absl/time/time.h"
#include "engine/ingest/parse/zip_directory.h"
#include "engine/io/file_system.h"

namespace hearth::ingest {

/// `member`, whose data begins at `data_offset` of `archive`, as a file; see
/// ZipArchive::OpenMember. `modified` is the archive's.
std::unique_ptr<io::ReadableFile> NewZipMemberFile(
    std::shared_ptr<io::ReadableFile> archive, ZipMember member,
    uint64_t data_offset, absl::Time modified);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_PARSE_ZIP_MEMBER_H_
