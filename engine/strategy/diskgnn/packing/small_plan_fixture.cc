#include "engine/strategy/diskgnn/packing/small_plan_fixture.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <stop_token>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/random.h"
#include "engine/base/status.h"
#include "engine/io/aligned_memory.h"
#include "engine/io/read_queue.h"
#include "engine/io/whole_file.h"
#include "engine/plan/access_trace.h"
#include "engine/plan/testing/vector_trace.h"
#include "engine/store/topology.h"
#include "engine/strategy/diskgnn/layout/layout_search.h"
#include "engine/strategy/diskgnn/packing/pack_batches.h"
#include "engine/strategy/diskgnn/packing/plan_reader.h"
#include "engine/strategy/packing/sample_spool.h"

namespace hearth::strategy {
namespace {

using sample::MiniBatch;

io::FileSystem& Posix() { return io::FileSystem::Posix(); }

// A batch of these nodes with one block, in which each seed has a few edges.
MiniBatch MakeBatch(RandomStream& random, uint64_t number,
                    std::vector<store::NodeId> nodes) {
  MiniBatch batch;
  batch.key = {.epoch_key = number / 4, .batch = number % 4};
  batch.num_seeds = (std::ssize(nodes) + 2) / 3;
  batch.input_nodes = std::move(nodes);
  for (size_t i = 0; i < batch.input_nodes.size(); ++i) {
    batch.in_degrees.push_back(static_cast<int64_t>(random.Below(70'000)));
  }
  sample::Block block;
  block.num_sources = std::ssize(batch.input_nodes);
  block.num_destinations = batch.num_seeds;
  block.indptr.push_back(0);
  for (int64_t i = 0; i < batch.num_seeds; ++i) {
    const uint64_t edges = random.Below(4);
    for (uint64_t j = 0; j < edges; ++j) {
      block.indices.push_back(static_cast<int32_t>(
          random.Below(static_cast<uint64_t>(block.num_sources))));
    }
    block.indptr.push_back(std::ssize(block.indices));
  }
  batch.blocks.push_back(std::move(block));
  return batch;
}

bool SameBlock(const sample::Block& a, const sample::Block& b) {
  return a.num_sources == b.num_sources &&
         a.num_destinations == b.num_destinations && a.indptr == b.indptr &&
         a.indices == b.indices;
}

bool SameBatch(const MiniBatch& a, const MiniBatch& b) {
  return a.num_seeds == b.num_seeds && a.input_nodes == b.input_nodes &&
         a.in_degrees == b.in_degrees &&
         std::equal(a.blocks.begin(), a.blocks.end(), b.blocks.begin(),
                    b.blocks.end(), SameBlock);
}

/// All levels of a plan, open.
class PlanReader {
 public:
  explicit PlanReader(const SmallPlan& plan) : plan_(plan) {}

  absl::Status Open(io::FileSystem& files) {
    const std::string folder = plan_.folder();
    HEARTH_ASSIGN_OR_RETURN(layout_,
                            ReadLayoutIndex(files, folder, SmallPlan::kPlanId));
    HEARTH_ASSIGN_OR_RETURN(chunks_, ChunkReader::Open(files, folder, layout_));
    HEARTH_RETURN_IF_ERROR(LoadImage(files, kGpuCacheFile, layout_.gpu_crc,
                                     layout_.gpu_cache_bytes(), gpu_));
    HEARTH_RETURN_IF_ERROR(LoadImage(files, kCpuCacheFile, layout_.cpu_crc,
                                     layout_.cpu_cache_bytes(), cpu_));
    HEARTH_ASSIGN_OR_RETURN(buffer_, io::AlignedMemory::Allocate(std::max(
                                         chunks_->sample_buffer_bytes(),
                                         chunks_->features_buffer_bytes())));
    if (layout_.rows.disk == 0) return absl::OkStatus();
    HEARTH_ASSIGN_OR_RETURN(DiskCache cache,
                            OpenDiskCache(files, folder, layout_, {}));
    cache_ = std::make_unique<DiskCache>(std::move(cache));
    HEARTH_ASSIGN_OR_RETURN(
        queues_, io::ReadQueues::Create({.kind = io::ReadQueueKind::kThreads}));
    HEARTH_ASSIGN_OR_RETURN(queue_, queues_->Take(4));
    HEARTH_ASSIGN_OR_RETURN(
        disk_, DiskCacheReader::Create(*cache_, layout_, *queue_, {}));
    return absl::OkStatus();
  }

  absl::Status CheckBatch(int64_t number) {
    const MiniBatch& expected = plan_.batches()[number];
    HEARTH_ASSIGN_OR_RETURN(
        const MiniBatch sample,
        chunks_->ReadSample(number, expected.key, buffer_.bytes()));
    if (!SameBatch(sample, expected)) return Differs(number, "sample");
    AddressTable table;
    HEARTH_ASSIGN_OR_RETURN(
        const absl::Span<const std::byte> packed,
        chunks_->ReadFeatures(number, buffer_.bytes(), table));
    std::vector<std::byte> from_disk(table.disk.rows.size() * RowBytes());
    if (disk_ != nullptr) {
      io::ReadTally tally;
      HEARTH_RETURN_IF_ERROR(disk_->Read(number, table.disk.rows,
                                         absl::MakeSpan(from_disk), {}, tally));
    }
    int64_t found = 0;
    const auto check = [&](const std::byte* row, int32_t position) {
      const std::string stored(reinterpret_cast<const char*>(row), RowBytes());
      found += stored == plan_.Row(expected.input_nodes[position]);
    };
    CheckImage(table.gpu, gpu_, check);
    CheckImage(table.cpu, cpu_, check);
    for (size_t i = 0; i < table.disk.rows.size(); ++i) {
      check(from_disk.data() + i * RowBytes(), table.disk.positions[i]);
    }
    for (size_t i = 0; i < table.packed.size(); ++i) {
      check(packed.data() + i * RowBytes(), table.packed[i]);
    }
    if (found != std::ssize(expected.input_nodes)) {
      return Differs(number, "row");
    }
    return absl::OkStatus();
  }

 private:
  size_t RowBytes() const { return static_cast<size_t>(layout_.row_bytes); }

  template <typename Check>
  void CheckImage(const LevelAddresses& level, const io::AlignedMemory& image,
                  Check check) const {
    for (size_t i = 0; i < level.rows.size(); ++i) {
      check(image.bytes().data() + level.rows[i] * layout_.row_bytes,
            level.positions[i]);
    }
  }

  absl::Status LoadImage(io::FileSystem& files, const char* name, uint32_t crc,
                         uint64_t bytes, io::AlignedMemory& image) const {
    HEARTH_ASSIGN_OR_RETURN(image, io::AlignedMemory::Allocate(bytes));
    return LoadRowImage(files,
                        {.path = io::JoinPath(plan_.folder(), name),
                         .crc = crc,
                         .bytes = bytes},
                        image.bytes(), std::stop_token());
  }

  static absl::Status Differs(int64_t batch, const char* what) {
    return absl::InternalError(
        absl::StrCat("batch ", batch, " has another ", what));
  }

  const SmallPlan& plan_;
  PackedLayout layout_;
  std::unique_ptr<ChunkReader> chunks_;
  io::AlignedMemory gpu_;
  io::AlignedMemory cpu_;
  io::AlignedMemory buffer_;
  std::unique_ptr<DiskCache> cache_;
  std::unique_ptr<io::ReadQueues> queues_;
  io::ReadQueues::Handle queue_;
  std::unique_ptr<DiskCacheReader> disk_;
};

}  // namespace

SmallPlan::SmallPlan(const Shape& shape) : shape_(shape) {
  RandomStream random(shape.seed, RandomPurpose::kGenerator);
  const plan::VectorTrace::Batches nodes = plan::VectorTrace::Random(
      random, shape.num_nodes, shape.num_batches, shape.batch_nodes);
  for (const auto& batch : nodes) {
    batches_.push_back(MakeBatch(random, batches_.size(), batch));
  }
  plan::VectorTrace trace(nodes);
  levels_ = std::make_unique<MemoryLevels>(*MemoryLevels::Choose(
      *plan::AccessCounts::Count(trace, shape.num_nodes, {}),
      shape.memory_rows));
  segmentation_ = {.num_batches = shape.num_batches,
                   .segment_size = shape.segment_size,
                   .max_rows = shape.max_cache_rows,
                   .seed = shape.seed};
  // If this fails, opening below fails, too.
  WriteInput().IgnoreError();
  const auto spool = *SampleSpool::Open(Posix(), spool_path());
  layout_ = *MeasureLayout({.trace = spool.get(),
                            .levels = levels_.get(),
                            .row_bytes = shape.row_bytes,
                            .sample_bytes = spool->sizes()},
                           segmentation_, {});
}

absl::Status SmallPlan::WriteInput() {
  std::string features(shape_.first_offset, '#');
  for (int64_t node = 0; node < shape_.num_nodes; ++node) {
    features += Row(node);
  }
  HEARTH_RETURN_IF_ERROR(
      io::WriteFileAtomically(Posix(), features_path(), features));
  HEARTH_ASSIGN_OR_RETURN(const auto writer,
                          SampleSpoolWriter::Create(Posix(), spool_path()));
  for (const MiniBatch& batch : batches_) {
    HEARTH_RETURN_IF_ERROR(writer->Append(batch));
  }
  return writer->Finish();
}

std::string SmallPlan::Row(int64_t node) const {
  RandomStream random(shape_.seed, RandomPurpose::kGenerator, 1,
                      static_cast<uint64_t>(node));
  std::string row(static_cast<size_t>(shape_.row_bytes), '\0');
  for (char& byte : row) byte = static_cast<char>(random.Below(256));
  return row;
}

absl::StatusOr<PackedLayout> SmallPlan::Pack(io::FileSystem& files,
                                             PackOptions options) const {
  HEARTH_ASSIGN_OR_RETURN(const auto spool,
                          SampleSpool::Open(Posix(), spool_path()));
  HEARTH_ASSIGN_OR_RETURN(const auto features,
                          Posix().OpenForScan(features_path()));
  options.folder = folder();
  options.plan_id = kPlanId;
  return PackBatches(
      files,
      {.trace = spool.get(),
       .levels = levels_.get(),
       .samples = spool.get(),
       .features = features.get(),
       .rows = {.first_offset = shape_.first_offset,
                .row_bytes = static_cast<uint32_t>(shape_.row_bytes),
                .num_rows = shape_.num_nodes}},
      segmentation_, layout_, options);
}

absl::Status SmallPlan::ReadAll(io::FileSystem& files) const {
  PlanReader reader(*this);
  HEARTH_RETURN_IF_ERROR(reader.Open(files));
  for (int64_t batch = 0; batch < shape_.num_batches; ++batch) {
    HEARTH_RETURN_IF_ERROR(reader.CheckBatch(batch));
  }
  return absl::OkStatus();
}

std::map<std::string, std::string> SmallPlan::Files() const {
  std::map<std::string, std::string> files;
  const auto names = Posix().List(folder());
  if (!names.ok()) return files;
  for (const std::string& name : *names) {
    files[name] = *io::ReadWholeFile(Posix(), io::JoinPath(folder(), name),
                                     uint64_t{1} << 32);
  }
  return files;
}

}  // namespace hearth::strategy
