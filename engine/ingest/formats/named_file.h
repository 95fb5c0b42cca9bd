#ifndef HEARTH_ENGINE_INGEST_FORMATS_NAMED_FILE_H_
#define HEARTH_ENGINE_INGEST_FORMATS_NAMED_FILE_H_

#include <memory>
#include <string>

#include "engine/io/file_system.h"

namespace hearth::ingest {

/// `file`, called `name` instead of its path: for what lies within a file or
/// in a scratch file, so that messages name what the user knows. Errors of
/// reading itself still name the file read.
std::unique_ptr<io::ReadableFile> NewNamedFile(
    std::unique_ptr<io::ReadableFile> file, std::string name);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_FORMATS_NAMED_FILE_H_
