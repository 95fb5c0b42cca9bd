#ifndef HEARTH_ENGINE_INGEST_IMPORT_FILE_PREFIXES_H_
#define HEARTH_ENGINE_INGEST_IMPORT_FILE_PREFIXES_H_

#include <set>
#include <string>

namespace hearth::ingest {

/// Gives the prefixes that the names of each type's files begin with.
/// Single-owner.
class FilePrefixes {
 public:
  /// The type's name, with what no file name should have replaced; unlike all
  /// before.
  std::string New(const std::string& type);

 private:
  std::set<std::string> taken_;
};

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_IMPORT_FILE_PREFIXES_H_
