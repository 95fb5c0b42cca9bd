#ifndef HEARTH_ENGINE_INGEST_IMPORT_NON_FINITE_H_
#define HEARTH_ENGINE_INGEST_IMPORT_NON_FINITE_H_

namespace hearth::ingest {

/// Treatment by an import of feature values that are NaN or infinite.
enum class NonFinite {
  /// It fails, naming the first.
  kRefuse,
  kKeep,
  /// They become 0.
  kZero,
};

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_IMPORT_NON_FINITE_H_
