#ifndef HEARTH_ENGINE_STRATEGY_PACKING_SAMPLE_SPOOL_H_
#define HEARTH_ENGINE_STRATEGY_PACKING_SAMPLE_SPOOL_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/io/file_system.h"
#include "engine/plan/access_trace.h"
#include "engine/sample/mini_batch.h"
#include "engine/store/topology.h"

/// Encoded samples of a trace, and the files in which offline sampling keeps
/// them.

namespace hearth::strategy {

/// The graph samples of a trace's batches as bytes (EncodeBatch), from which
/// packing writes chunks.
class EncodedSamples {
 public:
  virtual ~EncodedSamples() = default;

  /// [num_batches] bytes of each sample.
  virtual absl::Span<const uint64_t> sizes() const = 0;

  /// Reads the sample of batch `batch` into `out`, which has its size.
  /// Thread-safe.
  virtual absl::Status Read(int64_t batch, absl::Span<std::byte> out) = 0;
};

/// A sample spool: the samples that offline sampling leaves for planning. The
/// file `path` has all batches as EncodeBatch makes them, concatenated;
/// `path`.index has their places. The index is written last: if it exists, the
/// samples are whole and durable, so that a preparation after a kill continues
/// from there.

/// Writes a spool. Single-owner.
class SampleSpoolWriter {
 public:
  /// Replaces a spool at `path`. `files` outlives the writer.
  static absl::StatusOr<std::unique_ptr<SampleSpoolWriter>> Create(
      io::FileSystem& files, std::string path);

  /// Removes an unfinished spool.
  ~SampleSpoolWriter();

  /// Appends the next batch. RESOURCE_EXHAUSTED if the disk is full. After an
  /// error only destroy the writer.
  absl::Status Append(const sample::MiniBatch& batch);

  /// Makes the spool durable.
  absl::Status Finish();

  int64_t num_batches() const { return std::ssize(records_); }
  /// Bytes of all batches so far.
  uint64_t size_bytes() const { return end_; }

 private:
  friend class SampleSpool;

  struct Record {
    uint64_t epoch_key;
    uint64_t batch;
    uint64_t offset;
    uint64_t total_bytes;
    // Bytes at the beginning that hold the input nodes.
    uint64_t nodes_bytes;
  };

  SampleSpoolWriter(io::FileSystem& files, std::string path,
                    std::unique_ptr<io::WritableFile> file);

  io::FileSystem& files_;
  const std::string path_;
  std::unique_ptr<io::WritableFile> file_;
  std::vector<Record> records_;
  uint64_t end_ = 0;
  bool finished_ = false;
};

/// Reads a spool: as a trace in the order of writing, and as encoded samples.
/// Memory: 48 bytes a batch, and the nodes of one. Single-owner, except Read.
class SampleSpool final : public plan::AccessTrace, public EncodedSamples {
 public:
  /// NOT_FOUND if there is no finished spool at `path`; DATA_LOSS, naming the
  /// file, if its index is damaged or the file has another size.
  static absl::StatusOr<std::unique_ptr<SampleSpool>> Open(
      io::FileSystem& files, const std::string& path);

  /// Removes a spool, finished or not; OK if there is none.
  static absl::Status Remove(io::FileSystem& files, const std::string& path);

  int64_t num_batches() const override { return std::ssize(records_); }

  /// The input nodes of a batch. Damaged bytes are read once more, then
  /// DATA_LOSS naming the file, the batch and the offset.
  absl::StatusOr<absl::Span<const store::NodeId>> Load(int64_t batch) override;

  absl::Span<const uint64_t> sizes() const override { return sizes_; }

  /// Checked as Load. Thread-safe.
  absl::Status Read(int64_t batch, absl::Span<std::byte> out) override;

 private:
  using Record = SampleSpoolWriter::Record;

  SampleSpool(std::unique_ptr<io::ReadableFile> file,
              std::vector<Record> records);

  sample::BatchKey KeyOf(int64_t batch) const {
    return {.epoch_key = records_[batch].epoch_key,
            .batch = records_[batch].batch};
  }
  absl::Status AtBatch(int64_t batch, const absl::Status& status) const;

  const std::unique_ptr<io::ReadableFile> file_;
  const std::vector<Record> records_;
  std::vector<uint64_t> sizes_;
  // The batch whose input nodes were loaded last, or -1: planning loads the
  // same batch several times in a row.
  int64_t loaded_ = -1;
  std::vector<std::byte> bytes_;
  std::vector<store::NodeId> nodes_;
};

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_PACKING_SAMPLE_SPOOL_H_
