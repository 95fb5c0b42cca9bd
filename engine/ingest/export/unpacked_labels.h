#ifndef HEARTH_ENGINE_INGEST_EXPORT_UNPACKED_LABELS_H_
#define HEARTH_ENGINE_INGEST_EXPORT_UNPACKED_LABELS_H_

#include <cstdint>
#include <memory>

#include "engine/io/file_system.h"

namespace hearth::ingest {

/// The multi-label rows of a dataset (labels.h), which begin at `offset` of
/// `bits`, as what an importer takes: float32 [num_rows, width], 1 or 0 for
/// each label, NaN for one that is not known (`partial`), and a row of NaN for
/// an unlabeled node. Computed when it is read; thread-safe.
std::unique_ptr<io::ReadableFile> NewUnpackedLabels(
    std::unique_ptr<io::ReadableFile> bits, uint64_t offset, int64_t num_rows,
    int64_t width, bool partial);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_EXPORT_UNPACKED_LABELS_H_
