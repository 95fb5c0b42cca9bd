#ifndef HEARTH_ENGINE_PLAN_PARTITION_NODE_IDS_H_
#define HEARTH_ENGINE_PLAN_PARTITION_NODE_IDS_H_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>

#include "engine/store/topology.h"

/// Node ids at rest: little-endian, of 4 bytes where they fit, else of 8.

namespace hearth::plan {

/// Bytes of an id in a graph of `nodes`, as the import has it.
inline int IdBytes(int64_t nodes) {
  return nodes <= int64_t{std::numeric_limits<int32_t>::max()} ? 4 : 8;
}

namespace id_internal {

template <typename Id>
void Decode(const std::byte* from, size_t count, store::NodeId* to) {
  for (size_t i = 0; i < count; ++i) {
    Id id;
    std::memcpy(&id, from + i * sizeof(Id), sizeof(Id));
    to[i] = id;
  }
}

template <typename Id>
void Encode(const store::NodeId* from, size_t count, std::byte* to) {
  for (size_t i = 0; i < count; ++i) {
    const auto id = static_cast<Id>(from[i]);
    std::memcpy(to + i * sizeof(Id), &id, sizeof(Id));
  }
}

}  // namespace id_internal

inline void DecodeIds(const std::byte* from, size_t count, int id_bytes,
                      store::NodeId* to) {
  if (id_bytes == 4) {
    id_internal::Decode<int32_t>(from, count, to);
  } else {
    id_internal::Decode<int64_t>(from, count, to);
  }
}

inline void EncodeIds(const store::NodeId* from, size_t count, int id_bytes,
                      std::byte* to) {
  if (id_bytes == 4) {
    id_internal::Encode<int32_t>(from, count, to);
  } else {
    id_internal::Encode<int64_t>(from, count, to);
  }
}

}  // namespace hearth::plan

#endif  // HEARTH_ENGINE_PLAN_PARTITION_NODE_IDS_H_
