#include "engine/strategy/packing/append_rows.h"

#include <cstddef>
#include <cstring>

#include "engine/base/status.h"

namespace hearth::strategy {

absl::Status AppendRows(const FeatureScan::Partition& partition,
                        absl::Span<const uint32_t> nodes, int64_t row_bytes,
                        int64_t region, RegionWriter& writer, int worker) {
  const auto bytes = static_cast<uint64_t>(row_bytes);
  while (!nodes.empty()) {
    const absl::Span<std::byte> place =
        writer.Begin(region, nodes.size() * bytes, worker);
    const size_t count = place.size() / bytes;
    if (count == 0) {
      return absl::FailedPreconditionError(
          "packing batches: more rows were found than were measured");
    }
    for (size_t i = 0; i < count; ++i) {
      std::memcpy(place.data() + i * bytes,
                  partition.rows + uint64_t{nodes[i]} * bytes, bytes);
    }
    HEARTH_RETURN_IF_ERROR(writer.Commit(region, count * bytes, worker));
    nodes.remove_prefix(count);
  }
  return absl::OkStatus();
}

}  // namespace hearth::strategy
