#ifndef HEARTH_ENGINE_STRATEGY_SUPERBATCH_CHANGESET_FILE_H_
#define HEARTH_ENGINE_STRATEGY_SUPERBATCH_CHANGESET_FILE_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/io/file_system.h"
#include "engine/store/topology.h"
#include "engine/strategy/superbatch/changeset.h"

/// The plan of a cache in a file (the runtime files init and update of Ginex,
/// section 3.1): written as it is made, read batch by batch. One record for the
/// initial rows and one for each batch, each with a CRC32C; where they are is
/// kept in memory, 8 bytes a batch. A scratch format: in the machine's byte
/// order, of this version of Hearth alone, not synced.

namespace hearth::strategy {

/// Writes the file. Single-owner.
class ChangesetFileWriter final : public ChangesetSink {
 public:
  /// `files` must outlive the writer.
  static absl::StatusOr<std::unique_ptr<ChangesetFileWriter>> Create(
      io::FileSystem& files, std::string path);

  /// Removes the file if it was not finished.
  ~ChangesetFileWriter() override;

  /// Both append a record: RESOURCE_EXHAUSTED if the disk is full.
  absl::Status Initialize(absl::Span<const store::NodeId> ids) override;
  absl::Status Update(int64_t batch, const Changeset& changeset) override;

  /// Ends the file: where its records begin, and where the last one ends.
  absl::StatusOr<std::vector<uint64_t>> Finish();

 private:
  ChangesetFileWriter(io::FileSystem& files, std::string path,
                      std::unique_ptr<io::WritableFile> file);

  absl::Status Append(const Changeset& changeset);

  io::FileSystem& files_;
  const std::string path_;
  std::unique_ptr<io::WritableFile> file_;
  std::vector<uint64_t> offsets_ = {0};
  bool finished_ = false;
};

/// Reads the file. Thread-safe.
class ChangesetFileReader {
 public:
  /// `offsets` is what Finish gave. DATA_LOSS if the file has another size.
  static absl::StatusOr<std::unique_ptr<ChangesetFileReader>> Open(
      io::FileSystem& files, const std::string& path,
      std::vector<uint64_t> offsets);

  /// The initial rows. A damaged record is read once more, then DATA_LOSS
  /// naming the file and the offset.
  absl::StatusOr<std::vector<store::NodeId>> ReadInitial() const;

  /// The changeset of batch `batch`, likewise. REQUIRES: it was written.
  absl::StatusOr<Changeset> ReadUpdate(int64_t batch) const;

 private:
  ChangesetFileReader(std::unique_ptr<io::ReadableFile> file,
                      std::vector<uint64_t> offsets);

  absl::StatusOr<Changeset> Read(size_t record) const;

  const std::unique_ptr<io::ReadableFile> file_;
  const std::vector<uint64_t> offsets_;
};

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_SUPERBATCH_CHANGESET_FILE_H_
