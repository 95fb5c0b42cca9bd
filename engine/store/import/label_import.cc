#include "engine/store/import/label_import.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "engine/base/status_macros.h"
#include "engine/store/shape.h"

namespace hearth::store {
namespace {

constexpr int64_t kBlockElements = 64 << 10;
constexpr int32_t kUnlabeled = -1;

bool IsFloat(const ArrayReader& reader) {
  return reader.header().type.IsFloat();
}

std::string BaseName(const std::string& path) {
  return path.substr(path.find_last_of('/') + 1);
}

/// Reads labels as whole numbers, whatever they are stored as.
class LabelReader {
 public:
  explicit LabelReader(ArrayReader& reader) : reader_(reader) {}

  absl::Status Read(int64_t first, absl::Span<int32_t> out) {
    if (IsFloat(reader_)) return ReadFromFloats(first, out);
    ints_.resize(out.size());
    HEARTH_RETURN_IF_ERROR(reader_.ReadInts(first, absl::MakeSpan(ints_)));
    for (size_t i = 0; i < out.size(); ++i) {
      if (ints_[i] < kUnlabeled || ints_[i] >= kMaxClasses) {
        return OutOfRange(first + static_cast<int64_t>(i), ints_[i]);
      }
      out[i] = static_cast<int32_t>(ints_[i]);
    }
    return absl::OkStatus();
  }

 private:
  absl::Status ReadFromFloats(int64_t first, absl::Span<int32_t> out) {
    floats_.resize(out.size());
    HEARTH_RETURN_IF_ERROR(reader_.ReadFloats(first, absl::MakeSpan(floats_)));
    for (size_t i = 0; i < out.size(); ++i) {
      const double value = floats_[i];
      const int64_t position = first + static_cast<int64_t>(i);
      if (std::isnan(value)) {
        out[i] = kUnlabeled;
        continue;
      }
      if (value < kUnlabeled || value >= static_cast<double>(kMaxClasses)) {
        return OutOfRange(position, value);
      }
      if (value != std::floor(value)) {
        return reader_.ErrorAt(
            position, absl::StrCat("is ", value, ", not a whole number"));
      }
      out[i] = static_cast<int32_t>(value);
    }
    return absl::OkStatus();
  }

  template <typename Value>
  absl::Status OutOfRange(int64_t position, Value value) const {
    return reader_.ErrorAt(
        position,
        absl::StrCat("is ", value, "; labels are 0 .. ", kMaxClasses - 1,
                     ", or -1", IsFloat(reader_) ? " or NaN" : "",
                     " for unlabeled nodes"));
  }

  ArrayReader& reader_;
  std::vector<int64_t> ints_;
  std::vector<double> floats_;
};

/// What is wrong with `node` as the next member of a part; empty if nothing.
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

absl::Status CheckLabelHeader(const ArrayReader& labels, int64_t num_nodes) {
  const std::vector<int64_t>& shape = labels.header().shape;
  const bool fits = !shape.empty() && shape[0] == num_nodes &&
                    (shape.size() == 1 || (shape.size() == 2 && shape[1] == 1));
  if (fits) return absl::OkStatus();
  return labels.Error(absl::StrCat("has shape ", FormatShape(shape), "; with ",
                                   num_nodes, " nodes it must be (", num_nodes,
                                   ",)"));
}

absl::StatusOr<ImportedLabels> ImportLabels(ImportContext& context,
                                            ArrayReader& labels,
                                            const ArrayPlace& place) {
  const int64_t num_nodes = labels.header().shape[0];
  HEARTH_ASSIGN_OR_RETURN(
      const std::unique_ptr<ArrayWriter> writer,
      ArrayWriter::Create(context.files(), place, "labels", DType::kInt32,
                          {num_nodes}, kStreamLayout));
  ImportedLabels imported;
  imported.labeled.resize(static_cast<size_t>(num_nodes));
  LabelReader reader(labels);
  std::vector<int32_t> block;
  for (int64_t first = 0; first < num_nodes; first += kBlockElements) {
    block.resize(
        static_cast<size_t>(std::min(kBlockElements, num_nodes - first)));
    HEARTH_RETURN_IF_ERROR(reader.Read(first, absl::MakeSpan(block)));
    for (size_t i = 0; i < block.size(); ++i) {
      imported.labeled[static_cast<size_t>(first) + i] = block[i] >= 0;
      imported.num_classes =
          std::max<int64_t>(imported.num_classes, block[i] + int64_t{1});
    }
    HEARTH_RETURN_IF_ERROR(
        writer->AppendValues<int32_t>(absl::MakeConstSpan(block)));
    HEARTH_RETURN_IF_ERROR(context.Advance(block.size() * sizeof(int64_t)));
  }
  if (imported.num_classes == 0) return labels.Error("labels no node at all");
  HEARTH_ASSIGN_OR_RETURN(imported.array, writer->Finish());
  return imported;
}

absl::Status CheckSplitHeader(const ArrayReader& part, int64_t num_nodes) {
  const ArrayHeader& header = part.header();
  if (header.type.kind == ElementType::Kind::kBool) {
    return part.Error("is a bool array; a list of node ids is needed");
  }
  if (IsFloat(part)) {
    return part.Error(absl::StrCat("has ", Name(header.type),
                                   " elements; node ids are integers"));
  }
  if (header.shape.size() != 1) {
    return part.Error(absl::StrCat("has shape ", FormatShape(header.shape),
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

absl::StatusOr<FinishedArray> WriteSplitPart(ImportContext& context,
                                             const SplitPart& part,
                                             const ArrayPlace& place,
                                             absl::string_view what) {
  const int64_t count = std::count(part.nodes.begin(), part.nodes.end(), true);
  HEARTH_ASSIGN_OR_RETURN(
      const std::unique_ptr<ArrayWriter> writer,
      ArrayWriter::Create(context.files(), place, what, DType::kInt64, {count},
                          kStreamLayout));
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

}  // namespace hearth::store
