#include "engine/ingest/export/array_output.h"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"
#include "engine/ingest/import/feature_import.h"
#include "engine/ingest/import/label_import.h"
#include "engine/ingest/import/row_blocks.h"
#include "engine/store/float16.h"

namespace hearth::ingest {
namespace {

constexpr int64_t kBlockElements = 64 << 10;
constexpr int64_t kUnlabeled = -1;

template <typename Bits, typename ToFloat>
void Convert(absl::Span<const std::byte> from, std::vector<float>& to,
             ToFloat to_float) {
  to.resize(from.size() / sizeof(Bits));
  for (size_t i = 0; i < to.size(); ++i) {
    Bits bits;
    std::memcpy(&bits, from.data() + i * sizeof(Bits), sizeof(Bits));
    to[i] = static_cast<float>(to_float(bits));
  }
}

void ToFloat32(absl::Span<const std::byte> from, store::ElementType type,
               std::vector<float>& to) {
  if (type.kind == store::ElementType::Kind::kBFloat) {
    return Convert<uint16_t>(from, to, store::BFloat16ToFloat);
  }
  const auto same = [](auto value) { return value; };
  if (type.item_bytes == 2)
    return Convert<uint16_t>(from, to, store::Float16ToFloat);
  if (type.item_bytes == 4) return Convert<float>(from, to, same);
  Convert<double>(from, to, same);
}

/// Calls `visit` with the first position and the count of each block.
absl::Status ForEachBlock(
    ImportContext& context, int64_t count,
    absl::FunctionRef<absl::Status(int64_t, int64_t)> visit) {
  for (int64_t first = 0; first < count; first += kBlockElements) {
    const int64_t size = std::min(kBlockElements, count - first);
    HEARTH_RETURN_IF_ERROR(visit(first, size));
    HEARTH_RETURN_IF_ERROR(
        context.Advance(static_cast<uint64_t>(size) * sizeof(int64_t)));
  }
  return absl::OkStatus();
}

absl::Status ReadFloatLabels(ArrayReader& labels, int64_t first,
                             absl::Span<int64_t> out) {
  std::vector<double> floats(out.size());
  HEARTH_RETURN_IF_ERROR(labels.ReadFloats(first, absl::MakeSpan(floats)));
  for (size_t i = 0; i < out.size(); ++i) {
    const double value = floats[i];
    if (std::isnan(value)) {
      out[i] = kUnlabeled;
    } else if (value >= kUnlabeled && value < kMaxClasses &&
               value == std::floor(value)) {
      out[i] = static_cast<int64_t>(value);
    } else {
      return labels.ErrorAt(first + static_cast<int64_t>(i),
                            absl::StrCat("is ", value, ", no label"));
    }
  }
  return absl::OkStatus();
}

absl::Status ReadIntegerLabels(ArrayReader& labels, int64_t first,
                               absl::Span<int64_t> out) {
  HEARTH_RETURN_IF_ERROR(labels.ReadInts(first, out));
  for (size_t i = 0; i < out.size(); ++i) {
    if (out[i] >= kUnlabeled && out[i] < kMaxClasses) continue;
    return labels.ErrorAt(first + static_cast<int64_t>(i),
                          absl::StrCat("is ", out[i], ", no label"));
  }
  return absl::OkStatus();
}

/// Writes the features as float16.
absl::Status NarrowFeatures(ImportContext& context, ArrayReader& features,
                            ByteSink& sink) {
  std::vector<uint16_t> narrow;
  const auto write = [&](int64_t first, absl::Span<const float> floats) {
    narrow.resize(floats.size());
    for (size_t i = 0; i < floats.size(); ++i) {
      narrow[i] = store::FloatToFloat16(floats[i]);
      if (!std::isinf(store::Float16ToFloat(narrow[i]))) continue;
      return features.ErrorAt(
          first + static_cast<int64_t>(i),
          absl::StrCat("is ", floats[i], ", which float16 cannot hold"));
    }
    return sink.AppendValues<uint16_t>(narrow);
  };
  return ForEachFeatureBlock(context, features, write);
}

}  // namespace

absl::Status ForEachFeatureBlock(
    ImportContext& context, ArrayReader& features,
    absl::FunctionRef<absl::Status(int64_t, absl::Span<const float>)> visit) {
  const int64_t columns = features.header().shape[1];
  std::vector<float> floats;
  return ForEachRowBlock(context, features, [&](const RowBlock& block) {
    ToFloat32(block.bytes, features.header().type, floats);
    return visit(block.first_row * columns, floats);
  });
}

absl::Status WriteFeatures(ImportContext& context, ArrayReader& features,
                           store::DType wanted, ByteSink& sink) {
  const store::ElementType type = features.header().type;
  if (wanted == StoredType(features.header()) && type.item_bytes <= 4) {
    return ForEachRowBlock(context, features, [&](const RowBlock& block) {
      return sink.Append(block.bytes);
    });
  }
  if (wanted == store::DType::kFloat16)
    return NarrowFeatures(context, features, sink);
  return ForEachFeatureBlock(context, features,
                             [&](int64_t, absl::Span<const float> floats) {
                               return sink.AppendValues<float>(floats);
                             });
}

absl::Status WriteIntegers(ImportContext& context, ArrayReader& integers,
                           store::DType wanted, ByteSink& sink) {
  std::vector<int64_t> block;
  std::vector<int32_t> narrow;
  const auto write = [&](int64_t first, int64_t count) -> absl::Status {
    block.resize(static_cast<size_t>(count));
    HEARTH_RETURN_IF_ERROR(integers.ReadInts(first, absl::MakeSpan(block)));
    if (wanted == store::DType::kInt64)
      return sink.AppendValues<int64_t>(block);
    narrow.resize(block.size());
    for (size_t i = 0; i < block.size(); ++i) {
      narrow[i] = static_cast<int32_t>(block[i]);
      if (narrow[i] == block[i]) continue;
      return integers.ErrorAt(first + static_cast<int64_t>(i),
                              absl::StrCat("is ", block[i], ", no int32"));
    }
    return sink.AppendValues<int32_t>(narrow);
  };
  return ForEachBlock(context, integers.header().NumElements(), write);
}

absl::Status ReadLabels(ArrayReader& labels, int64_t first,
                        absl::Span<int64_t> out) {
  return labels.header().type.IsFloat() ? ReadFloatLabels(labels, first, out)
                                        : ReadIntegerLabels(labels, first, out);
}

absl::Status ForEachLabelBlock(
    ImportContext& context, ArrayReader& labels,
    absl::FunctionRef<absl::Status(absl::Span<const int64_t>)> visit) {
  std::vector<int64_t> block;
  const auto read = [&](int64_t first, int64_t count) -> absl::Status {
    block.resize(static_cast<size_t>(count));
    HEARTH_RETURN_IF_ERROR(ReadLabels(labels, first, absl::MakeSpan(block)));
    return visit(block);
  };
  return ForEachBlock(context, labels.header().NumElements(), read);
}

absl::Status WriteLabels(ImportContext& context, ArrayReader& labels,
                         store::DType wanted, ByteSink& sink) {
  std::vector<float> floats;
  return ForEachLabelBlock(
      context, labels, [&](absl::Span<const int64_t> block) {
        if (wanted == store::DType::kInt64)
          return sink.AppendValues<int64_t>(block);
        floats.clear();
        for (const int64_t label : block) {
          floats.push_back(label < 0 ? std::numeric_limits<float>::quiet_NaN()
                                     : static_cast<float>(label));
        }
        return sink.AppendValues<float>(floats);
      });
}

absl::StatusOr<int64_t> CountClasses(ImportContext& context,
                                     ArrayReader& labels) {
  int64_t most = kUnlabeled;
  HEARTH_RETURN_IF_ERROR(
      ForEachLabelBlock(context, labels, [&](absl::Span<const int64_t> block) {
        most = std::max(most, *std::max_element(block.begin(), block.end()));
        return absl::OkStatus();
      }));
  return most + 1;
}

absl::Status ForEachEdgeBlock(
    ImportContext& context, EdgeSource& edges,
    absl::FunctionRef<absl::Status(const EdgeBlock&)> visit) {
  EdgeBlock block;
  return ForEachBlock(context, edges.num_edges(),
                      [&](int64_t first, int64_t count) -> absl::Status {
                        HEARTH_RETURN_IF_ERROR(edges.Read(first, count, block));
                        return visit(block);
                      });
}

absl::Status WriteEdgeRows(ImportContext& context, EdgeSource& edges,
                           ByteSink& sink) {
  HEARTH_RETURN_IF_ERROR(
      ForEachEdgeBlock(context, edges, [&](const EdgeBlock& block) {
        return sink.AppendValues<int64_t>(block.sources);
      }));
  return ForEachEdgeBlock(context, edges, [&](const EdgeBlock& block) {
    return sink.AppendValues<int64_t>(block.destinations);
  });
}

}  // namespace hearth::ingest
