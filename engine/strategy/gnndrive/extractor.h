#ifndef HEARTH_ENGINE_STRATEGY_GNNDRIVE_EXTRACTOR_H_
#define HEARTH_ENGINE_STRATEGY_GNNDRIVE_EXTRACTOR_H_

#include <cstdint>
#include <memory>
#include <stop_token>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/cache/claim_turns.h"
#include "engine/cache/feature_buffer.h"
#include "engine/io/read_queues.h"
#include "engine/io/row_reader.h"
#include "engine/store/dataset.h"
#include "engine/strategy/sampled_batch.h"

namespace hearth::strategy {

/// A batch with its node alias list and what reading its rows took.
class GnndriveBatch final : public SampledBatch {
 public:
  using SampledBatch::SampledBatch;

  cache::FeatureBuffer::Pins& pins() { return pins_; }
  const cache::FeatureBuffer::Pins& pins() const { return pins_; }
  io::ReadTally& tally() { return tally_; }
  const io::ReadTally& tally() const { return tally_; }

 private:
  cache::FeatureBuffer::Pins pins_;
  io::ReadTally tally_;
};

/// One of GNNDrive's extractors (section 4.2): brings the rows of a batch into
/// the feature buffer, in two phases that overlap: from disk into staging
/// memory, with as many reads in flight as its queue is deep, and from there,
/// as each read completes, into the slots. Rows of less than a sector, and
/// neighbors on disk, are read together (section 4.4). Single-owner: one
/// thread's.
class Extractor {
 public:
  /// `features` and `queues` must outlive it. Errors as
  /// io::ReadQueues::Take and io::RowReader::Create.
  static absl::StatusOr<std::unique_ptr<Extractor>> Create(
      const store::StoredFeatures& features, io::ReadQueues& queues,
      size_t io_depth);

  /// Algorithm 1 for `batch`, claiming in its turn: when it returns OK, the
  /// rows of all input nodes are in `buffer`, pinned by the batch.
  /// RESOURCE_EXHAUSTED if the batch has more rows than the buffer has slots,
  /// CANCELLED if `stop` is requested, else what reading gave, its own or
  /// another extractor's of a row that both need.
  absl::Status Extract(cache::FeatureBuffer& buffer, cache::ClaimTurns& turns,
                       std::stop_token stop, GnndriveBatch& batch);

 private:
  Extractor(io::ReadQueues::Handle queue,
            std::unique_ptr<io::RowReader> reader);

  absl::Status LoadMissing(std::stop_token stop, GnndriveBatch& batch);

  // Goes after the reader, which uses it.
  const io::ReadQueues::Handle queue_;
  const std::unique_ptr<io::RowReader> reader_;
  std::vector<int64_t> rows_;
};

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_GNNDRIVE_EXTRACTOR_H_
