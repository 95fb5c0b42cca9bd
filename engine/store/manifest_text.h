#ifndef HEARTH_ENGINE_STORE_MANIFEST_TEXT_H_
#define HEARTH_ENGINE_STORE_MANIFEST_TEXT_H_

/// Names that the writer and the reader of manifests share.

namespace hearth::store {

/// Value of "format".
inline constexpr char kManifestFormat[] = "hearth-dataset";

/// Required feature of a dataset with other labels than classes, for programs
/// of version 1.0, which know no others.
inline constexpr char kLabelKindsFeature[] = "label_kinds";

/// Required feature of a dataset with partial labels (labels.h), for programs
/// before version 1.3, which know none.
inline constexpr char kPartialLabelsFeature[] = "partial_labels";

/// The minor version that fingerprints have counted with ever since. 1.2 added
/// the ids of nodes, which programs of version 1.1 need not know: they pass
/// over them.
inline constexpr int kFingerprintMinorVersion = 1;

}  // namespace hearth::store

#endif  // HEARTH_ENGINE_STORE_MANIFEST_TEXT_H_
