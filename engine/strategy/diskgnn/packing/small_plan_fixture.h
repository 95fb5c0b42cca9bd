#ifndef HEARTH_ENGINE_STRATEGY_DISKGNN_PACKING_SMALL_PLAN_FIXTURE_H_
#define HEARTH_ENGINE_STRATEGY_DISKGNN_PACKING_SMALL_PLAN_FIXTURE_H_

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/io/file_system.h"
#include "engine/io/testing/scratch_directory.h"
#include "engine/sample/mini_batch.h"
#include "engine/strategy/diskgnn/layout/packed_layout.h"
#include "engine/strategy/diskgnn/layout/segment_planner.h"
#include "engine/strategy/diskgnn/packing/pack_batches.h"

namespace hearth::strategy {

/// For tests: random batches, their spool, a feature file, and the plan that is
/// packed from them.
class SmallPlan {
 public:
  struct Shape {
    int64_t num_nodes = 400;
    int64_t num_batches = 10;
    int64_t batch_nodes = 60;
    int64_t row_bytes = 100;
    /// Where the first row begins in the feature file.
    uint64_t first_offset = 128;
    MemoryLevels::Rows memory_rows = {.gpu = 10, .cpu = 30};
    int64_t segment_size = 4;
    int64_t max_cache_rows = Segmentation::kUnbounded;
    uint64_t seed = 1;
  };

  explicit SmallPlan(const Shape& shape);

  const Shape& shape() const { return shape_; }
  const std::vector<sample::MiniBatch>& batches() const { return batches_; }
  const MemoryLevels& levels() const { return *levels_; }
  const Segmentation& segmentation() const { return segmentation_; }
  /// The layout before packing.
  const PackedLayout& layout() const { return layout_; }
  std::string folder() const { return scratch_.Path("plan"); }
  std::string features_path() const { return scratch_.Path("features"); }
  std::string spool_path() const { return scratch_.Path("samples"); }

  /// Packs into folder() through `files`; the input is read as it is. Of
  /// `options`, folder and plan_id are set here.
  absl::StatusOr<PackedLayout> Pack(io::FileSystem& files,
                                    PackOptions options = {}) const;

  /// The bytes of the row of `node`.
  std::string Row(int64_t node) const;

  /// Reads the plan in folder() through `files`, and compares every sample and
  /// every row of every batch. Returns errors of reading; INTERNAL for a
  /// difference.
  absl::Status ReadAll(io::FileSystem& files) const;

  /// The files in folder(), by name.
  std::map<std::string, std::string> Files() const;

  static constexpr uint64_t kPlanId = 77;

 private:
  absl::Status WriteInput();

  const Shape shape_;
  const io::ScratchDirectory scratch_;
  std::vector<sample::MiniBatch> batches_;
  std::unique_ptr<MemoryLevels> levels_;
  Segmentation segmentation_;
  PackedLayout layout_;
};

}  // namespace hearth::strategy

#endif  // HEARTH_ENGINE_STRATEGY_DISKGNN_PACKING_SMALL_PLAN_FIXTURE_H_
