#include "engine/ingest/import/split_import.h"

#include <algorithm>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "engine/base/status_macros.h"
#include "engine/store/dtype.h"
#include "engine/store/shape.h"

namespace hearth::ingest {
namespace {

constexpr int64_t kBlockElements = 64 << 10;

std::string BaseName(const std::string& path) {
  return path.substr(path.find_last_of('/') + 1);
}

/// The problem with `node` as the next member of a part; empty if nothing.
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

}  // namespace

absl::Status CheckSplitHeader(const ArrayReader& part, int64_t num_nodes) {
  const store::ArrayHeader& header = part.header();
  if (header.type.kind == store::ElementType::Kind::kBool) {
    return part.Error("is a bool array; a list of node ids is needed");
  }
  if (header.type.IsFloat()) {
    return part.Error(absl::StrCat("has ", Name(header.type),
                                   " elements; node ids are integers"));
  }
  if (header.shape.size() != 1) {
    return part.Error(absl::StrCat("has shape ",
                                   store::FormatShape(header.shape),
                                   "; a list of node ids has one dimension"));
  }
  if (header.shape[0] == 0) return part.Error("is empty");
  if (header.shape[0] > num_nodes) {
    return part.Error(
        absl::StrCat("lists ", header.shape[0], " nodes of ", num_nodes));
  }
  return absl::OkStatus();
}

absl::StatusOr<SplitPart> ReadSplitPart(ImportContext& context,
                                        ArrayReader& part, int64_t num_nodes,
                                        const std::vector<SplitPart>& others) {
  SplitPart read;
  read.name = BaseName(part.path());
  read.nodes.resize(static_cast<size_t>(num_nodes));
  const int64_t count = part.header().shape[0];
  int64_t previous = -1;
  std::vector<int64_t> block;
  for (int64_t first = 0; first < count; first += kBlockElements) {
    block.resize(static_cast<size_t>(std::min(kBlockElements, count - first)));
    HEARTH_RETURN_IF_ERROR(part.ReadInts(first, absl::MakeSpan(block)));
    for (size_t i = 0; i < block.size(); ++i) {
      const std::string problem = ProblemWith(block[i], read, others);
      if (!problem.empty()) {
        return part.ErrorAt(first + static_cast<int64_t>(i), problem);
      }
      read.nodes[static_cast<size_t>(block[i])] = true;
      read.was_sorted = read.was_sorted && previous < block[i];
      previous = block[i];
    }
    HEARTH_RETURN_IF_ERROR(context.Advance(block.size() * sizeof(int64_t)));
  }
  return read;
}

absl::StatusOr<store::FinishedArray> WriteSplitPart(
    ImportContext& context, const SplitPart& part,
    const store::ArrayPlace& place, absl::string_view what) {
  const int64_t count = std::count(part.nodes.begin(), part.nodes.end(), true);
  HEARTH_ASSIGN_OR_RETURN(
      const std::unique_ptr<store::ArrayWriter> writer,
      store::ArrayWriter::Create(context.files(), place, what,
                                 store::DType::kInt64, {count},
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

}  // namespace hearth::ingest
