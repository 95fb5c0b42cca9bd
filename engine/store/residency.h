#ifndef HEARTH_ENGINE_STORE_RESIDENCY_H_
#define HEARTH_ENGINE_STORE_RESIDENCY_H_

namespace hearth::store {

/// The place of an array's bytes while it is used.
enum class Residency {
  kMemory,               // Read whole into anonymous memory, 64-byte aligned.
  kMapped,               // Mapped from its file; the page cache decides.
  kMappedWithReadAhead,  // The same; the kernel reads pages ahead.
};

/// The places of a topology's arrays. In memory, the indptr (8 bytes a node) is
/// never waited for, while the far larger indices may stay mapped.
struct TopologyResidency {
  /// Both in the same place. Implicit, as the usual case.
  TopologyResidency(Residency both)  // NOLINT(google-explicit-constructor)
      : indptr(both), indices(both) {}
  TopologyResidency(Residency indptr, Residency indices)
      : indptr(indptr), indices(indices) {}

  Residency indptr;
  Residency indices;
};

}  // namespace hearth::store

#endif  // HEARTH_ENGINE_STORE_RESIDENCY_H_
