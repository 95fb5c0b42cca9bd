#ifndef HEARTH_ENGINE_STORE_MANIFEST_TEXT_H_
#define HEARTH_ENGINE_STORE_MANIFEST_TEXT_H_

/// What the writer and the reader of manifests agree on.

namespace hearth::store {

/// Value of "format".
inline constexpr char kManifestFormat[] = "hearth-dataset";

}  // namespace hearth::store

#endif  // HEARTH_ENGINE_STORE_MANIFEST_TEXT_H_
