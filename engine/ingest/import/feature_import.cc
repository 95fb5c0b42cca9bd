#include "engine/ingest/import/feature_import.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/time.h"
#include "engine/base/crc32c.h"
#include "engine/base/status_macros.h"
#include "engine/ingest/import/feature_writer.h"
#include "engine/ingest/import/row_blocks.h"
#include "engine/store/block_checksums.h"
#include "engine/store/shape.h"

namespace hearth::ingest {
namespace {

constexpr store::ElementType kUint16{store::ElementType::Kind::kUint, 2};
// Every whole number up to it is a float32.
constexpr double kMaxExactInt = 1 << 24;

/// INVALID_ARGUMENT for the element at `index` of a row-major block.
absl::Status ErrorInBlock(const ArrayReader& features, const RowBlock& block,
                          int64_t index, absl::string_view problem) {
  const int64_t columns = features.header().shape[1];
  return features.Error(absl::StrCat("[", block.first_row + index / columns,
                                     ", ", index % columns, "] ", problem));
}

/// INVALID_ARGUMENT if values are NaN or infinite that must not be.
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

/// Narrows a block of float64. What is not finite stays so.
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

/// Converts a block of integers or bools; those beyond 2^24 would be rounded.
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

/// Makes of the source's blocks what is stored of them.
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
    // They may be floats of 16 bits by another name.
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
