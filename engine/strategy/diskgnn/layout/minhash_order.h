#ifndef HEARTH_ENGINE_STRATEGY_DISKGNN_LAYOUT_MINHASH_ORDER_H_
#define HEARTH_ENGINE_STRATEGY_DISKGNN_LAYOUT_MINHASH_ORDER_H_

#include <array>
#include <cstdint>
#include <vector>

namespace hearth::strategy {

/// An order in which rows that the same batches need are neighbors: MinHash
/// reordering (DiskGNN, section 5.1, algorithm 1). Every batch has a random
/// rank under each of k = 2 permutations; a row's signature is the pair of the
/// least ranks of its batches; rows are sorted by it, equal ones by number.
/// (The paper's S(v) is one minimum over all functions as it is printed, under
/// which more functions would make more collisions; as in HashOrder, which it
/// cites, each function has its own.)
///
/// The result is a pure function of seed, segment and who needs what. Linear.
/// Memory: kBytesPerRow a row, 16 bytes a batch. Single-owner; segments can be
/// ordered by several threads, each with its own.
class MinHashOrder {
 public:
  static constexpr int kNumFunctions = 2;
  static constexpr int64_t kBytesPerRow = 16;

  /// For rows 0 .. num_rows - 1 and batches 0 .. num_batches - 1 of segment
  /// `segment`. REQUIRES: both numbers are below 2^32.
  MinHashOrder(int64_t num_rows, int64_t num_batches, uint64_t seed,
               int64_t segment);

  /// `batch` needs `row`.
  void Add(int64_t batch, uint32_t row) {
    for (int j = 0; j < kNumFunctions; ++j) {
      uint32_t& least = signatures_[j][row];
      const uint32_t rank = ranks_[j][batch];
      if (rank < least) least = rank;
    }
  }

  /// places[row] = where the row stands in the order. Ends the object's use.
  std::vector<uint32_t> Places() &&;

 private:
  // The rank of each batch under each function.
  std::array<std::vector<uint32_t>, kNumFunctions> ranks_;
  // The least rank of each row; the number of batches if none needs it.
  std::array<std::vector<uint32_t>, kNumFunctions> signatures_;
};

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_DISKGNN_LAYOUT_MINHASH_ORDER_H_
