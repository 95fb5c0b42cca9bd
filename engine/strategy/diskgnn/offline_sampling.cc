#include "engine/strategy/diskgnn/offline_sampling.h"

#include <memory>
#include <utility>
#include <vector>

#include "engine/base/status_macros.h"
#include "engine/sample/mini_batch.h"
#include "engine/strategy/diskgnn/packing/sample_spool.h"
#include "engine/strategy/spread_sampling.h"

namespace hearth::strategy {
namespace {

// Room is made for so much at a time.
constexpr uint64_t kRoomBytes = uint64_t{1} << 20;

}  // namespace

absl::Status SampleOffline(const OfflineSampling& sampling,
                           absl::Span<const Pass> passes,
                           absl::Span<const ShardPick> picks,
                           std::stop_token stop) {
  HEARTH_ASSIGN_OR_RETURN(
      const std::unique_ptr<SampleSpoolWriter> spool,
      SampleSpoolWriter::Create(sampling.files, sampling.path));
  // Bytes that the spool may grow to, about.
  uint64_t room = 0;
  HEARTH_RETURN_IF_ERROR(SampleShards(
      {.clock = sampling.clock,
       .source = sampling.source,
       .samplers = sampling.samplers,
       .progress = sampling.progress,
       .with_histories = true},
      passes, picks,
      [&](const ShardPick& /*pick*/,
          const sample::MiniBatch& batch) -> absl::Status {
        if (sampling.make_room && spool->size_bytes() >= room) {
          HEARTH_RETURN_IF_ERROR(sampling.make_room(kRoomBytes));
          room = spool->size_bytes() + kRoomBytes;
        }
        return spool->Append(batch);
      },
      std::move(stop)));
  return spool->Finish();
}

absl::Status SampleOffline(const OfflineSampling& sampling,
                           absl::Span<const Pass> passes,
                           std::stop_token stop) {
  return SampleOffline(sampling, passes, SpreadOver(passes, INT64_MAX),
                       std::move(stop));
}

}  // namespace hearth::strategy
