#include "engine/ingest/import/id_import.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/base/status_macros.h"
#include "engine/store/array_header.h"
#include "engine/store/dtype.h"
#include "engine/store/shape.h"

namespace hearth::ingest {
namespace {

constexpr int64_t kBlockBytes = 256 << 10;
constexpr store::ElementType kIdType{store::ElementType::Kind::kInt, 8};
constexpr store::ElementType kTextType{store::ElementType::Kind::kUint, 1};

absl::Status CheckHeader(const ArrayReader& array, store::ElementType type,
                         const std::vector<int64_t>& shape) {
  const store::ArrayHeader& header = array.header();
  if (header.type == type && header.shape == shape) return absl::OkStatus();
  return array.Error(absl::StrCat(
      "is ", Name(header.type), " ", store::FormatShape(header.shape), "; ",
      Name(type), " ", store::FormatShape(shape), " is needed"));
}

/// Copies an array to `what`; `visit` sees its blocks.
absl::StatusOr<store::FinishedArray> Copy(
    ImportContext& context, ArrayReader& array, const store::ArrayPlace& place,
    absl::string_view what, store::DType dtype,
    absl::FunctionRef<absl::Status(absl::Span<const std::byte>)> visit) {
  const int64_t count = array.header().shape[0];
  const int64_t item_bytes = array.header().type.item_bytes;
  const int64_t block_items = kBlockBytes / item_bytes;
  HEARTH_ASSIGN_OR_RETURN(
      const std::unique_ptr<store::ArrayWriter> writer,
      store::ArrayWriter::Create(context.files(), place, what, dtype, {count},
                                 store::kStreamAccess));
  context.Begin("ids", static_cast<uint64_t>(count * item_bytes));
  std::vector<std::byte> block;
  for (int64_t first = 0; first < count; first += block_items) {
    block.resize(
        static_cast<size_t>(std::min(block_items, count - first) * item_bytes));
    HEARTH_RETURN_IF_ERROR(array.ReadBytes(first, absl::MakeSpan(block)));
    HEARTH_RETURN_IF_ERROR(visit(block));
    HEARTH_RETURN_IF_ERROR(writer->Append(block));
    HEARTH_RETURN_IF_ERROR(context.Advance(block.size()));
  }
  return writer->Finish();
}

}  // namespace

absl::Status CheckIdHeader(const ArrayReader& ids, int64_t num_nodes) {
  return CheckHeader(ids, kIdType, {num_nodes});
}

absl::Status CheckIdTextHeader(const ArrayReader& text) {
  const std::vector<int64_t>& shape = text.header().shape;
  return CheckHeader(text, kTextType, {shape.empty() ? 0 : shape[0]});
}

absl::StatusOr<store::FinishedArray> CopyIds(ImportContext& context,
                                             ArrayReader& ids,
                                             const store::ArrayPlace& place) {
  return Copy(context, ids, place, "ids", store::DType::kInt64,
              [](absl::Span<const std::byte>) { return absl::OkStatus(); });
}

absl::StatusOr<store::FinishedArray> CopyIdText(
    ImportContext& context, ArrayReader& text, int64_t num_nodes,
    const store::ArrayPlace& place) {
  constexpr std::byte kEnd{'\n'};
  int64_t num_ids = 1;
  int64_t position = 0;
  std::byte last = kEnd;
  const auto check = [&](absl::Span<const std::byte> block) {
    for (const std::byte byte : block) {
      if (byte == kEnd && last == kEnd) {
        return text.ErrorAt(position, "is a line feed without an id before it");
      }
      if (byte == kEnd) ++num_ids;
      last = byte;
      ++position;
    }
    return absl::OkStatus();
  };
  HEARTH_ASSIGN_OR_RETURN(
      store::FinishedArray copy,
      Copy(context, text, place, "id_text", store::DType::kUint8, check));
  if (last == kEnd) return text.Error("ends without an id");
  if (num_ids == num_nodes) return copy;
  return text.Error(
      absl::StrCat("has ", num_ids, " ids; there are ", num_nodes, " nodes"));
}

}  // namespace hearth::ingest
