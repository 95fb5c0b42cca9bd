#include "engine/ingest/import/node_import.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/strings/strip.h"
#include "absl/types/span.h"
#include "engine/base/status.h"
#include "engine/store/array_type.h"
#include "engine/store/npy.h"

namespace hearth::ingest {

namespace {

constexpr int64_t kBlockElements = 64 << 10;

/// Reason why `node` cannot be the next member of a part; empty if it can.
std::string ProblemWith(int64_t node, const SplitPart& part,
                        const std::vector<SplitPart>& others) {
  const auto num_nodes = static_cast<int64_t>(part.nodes.size());
  if (node < 0 || node >= num_nodes) {
    return absl::StrCat("is ", node, "; node ids are 0 .. ", num_nodes - 1);
  }
  const auto bit = static_cast<size_t>(node);
  if (part.nodes[bit]) {
    return absl::StrCat("is node ", node, ", which is in the list already");
  }
  for (const SplitPart& other : others) {
    if (other.nodes[bit]) {
      return absl::StrCat("is node ", node, ", which is in ", other.name,
                          ", too");
    }
  }
  return "";
}

absl::Status IsAMask(const ArrayReader& part) {
  const std::string name = part.name();
  const absl::string_view stem = absl::StripSuffix(name, "_idx.npy");
  return part.Error(absl::StrCat(
      "this is a mask, not a list of nodes",
      stem.size() == name.size()
          ? ""
          : absl::StrCat("; as a mask it is called ", stem, "_mask.npy")));
}

/// Calls `visit(position, value)` for the elements in order, until it returns
/// an error.
template <typename Visit>
absl::Status ForEachInt(ArrayReader& array, const Visit& visit) {
  std::vector<int64_t> block;
  const int64_t count = array.header().NumElements();
  for (int64_t first = 0; first < count; first += kBlockElements) {
    block.resize(static_cast<size_t>(std::min(kBlockElements, count - first)));
    HEARTH_RETURN_IF_ERROR(array.ReadInts(first, absl::MakeSpan(block)));
    for (size_t i = 0; i < block.size(); ++i) {
      HEARTH_RETURN_IF_ERROR(visit(first + static_cast<int64_t>(i), block[i]));
    }
  }
  return absl::OkStatus();
}

/// Whether a list has one element per node, all 0 or 1.
bool LooksLikeMask(ArrayReader& part, int64_t num_nodes) {
  if (part.header().NumElements() != num_nodes) return false;
  return ForEachInt(part,
                    [&](int64_t position, int64_t value) {
                      return value == 0 || value == 1
                                 ? absl::OkStatus()
                                 : part.ErrorAt(position, "is more than 1");
                    })
      .ok();
}

absl::Status CheckMaskHeader(const ArrayReader& part, int64_t num_nodes) {
  const store::ArrayHeader& header = part.header();
  if (header.type.IsFloat()) {
    return part.Error(absl::StrCat("has ", Name(header.type),
                                   " elements; a mask has bools or integers"));
  }
  if (header.shape == std::vector<int64_t>{num_nodes} ||
      header.shape == std::vector<int64_t>{num_nodes, 1}) {
    return absl::OkStatus();
  }
  return part.Error(absl::StrCat(
      "has shape ", store::FormatShape(header.shape), "; with ", num_nodes,
      " nodes a mask must be (", num_nodes, ",)",
      header.shape.size() == 2 && header.shape[0] == num_nodes
          ? ": each column is a split of its own, of which one can be imported"
          : ""));
}

}  // namespace

absl::Status CheckSplitHeader(const ArrayReader& part, int64_t num_nodes,
                              bool is_mask) {
  if (is_mask) return CheckMaskHeader(part, num_nodes);
  const store::ArrayHeader& header = part.header();
  // Of any element type: numpy.array([]) is float64.
  if (header.shape == std::vector<int64_t>{0}) return absl::OkStatus();
  if (header.type.kind == store::ElementType::Kind::kBool) return IsAMask(part);
  if (header.type.IsFloat()) {
    return part.Error(absl::StrCat("has ", Name(header.type),
                                   " elements; node ids are integers"));
  }
  if (header.shape.size() != 1) {
    return part.Error(absl::StrCat("has shape ",
                                   store::FormatShape(header.shape),
                                   "; a list of node ids has one dimension"));
  }
  if (header.shape[0] > num_nodes) {
    return part.Error(
        absl::StrCat("lists ", header.shape[0], " nodes of ", num_nodes));
  }
  return absl::OkStatus();
}

absl::StatusOr<SplitPart> ReadSplitPart(ImportContext& context,
                                        ArrayReader& part, bool is_mask,
                                        int64_t num_nodes,
                                        const std::vector<SplitPart>& others) {
  SplitPart read;
  read.name = part.name();
  read.nodes.resize(static_cast<size_t>(num_nodes));
  int64_t previous = -1;
  HEARTH_RETURN_IF_ERROR(
      ForEachInt(part, [&](int64_t position, int64_t value) -> absl::Status {
        if (is_mask && value != 0 && value != 1) {
          return part.ErrorAt(position,
                              absl::StrCat("is ", value, "; a mask is 0 or 1"));
        }
        if (!is_mask || value == 1) {
          const int64_t node = is_mask ? position : value;
          const std::string problem = ProblemWith(node, read, others);
          if (!problem.empty()) {
            return !is_mask && LooksLikeMask(part, num_nodes)
                       ? IsAMask(part)
                       : part.ErrorAt(position, problem);
          }
          read.nodes[static_cast<size_t>(node)] = true;
          read.was_sorted = read.was_sorted && previous < node;
          previous = node;
          ++read.num_nodes;
        }
        const bool ends_block = (position + 1) % kBlockElements == 0;
        return ends_block ? context.Advance(kBlockElements * sizeof(int64_t))
                          : absl::OkStatus();
      }));
  const int64_t rest = part.header().NumElements() % kBlockElements;
  HEARTH_RETURN_IF_ERROR(
      context.Advance(static_cast<uint64_t>(rest) * sizeof(int64_t)));
  return read;
}

absl::StatusOr<store::FinishedArray> WriteSplitPart(
    ImportContext& context, const SplitPart& part,
    const store::ArrayPlace& place, absl::string_view what) {
  HEARTH_ASSIGN_OR_RETURN(
      const std::unique_ptr<store::ArrayWriter> writer,
      store::ArrayWriter::Create(context.files(), place, what,
                                 store::DType::kInt64, {part.num_nodes},
                                 store::kStreamAccess));
  std::vector<int64_t> block;
  for (size_t node = 0; node < part.nodes.size(); ++node) {
    if (part.nodes[node]) block.push_back(static_cast<int64_t>(node));
    const bool last = node + 1 == part.nodes.size();
    if (last || block.size() == static_cast<size_t>(kBlockElements)) {
      HEARTH_RETURN_IF_ERROR(
          writer->AppendValues<int64_t>(absl::MakeConstSpan(block)));
      block.clear();
    }
  }
  return writer->Finish();
}

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

/// Copies an array to the array `what`, and calls `visit` with its blocks.
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
