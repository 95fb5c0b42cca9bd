#ifndef HEARTH_ENGINE_STORE_MANIFEST_TEXT_H_
#define HEARTH_ENGINE_STORE_MANIFEST_TEXT_H_

/// What the writer and the reader of manifests agree on.

namespace hearth::store {

/// Value of "format".
inline constexpr char kManifestFormat[] = "hearth-dataset";

/// The file's end: the CRC32C of all bytes before it. The whole is JSON.
inline constexpr char kManifestTrailerFormat[] =
    ",\n  \"crc32c\": \"%08x\"\n}\n";

}  // namespace hearth::store

#endif  // HEARTH_ENGINE_STORE_MANIFEST_TEXT_H_
