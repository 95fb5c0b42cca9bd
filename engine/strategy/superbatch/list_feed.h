#ifndef HEARTH_ENGINE_STRATEGY_SUPERBATCH_LIST_FEED_H_
#define HEARTH_ENGINE_STRATEGY_SUPERBATCH_LIST_FEED_H_

#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/io/row_reader.h"
#include "engine/sample/stored_sampler.h"
#include "engine/strategy/strategy.h"

namespace hearth::strategy {

/// Gives the batches of a run of sampling, in their order, the lists that they
/// hold beside the neighbor cache. Belongs to one thread, but for Interrupt.
class ListFeed {
 public:
  virtual ~ListFeed() = default;

  /// Those of batch `batch` of the pass; none, where there are none for it. The
  /// one before, or the same, was asked for last. Waits until batches before
  /// have given back what there is no room for besides. CANCELLED after
  /// Interrupt.
  virtual absl::StatusOr<sample::BatchLists> Take(int64_t batch) = 0;

  /// Makes Take return soon. Any thread may call it.
  virtual void Interrupt() = 0;

  /// The tally of what was read for it.
  virtual const io::ReadTally& tally() const = 0;
};

/// A part of the neighbor budget that single batches use, because it is known
/// which batches come, and that the neighbor cache does without. Belongs to the
/// strategy's thread.
class ListSource {
 public:
  virtual ~ListSource() = default;

  /// The level's name in PassReport::list_hits.
  virtual std::string level() const = 0;

  /// Chooses how many bytes of lists batches hold at most, of `budget_bytes`,
  /// given the first passes that there will be. Called once, first.
  virtual uint64_t Reserve(absl::Span<const Pass> passes, uint64_t budget_bytes,
                           const PreparationListener& listener) = 0;

  /// For sampling batches of `pass`, which outlives it, as this does. Nothing
  /// is held any more once the feed, and what it gave, are gone.
  virtual std::unique_ptr<ListFeed> NewFeed(const Pass& pass) = 0;
};

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_SUPERBATCH_LIST_FEED_H_
