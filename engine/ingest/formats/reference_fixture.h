#ifndef HEARTH_ENGINE_INGEST_FORMATS_REFERENCE_FIXTURE_H_
#define HEARTH_ENGINE_INGEST_FORMATS_REFERENCE_FIXTURE_H_

#include <map>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "engine/ingest/formats/formats.h"
#include "engine/ingest/import/import_graph.h"
#include "engine/io/testing/scratch_directory.h"

/// Imports the datasets of tests/importers/fixtures and compares them with the
/// results of the projects' own readers.

namespace hearth::ingest {

/// A copy of a fixture, which a test may damage, and a place for the dataset.
class FixtureFolder {
 public:
  /// `fixture` is a folder of tests/importers/fixtures, such as "mag240m".
  explicit FixtureFolder(const std::string& fixture);

  /// Path of a file of the copy.
  std::string Path(const std::string& name) const;
  void Write(const std::string& name, const std::string& bytes) const;
  std::string Read(const std::string& name) const;
  void Remove(const std::string& name) const;
  void Move(const std::string& from, const std::string& to) const;

  std::string Destination() const { return scratch_.Path("dataset"); }

  /// Imports the folder or file `source` of the copy.
  absl::StatusOr<ImportResult> Import(const std::string& source,
                                      const std::string& format,
                                      const FormatOptions& options = {},
                                      bool in_place = false) const;

  /// Warnings of the dataset at Destination().
  std::vector<std::string> Warnings() const;

  /// Error of the import; expects that the import leaves nothing behind.
  absl::Status ImportError(const std::string& source, const std::string& format,
                           const FormatOptions& options = {}) const;

  /// Expects for each type the edges, features and labels in expected/, and for
  /// each part its nodes. Compared as numbers, with edges sorted and NaN labels
  /// as -1. `names` gives names of parts in expected/ other than "train",
  /// "valid", "test".
  void ExpectAsExpected(
      const std::map<std::string, std::string>& names = {}) const;

 private:
  io::ScratchDirectory scratch_;
};

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_FORMATS_REFERENCE_FIXTURE_H_
