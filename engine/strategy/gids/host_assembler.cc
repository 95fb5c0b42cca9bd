#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <utility>

#include "engine/base/status_macros.h"
#include "engine/cache/assemble.h"
#include "engine/cache/slot_arena.h"
#include "engine/strategy/gids/batch_assembler.h"

namespace hearth::strategy {
namespace {

class HostAssembler final : public BatchAssembler {
 public:
  HostAssembler(cache::SlotArena lines, const store::RowFormat& format)
      : lines_(std::move(lines)), format_(format) {}

  absl::Status Assemble(const ReadBatch& batch, float* out) override {
    const LocatedRows& rows = batch.rows;
    cache::ScatterRows(StoredRows(batch.buffer.rows()), rows.buffer_slots,
                       rows.buffer_positions, out);
    // Before any of its own rows take a line.
    cache::ScatterRows(StoredRows(lines_.rows()), rows.lines,
                       rows.line_positions, out);
    cache::ScatterRows(StoredRows(batch.missing.data()), rows.missing_positions,
                       out);
    const auto row_bytes = static_cast<size_t>(lines_.row_bytes());
    for (size_t i = 0; i < rows.entering.size(); ++i) {
      std::memcpy(lines_.row(rows.entering_lines[i]),
                  batch.missing.data() +
                      static_cast<size_t>(rows.entering[i]) * row_bytes,
                  row_bytes);
    }
    return absl::OkStatus();
  }

  void Rest() override {}

 private:
  cache::StoredRows StoredRows(const std::byte* data) const {
    return {.data = data, .dtype = format_.dtype, .dim = format_.dim};
  }

  cache::SlotArena lines_;
  const store::RowFormat format_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<BatchAssembler>> NewHostAssembler(
    int64_t num_lines, const store::RowFormat& format) {
  HEARTH_ASSIGN_OR_RETURN(
      cache::SlotArena lines,
      cache::SlotArena::Make(num_lines, format.row_bytes()));
  return std::make_unique<HostAssembler>(std::move(lines), format);
}

}  // namespace hearth::strategy
