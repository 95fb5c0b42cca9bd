#ifndef HEARTH_ENGINE_INGEST_FORMATS_ID_TABLE_H_
#define HEARTH_ENGINE_INGEST_FORMATS_ID_TABLE_H_

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/hash/hash.h"
#include "absl/strings/string_view.h"

namespace hearth::ingest {

/// Longest id of a node, in bytes.
inline constexpr size_t kMaxIdBytes = 1024;

/// The distinct ids among those that are added, numbered 0, 1, 2, ... as they
/// come, within a bound of memory. An id is a string of bytes. Single-owner.
class IdTable {
 public:
  /// Has room for one edge at least, whatever the budget.
  explicit IdTable(uint64_t budget_bytes);
  IdTable(const IdTable&) = delete;
  IdTable& operator=(const IdTable&) = delete;

  /// Whether both ends of one more edge fit, however long.
  bool HasRoom() const;

  /// The number of `id`, new or not. REQUIRES: HasRoom before the first of two
  /// calls; at most kMaxIdBytes.
  uint32_t Add(absl::string_view id);

  size_t size() const { return ids_.size(); }
  absl::string_view id(uint32_t number) const { return ids_[number]; }

  /// The numbers of all ids, in ascending order of the ids' bytes.
  std::vector<uint32_t> Sorted() const;

  /// Forgets all ids.
  void Clear();

 private:
  // The set holds numbers alone; ids are looked up by what they stand for.
  struct Hash {
    using is_transparent = void;
    size_t operator()(absl::string_view id) const {
      return absl::Hash<absl::string_view>()(id);
    }
    size_t operator()(uint32_t number) const { return (*this)((*ids)[number]); }
    const std::vector<absl::string_view>* ids;
  };
  struct Equal {
    using is_transparent = void;
    absl::string_view Of(absl::string_view id) const { return id; }
    absl::string_view Of(uint32_t number) const { return (*ids)[number]; }
    template <typename A, typename B>
    bool operator()(A a, B b) const {
      return Of(a) == Of(b);
    }
    const std::vector<absl::string_view>* ids;
  };

  const size_t text_bytes_;
  const size_t max_ids_;
  /// Where the ids lie. Never moved.
  const std::unique_ptr<char[]> text_;
  size_t used_bytes_ = 0;
  std::vector<absl::string_view> ids_;
  absl::flat_hash_set<uint32_t, Hash, Equal> numbers_;
};

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_FORMATS_ID_TABLE_H_
