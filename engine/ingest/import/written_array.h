#ifndef HEARTH_ENGINE_INGEST_IMPORT_WRITTEN_ARRAY_H_
#define HEARTH_ENGINE_INGEST_IMPORT_WRITTEN_ARRAY_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "engine/ingest/source/array_reader.h"
#include "engine/io/file_system.h"
#include "engine/store/manifest.h"

namespace hearth::ingest {

/// An array that the import wrote to `folder`, or registered, checked as it is
/// read: what is made of it goes into the dataset, whose checksums would make
/// damage look right.
absl::StatusOr<std::unique_ptr<ArrayReader>> OpenWritten(
    io::FileSystem& files, const std::string& folder,
    const store::ArrayFile& array);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_IMPORT_WRITTEN_ARRAY_H_
