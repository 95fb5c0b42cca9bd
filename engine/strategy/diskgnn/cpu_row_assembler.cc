#include "engine/strategy/diskgnn/cpu_row_assembler.h"

#include <utility>

#include "engine/base/status_macros.h"
#include "engine/base/team.h"
#include "engine/cache/assemble.h"
#include "engine/io/aligned_memory.h"
#include "engine/strategy/diskgnn/packing/row_image.h"

namespace hearth::strategy {
namespace {

class CpuRowAssembler final : public RowAssembler {
 public:
  CpuRowAssembler(const store::RowFormat& format, io::AlignedMemory gpu,
                  io::AlignedMemory cpu)
      : format_(format), gpu_(std::move(gpu)), cpu_(std::move(cpu)) {}

  absl::Status Assemble(const LoadedRows& batch, Team& team,
                        float* out) override {
    const AddressTable& table = batch.table;
    for (const auto& [level, rows] :
         {std::pair(&table.gpu, &gpu_), std::pair(&table.cpu, &cpu_)}) {
      cache::ScatterRows(team, RowsAt(rows->bytes().data()), level->rows,
                         level->positions, out);
    }
    cache::ScatterRows(team, RowsAt(batch.disk.data()), table.disk.positions,
                       out);
    cache::ScatterRows(team, RowsAt(batch.packed.data()), table.packed, out);
    return absl::OkStatus();
  }

  void Rest() override {}

 private:
  cache::StoredRows RowsAt(const std::byte* rows) const {
    return {.data = rows, .dtype = format_.dtype, .dim = format_.dim};
  }

  const store::RowFormat format_;
  const io::AlignedMemory gpu_;
  const io::AlignedMemory cpu_;
};

absl::StatusOr<io::AlignedMemory> Load(const LevelImages& images,
                                       const RowImage& image,
                                       const std::stop_token& stop) {
  if (image.bytes == 0) return io::AlignedMemory();
  HEARTH_ASSIGN_OR_RETURN(io::AlignedMemory memory,
                          io::AlignedMemory::Allocate(image.bytes));
  HEARTH_RETURN_IF_ERROR(LoadRowImage(images.files, image,
                                      memory.bytes().first(image.bytes), stop));
  return memory;
}

}  // namespace

absl::StatusOr<std::unique_ptr<RowAssembler>> NewCpuRowAssembler(
    const LevelImages& images, const std::stop_token& stop) {
  HEARTH_ASSIGN_OR_RETURN(io::AlignedMemory gpu,
                          Load(images, images.gpu(), stop));
  HEARTH_ASSIGN_OR_RETURN(io::AlignedMemory cpu,
                          Load(images, images.cpu(), stop));
  return std::make_unique<CpuRowAssembler>(images.format, std::move(gpu),
                                           std::move(cpu));
}

}  // namespace hearth::strategy
