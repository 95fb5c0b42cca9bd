#ifndef HEARTH_ENGINE_IO_MEMORY_FILE_H_
#define HEARTH_ENGINE_IO_MEMORY_FILE_H_

#include <cstdint>
#include <memory>
#include <string>

#include "engine/io/file_system.h"

namespace hearth::io {

/// A file whose bytes are `contents`: for arrays that lie within something else
/// that was read, and for tests and fuzzers of what reads foreign formats.
/// Thread-safe, as every ReadableFile.
std::unique_ptr<ReadableFile> NewMemoryFile(std::string contents,
                                            std::string path = "memory");

/// A file system in which every path is a file of these contents; it can be
/// opened for reading and nothing else (UNIMPLEMENTED).
std::unique_ptr<FileSystem> NewMemoryFileSystem(std::string contents);

}  // namespace hearth::io

#endif  // HEARTH_ENGINE_IO_MEMORY_FILE_H_
