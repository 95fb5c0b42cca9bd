#ifndef HEARTH_ENGINE_STORE_RESIDENCY_H_
#define HEARTH_ENGINE_STORE_RESIDENCY_H_

namespace hearth::store {

/// Where an array's bytes stand while it is used.
enum class Residency {
  kMemory,  // Read whole into anonymous memory, 64-byte aligned.
  kMapped,  // Mapped from its file; the page cache decides.
};

}  // namespace hearth::store

#endif  // HEARTH_ENGINE_STORE_RESIDENCY_H_
