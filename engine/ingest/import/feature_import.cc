#include "engine/ingest/import/feature_import.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "engine/base/clock.h"
#include "engine/base/crc32c.h"
#include "engine/base/status.h"
#include "engine/io/aligned_memory.h"
#include "engine/pipeline/pipeline.h"
#include "engine/store/array_type.h"
#include "engine/store/block_checksums.h"
#include "engine/store/feature_rows.h"

namespace hearth::ingest {

absl::StatusOr<FeatureWriter> FeatureWriter::Create(
    io::FileSystem& files, const store::ArrayPlace& place, store::DType dtype,
    std::vector<int64_t> shape) {
  HEARTH_ASSIGN_OR_RETURN(
      std::unique_ptr<store::ArrayWriter> array,
      store::ArrayWriter::Create(files, place, kFeatures, dtype,
                                 std::move(shape), store::kRandomAccess));
  HEARTH_ASSIGN_OR_RETURN(
      std::unique_ptr<store::BlockChecksumWriter> row_checksums,
      NewRowChecksums(files, place, array->entry()));
  return FeatureWriter(std::move(array), std::move(row_checksums));
}

absl::Status FeatureWriter::Append(absl::Span<const std::byte> rows) {
  HEARTH_RETURN_IF_ERROR(row_checksums_->Append(rows));
  return array_->Append(rows);
}

absl::StatusOr<store::FinishedArray> FeatureWriter::Finish() {
  HEARTH_ASSIGN_OR_RETURN(store::FinishedArray array, array_->Finish());
  HEARTH_RETURN_IF_ERROR(
      row_checksums_->Finish(array.file.crc_file_crc32c).status());
  return array;
}

absl::StatusOr<std::unique_ptr<store::BlockChecksumWriter>> NewRowChecksums(
    io::FileSystem& files, const store::ArrayPlace& place,
    const store::ArrayFile& features) {
  return store::NewRowChecksumWriter(
      files, io::JoinPath(place.folder, store::RowChecksumPath(features)),
      features);
}

// A pipeline: one thread reads blocks, another converts them, and the caller's
// thread visits them. A block is at most a sixteenth of the memory limit. At
// most five blocks hold memory as read, and five in stored form.

namespace {

constexpr uint64_t kBlocksInLimit = 16;
// Capacity of each queue: enough that no thread waits for another that is
// briefly delayed, as happens when all cores are busy.
constexpr int kQueueCapacity = 3;

/// Memory blocks of one size, reused. Thread-safe.
class BlockMemory {
 public:
  explicit BlockMemory(uint64_t size_bytes) : size_bytes_(size_bytes) {}

  absl::StatusOr<io::AlignedMemory> Take() {
    {
      const absl::MutexLock lock(&mutex_);
      if (!free_.empty()) {
        io::AlignedMemory memory = std::move(free_.back());
        free_.pop_back();
        return memory;
      }
    }
    return io::AlignedMemory::Allocate(size_bytes_);
  }

  void Give(io::AlignedMemory memory) {
    const absl::MutexLock lock(&mutex_);
    free_.push_back(std::move(memory));
  }

 private:
  const uint64_t size_bytes_;
  absl::Mutex mutex_;
  std::vector<io::AlignedMemory> free_ ABSL_GUARDED_BY(mutex_);
};

/// A block in the pipeline.
class BlockItem final : public pipeline::Item {
 public:
  explicit BlockItem(int64_t number) : number(number) {}

  const int64_t number;
  /// Rows as read; after conversion, in stored form.
  RowBlock rows;
  /// Bytes of the block in the source.
  uint64_t source_bytes = 0;
  io::AlignedMemory memory;
};

class RowPipeline {
 public:
  RowPipeline(ImportContext& context, RowSource source)
      : context_(context),
        source_(std::move(source)),
        read_memory_(source_.memory_bytes()),
        converted_memory_(
            std::max(source_.block_bytes(), source_.stored_block_bytes())) {}

  absl::Status Run(const ConvertRows& convert, VisitRows visit) {
    std::vector<pipeline::Stage> stages;
    stages.push_back({.name = "read",
                      .width = 1,
                      .queue_capacity = kQueueCapacity,
                      .work = [this](int, pipeline::Item& item) {
                        return Read(static_cast<BlockItem&>(item));
                      }});
    if (convert) {
      stages.push_back({.name = "convert",
                        .width = 1,
                        .queue_capacity = kQueueCapacity,
                        .work = [&](int, pipeline::Item& item) {
                          return Convert(convert,
                                         static_cast<BlockItem&>(item));
                        }});
    }
    BlockMemory& last = convert ? converted_memory_ : read_memory_;
    return pipeline::NewPipeline(std::move(stages), "visit", Clock::Real())
        ->Run(
            source_.num_blocks(),
            [](int64_t number) { return std::make_unique<BlockItem>(number); },
            [&](std::unique_ptr<pipeline::Item> item) {
              auto& block = static_cast<BlockItem&>(*item);
              HEARTH_RETURN_IF_ERROR(visit(block.rows));
              last.Give(std::move(block.memory));
              return context_.Advance(block.source_bytes);
            },
            {});
  }

 private:
  absl::Status Read(BlockItem& block) {
    HEARTH_ASSIGN_OR_RETURN(block.memory, read_memory_.Take());
    HEARTH_ASSIGN_OR_RETURN(block.rows,
                            source_.Read(block.number, block.memory.bytes()));
    block.source_bytes = block.rows.bytes.size();
    return absl::OkStatus();
  }

  absl::Status Convert(const ConvertRows& convert, BlockItem& block) {
    HEARTH_ASSIGN_OR_RETURN(io::AlignedMemory to, converted_memory_.Take());
    HEARTH_ASSIGN_OR_RETURN(const uint64_t size,
                            convert(block.rows, to.bytes()));
    std::swap(block.memory, to);
    read_memory_.Give(std::move(to));
    block.rows.bytes = block.memory.bytes().first(size);
    return absl::OkStatus();
  }

  ImportContext& context_;
  /// Used by the reading thread only.
  RowSource source_;
  BlockMemory read_memory_;
  BlockMemory converted_memory_;
};

/// Whether all bits of the exponent are set: NaN or infinity.
template <typename Bits>
int64_t FindAllOnesExponent(absl::Span<const std::byte> elements,
                            Bits exponent) {
  const size_t count = elements.size() / sizeof(Bits);
  const auto is_bad = [&](size_t i) {
    Bits bits;
    std::memcpy(&bits, elements.data() + i * sizeof(Bits), sizeof(Bits));
    return (bits & exponent) == exponent;
  };
  // No branch per element, so that the compiler vectorizes the loop.
  bool any = false;
  for (size_t i = 0; i < count; ++i) any |= is_bad(i);
  if (!any) return -1;
  size_t first = 0;
  while (!is_bad(first)) ++first;
  return static_cast<int64_t>(first);
}

template <typename Bits>
uint64_t ZeroAllOnesExponent(absl::Span<std::byte> elements, Bits exponent) {
  uint64_t zeroed = 0;
  for (size_t at = 0; at < elements.size(); at += sizeof(Bits)) {
    Bits bits;
    std::memcpy(&bits, elements.data() + at, sizeof(Bits));
    if ((bits & exponent) != exponent) continue;
    std::memset(elements.data() + at, 0, sizeof(Bits));
    ++zeroed;
  }
  return zeroed;
}

}  // namespace

absl::Status ForEachRowBlock(ImportContext& context, ArrayReader& matrix,
                             VisitRows visit) {
  return ForEachConvertedBlock(
      context, matrix, {matrix.header().type.item_bytes, nullptr}, visit);
}

absl::Status ForEachConvertedBlock(ImportContext& context, ArrayReader& matrix,
                                   const RowConversion& conversion,
                                   VisitRows visit) {
  HEARTH_ASSIGN_OR_RETURN(
      RowSource source,
      RowSource::Open(context.files(), matrix, conversion.item_bytes,
                      context.memory_limit_bytes() / kBlocksInLimit));
  return RowPipeline(context, std::move(source)).Run(conversion.convert, visit);
}

int64_t FindNonFinite(absl::Span<const std::byte> elements,
                      store::ElementType type) {
  if (type.kind == store::ElementType::Kind::kBFloat) {
    return FindAllOnesExponent<uint16_t>(elements, 0x7F80);
  }
  switch (type.item_bytes) {
    case 2:
      return FindAllOnesExponent<uint16_t>(elements, 0x7C00);
    case 4:
      return FindAllOnesExponent<uint32_t>(elements, 0x7F800000);
    default:
      return FindAllOnesExponent<uint64_t>(elements, 0x7FF0000000000000);
  }
}

uint64_t ZeroNonFinite(absl::Span<std::byte> elements,
                       store::ElementType type) {
  if (type.kind == store::ElementType::Kind::kBFloat) {
    return ZeroAllOnesExponent<uint16_t>(elements, 0x7F80);
  }
  switch (type.item_bytes) {
    case 2:
      return ZeroAllOnesExponent<uint16_t>(elements, 0x7C00);
    case 4:
      return ZeroAllOnesExponent<uint32_t>(elements, 0x7F800000);
    default:
      return ZeroAllOnesExponent<uint64_t>(elements, 0x7FF0000000000000);
  }
}

namespace {

constexpr store::ElementType kUint16{store::ElementType::Kind::kUint, 2};
// Every whole number up to 2^24 is a float32.
constexpr double kMaxExactInt = 1 << 24;

/// INVALID_ARGUMENT for the element at `index` of a row-major block.
absl::Status ErrorInBlock(const ArrayReader& features, const RowBlock& block,
                          int64_t index, absl::string_view problem) {
  const int64_t columns = features.header().shape[1];
  return features.Error(absl::StrCat("[", block.first_row + index / columns,
                                     ", ", index % columns, "] ", problem));
}

/// INVALID_ARGUMENT for NaN or infinite values if they are refused.
absl::Status CheckFinite(const ArrayReader& features,
                         const FeatureChoices& choices, const RowBlock& block) {
  if (choices.non_finite != NonFinite::kRefuse) return absl::OkStatus();
  const int64_t bad = FindNonFinite(block.bytes, features.header().type);
  if (bad < 0) return absl::OkStatus();
  return ErrorInBlock(features, block, bad, "is NaN or infinite");
}

absl::Status Observe(const FeatureChoices& choices, const RowBlock& stored) {
  return choices.observer ? choices.observer(stored) : absl::OkStatus();
}

/// Narrows a block of float64 to float32. NaN and infinity stay.
absl::Status Narrow(const ArrayReader& features, const RowBlock& block,
                    absl::Span<std::byte> narrowed) {
  const size_t count = block.bytes.size() / sizeof(double);
  for (size_t i = 0; i < count; ++i) {
    double value;
    std::memcpy(&value, block.bytes.data() + i * sizeof(value), sizeof(value));
    const auto narrow = static_cast<float>(value);
    std::memcpy(narrowed.data() + i * sizeof(narrow), &narrow, sizeof(narrow));
    if (std::isfinite(value) && !std::isfinite(narrow)) {
      return ErrorInBlock(
          features, block, static_cast<int64_t>(i),
          absl::StrCat("is ", value, ", more than a float32 can hold"));
    }
  }
  return absl::OkStatus();
}

/// Converts a block of integers or bools to float32; INVALID_ARGUMENT for an
/// integer beyond 2^24, which would be rounded.
template <typename Stored>
absl::Status IntsToFloats(const ArrayReader& features, const RowBlock& block,
                          absl::Span<std::byte> floats) {
  const size_t count = block.bytes.size() / sizeof(Stored);
  for (size_t i = 0; i < count; ++i) {
    Stored value;
    std::memcpy(&value, block.bytes.data() + i * sizeof(value), sizeof(value));
    const auto number = static_cast<float>(value);
    std::memcpy(floats.data() + i * sizeof(number), &number, sizeof(number));
    if (std::abs(static_cast<double>(value)) > kMaxExactInt) {
      return ErrorInBlock(
          features, block, static_cast<int64_t>(i),
          absl::StrCat("is ", value,
                       ", more than a float32 can hold exactly; as float32 or "
                       "float64 it would be rounded"));
    }
  }
  return absl::OkStatus();
}

absl::Status IntsToFloats(const ArrayReader& features, const RowBlock& block,
                          absl::Span<std::byte> floats) {
  const store::ElementType type = features.header().type;
  if (type.kind == store::ElementType::Kind::kInt) {
    switch (type.item_bytes) {
      case 1:
        return IntsToFloats<int8_t>(features, block, floats);
      case 4:
        return IntsToFloats<int32_t>(features, block, floats);
      default:
        return IntsToFloats<int64_t>(features, block, floats);
    }
  }
  switch (type.item_bytes) {
    case 1:
      return IntsToFloats<uint8_t>(features, block, floats);
    case 4:
      return IntsToFloats<uint32_t>(features, block, floats);
    default:
      return IntsToFloats<uint64_t>(features, block, floats);
  }
}

void BeginFeatures(ImportContext& context, const ArrayReader& features) {
  const store::ArrayHeader& header = features.header();
  context.Begin("features", static_cast<uint64_t>(header.NumElements() *
                                                  header.type.item_bytes));
}

/// Converts blocks of the source to stored form.
class StoredRows {
 public:
  StoredRows(const ArrayReader& features, const FeatureChoices& choices)
      : features_(features), choices_(choices) {}

  /// Converts a block; see ConvertRows.
  absl::StatusOr<uint64_t> Make(const RowBlock& block,
                                absl::Span<std::byte> to) {
    const store::ElementType type = features_.header().type;
    RowBlock stored = block;
    if (!type.IsFloat()) {
      to = to.first(block.bytes.size() / static_cast<size_t>(type.item_bytes) *
                    sizeof(float));
      HEARTH_RETURN_IF_ERROR(IntsToFloats(features_, block, to));
      stored.bytes = to;
      HEARTH_RETURN_IF_ERROR(Observe(choices_, stored));
      return to.size();
    }
    HEARTH_RETURN_IF_ERROR(CheckFinite(features_, choices_, block));
    if (type.item_bytes > 4) {
      HEARTH_RETURN_IF_ERROR(Narrow(features_, block, to));
      to = to.first(block.bytes.size() / 2);
    } else {
      to = to.first(block.bytes.size());
      std::memcpy(to.data(), block.bytes.data(), to.size());
    }
    if (choices_.non_finite == NonFinite::kZero) {
      const store::ElementType narrow{type.kind,
                                      std::min<int64_t>(type.item_bytes, 4)};
      num_zeroed_ += ZeroNonFinite(to, narrow);
    }
    stored.bytes = to;
    HEARTH_RETURN_IF_ERROR(Observe(choices_, stored));
    return to.size();
  }

  uint64_t num_zeroed() const { return num_zeroed_; }

 private:
  const ArrayReader& features_;
  const FeatureChoices& choices_;
  uint64_t num_zeroed_ = 0;
};

}  // namespace

absl::Status CheckFeatureShape(const ArrayReader& features) {
  const store::ArrayHeader& header = features.header();
  if (header.shape.empty() || header.shape.size() > 2) {
    return features.Error(
        absl::StrCat("has shape ", store::FormatShape(header.shape),
                     "; (number of nodes, features of each) is needed"));
  }
  if (header.NumElements() == 0) {
    return features.Error(absl::StrCat("is empty: it has shape ",
                                       store::FormatShape(header.shape)));
  }
  return absl::OkStatus();
}

absl::Status CheckFeatureHeader(const ArrayReader& features, bool in_place) {
  const store::ArrayHeader& header = features.header();
  if (!header.type.IsFloat() && header.type.item_bytes == 2) {
    // The elements may be 16-bit floats under another name.
    return features.Error(
        absl::StrCat("has ", Name(header.type),
                     " elements; float32, float16 or float64 is needed",
                     header.type == kUint16
                         ? " (if they are bfloat16, say so with --bfloat16)"
                         : ""));
  }
  HEARTH_RETURN_IF_ERROR(CheckFeatureShape(features));
  if (in_place && (!header.type.IsFloat() || header.type.item_bytes > 4)) {
    return features.Error(
        absl::StrCat("has ", Name(header.type),
                     " elements; only float32, float16 and bfloat16 can be "
                     "used in place: import without --in-place copies them"));
  }
  if (in_place && !features.has_own_file()) {
    return features.Error(
        "is a part of a file; only files of their own can be used in place");
  }
  if (in_place && header.fortran_order) {
    return features.Error(
        "is in Fortran order; only rows in C order can be used in place");
  }
  return absl::OkStatus();
}

store::DType StoredType(const store::ArrayHeader& features) {
  if (features.type.kind == store::ElementType::Kind::kBFloat)
    return store::DType::kBFloat16;
  return features.type.IsFloat() && features.type.item_bytes == 2
             ? store::DType::kFloat16
             : store::DType::kFloat32;
}

absl::StatusOr<ImportedFeatures> CopyFeatures(ImportContext& context,
                                              ArrayReader& features,
                                              const FeatureChoices& choices,
                                              const store::ArrayPlace& place) {
  const store::ArrayHeader& header = features.header();
  HEARTH_ASSIGN_OR_RETURN(
      FeatureWriter writer,
      FeatureWriter::Create(context.files(), place, StoredType(header),
                            header.shape));
  BeginFeatures(context, features);
  StoredRows stored(features, choices);
  const RowConversion conversion{
      store::SizeOf(StoredType(header)),
      [&stored](const RowBlock& rows, absl::Span<std::byte> to) {
        return stored.Make(rows, to);
      }};
  HEARTH_RETURN_IF_ERROR(ForEachConvertedBlock(
      context, features, conversion,
      [&](const RowBlock& block) { return writer.Append(block.bytes); }));
  HEARTH_ASSIGN_OR_RETURN(store::FinishedArray array, writer.Finish());
  return ImportedFeatures{std::move(array), stored.num_zeroed()};
}

absl::StatusOr<store::FinishedArray> RegisterFeatures(
    ImportContext& context, ArrayReader& features,
    const FeatureChoices& choices, const std::string& real_path,
    const store::ArrayPlace& place) {
  const store::ArrayHeader& header = features.header();
  store::FinishedArray registered;
  store::ArrayFile& entry = registered.file;
  entry.path = real_path;
  entry.in_place = true;
  entry.dtype = StoredType(header);
  entry.shape = header.shape;
  entry.data_offset = header.data_offset;
  entry.file_size_bytes = features.info().size_bytes;
  entry.modified_ns = absl::ToUnixNanos(features.info().modified);
  HEARTH_ASSIGN_OR_RETURN(const std::vector<std::byte> header_bytes,
                          features.ReadHeaderBytes());
  entry.header_crc32c = Crc32c(header_bytes);
  entry.file_id = store::FileId(place.dataset, place.FileName(kFeatures));
  entry.crc_block_bytes = store::kRandomAccess.crc_block_bytes;
  entry.crc_path =
      absl::StrCat(place.FileName(kFeatures), store::kChecksumSuffix);
  HEARTH_ASSIGN_OR_RETURN(
      const std::unique_ptr<store::BlockChecksumWriter> checksums,
      store::BlockChecksumWriter::Create(
          context.files(), io::JoinPath(place.folder, entry.crc_path),
          entry.file_id, entry.crc_block_bytes));
  HEARTH_ASSIGN_OR_RETURN(
      const std::unique_ptr<store::BlockChecksumWriter> rows,
      NewRowChecksums(context.files(), place, entry));
  BeginFeatures(context, features);
  HEARTH_RETURN_IF_ERROR(ForEachRowBlock(
      context, features, [&](const RowBlock& block) -> absl::Status {
        HEARTH_RETURN_IF_ERROR(CheckFinite(features, choices, block));
        HEARTH_RETURN_IF_ERROR(checksums->Append(block.bytes));
        HEARTH_RETURN_IF_ERROR(rows->Append(block.bytes));
        return Observe(choices, block);
      }));
  HEARTH_RETURN_IF_ERROR(features.CheckUnchanged());
  HEARTH_ASSIGN_OR_RETURN(const store::BlockChecksumWriter::Summary summary,
                          checksums->Finish());
  entry.crc_file_crc32c = summary.file_crc32c;
  HEARTH_RETURN_IF_ERROR(rows->Finish(entry.crc_file_crc32c).status());
  registered.checksums_sha256 = summary.sha256;
  return registered;
}

}  // namespace hearth::ingest
