#include "engine/ingest/formats/igb_labels.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "engine/base/status_macros.h"
#include "engine/ingest/formats/id_permutation.h"
#include "engine/ingest/formats/igb_files.h"
#include "engine/ingest/formats/raw_array.h"
#include "engine/ingest/source/array_reader.h"
#include "engine/store/shape.h"

namespace hearth::ingest {
namespace {

constexpr int64_t kBlockElements = 64 << 10;
// Fewer zeros at the end of labels are labels, however rare.
constexpr int64_t kMinPadding = 16;
// ln(1e-12).
constexpr double kMaxLogChance = -27.6;
constexpr std::array<const char*, 3> kParts = {"train", "valid", "test"};

absl::StatusOr<const char*> LabelFile(const IgbOptions& options) {
  if (options.num_classes == 19) return "node_label_19.npy";
  if (options.num_classes == 2983) return "node_label_2K.npy";
  return absl::InvalidArgumentError(absl::StrCat(
      "IGB has labels of 19 or of 2983 classes, not of ", options.num_classes));
}

/// The labels that there are; of the large sizes, float32 without a header.
absl::StatusOr<std::unique_ptr<ArrayReader>> OpenLabels(
    io::FileSystem& files, const std::string& path) {
  HEARTH_ASSIGN_OR_RETURN(const bool is_npy, HasNpyHeader(files, path));
  if (is_npy) return ArrayReader::OpenNpy(files, path);
  HEARTH_ASSIGN_OR_RETURN(const io::FileInfo info, files.Stat(path));
  return ArrayReader::OpenRaw(
      files, path,
      {.type = {},
       .shape = {static_cast<int64_t>(info.size_bytes / sizeof(float))}});
}

absl::Status CheckLabels(const ArrayReader& labels, int64_t num_papers) {
  const std::vector<int64_t>& shape = labels.header().shape;
  const bool is_list =
      shape.size() == 1 || (shape.size() == 2 && shape[1] == 1);
  if (is_list && shape[0] <= num_papers) return absl::OkStatus();
  return labels.Error(absl::StrCat(
      "has shape ", store::FormatShape(shape), "; with ", num_papers,
      " papers it must be (", num_papers, ",) or shorter"));
}

/// Elements `first` .. `end` - 1.
absl::Status ReadLabels(ArrayReader& labels, int64_t first, int64_t end,
                        std::vector<double>& out) {
  out.resize(static_cast<size_t>(end - first));
  if (labels.header().type.IsFloat()) {
    return labels.ReadFloats(first, absl::MakeSpan(out));
  }
  std::vector<int64_t> ints(out.size());
  HEARTH_RETURN_IF_ERROR(labels.ReadInts(first, absl::MakeSpan(ints)));
  std::copy(ints.begin(), ints.end(), out.begin());
  return absl::OkStatus();
}

/// The position after the last of the first `end` elements that is `least` or
/// more; 0 if there is none.
absl::StatusOr<int64_t> EndOfLabels(ArrayReader& labels, int64_t end,
                                    double least) {
  std::vector<double> block;
  while (end > 0) {
    const int64_t first = std::max<int64_t>(0, end - kBlockElements);
    HEARTH_RETURN_IF_ERROR(ReadLabels(labels, first, end, block));
    // False for NaN.
    const auto last =
        std::find_if(block.rbegin(), block.rend(),
                     [&](double label) { return label >= least; });
    if (last != block.rend()) return end - (last - block.rbegin());
    end = first;
  }
  return 0;
}

/// The position from which on the first `end` labels are padding: 0 throughout,
/// and so many that labels would hardly be; `end` if there is none. The larger
/// IGB datasets have files of full length, of which labels fill the beginning.
absl::StatusOr<int64_t> BeginOfPadding(ArrayReader& labels, int64_t end) {
  HEARTH_ASSIGN_OR_RETURN(const int64_t begin, EndOfLabels(labels, end, 1));
  if (begin == 0 || end - begin < kMinPadding) return end;
  int64_t zeros = 0;
  std::vector<double> block;
  for (int64_t first = 0; first < begin; first += kBlockElements) {
    HEARTH_RETURN_IF_ERROR(ReadLabels(
        labels, first, std::min(begin, first + kBlockElements), block));
    zeros += std::count(block.begin(), block.end(), 0.0);
  }
  // The chance that labels of class 0, as often as among those before, are so
  // many in a row.
  const double share =
      static_cast<double>(zeros + 1) / static_cast<double>(begin + 2);
  const double log_chance = static_cast<double>(end - begin) * std::log(share);
  return log_chance < kMaxLogChance ? begin : end;
}

absl::Status MakeSplit(const std::string& path, int64_t num_labeled,
                       const IgbOptions& options, SourceNodes& papers) {
  std::optional<IdPermutation> order;
  if (options.split_seed.has_value() && num_labeled > 0) {
    order.emplace(num_labeled, *options.split_seed);
  }
  // IGB's own loader rounds the parts so.
  const int64_t train = num_labeled / 5 * 3 + num_labeled % 5 * 3 / 5;
  const int64_t valid = num_labeled / 5;
  const std::array<int64_t, 4> bounds = {0, train, train + valid, num_labeled};
  for (size_t i = 0; i < kParts.size(); ++i) {
    const int64_t count = bounds[i + 1] - bounds[i];
    if (count == 0) continue;
    HEARTH_ASSIGN_OR_RETURN(
        papers.split[i],
        ArrayReader::ReadRaw(
            NewIdFile(absl::StrCat(path, ": ", kParts[i]), bounds[i], count,
                      order),
            {.type = {store::ElementType::Kind::kInt, sizeof(int64_t)},
             .shape = {count}}));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status OpenIgbLabels(io::FileSystem& files, const std::string& folder,
                           const IgbOptions& options, SourceGraph& graph,
                           SourceNodes& papers) {
  HEARTH_ASSIGN_OR_RETURN(const char* const name, LabelFile(options));
  const std::string path = io::JoinPath(folder, name);
  HEARTH_ASSIGN_OR_RETURN(papers.labels, OpenLabels(files, path));
  HEARTH_RETURN_IF_ERROR(CheckLabels(*papers.labels, papers.num_nodes));
  store::ArrayHeader header = papers.labels->header();
  int64_t num_labels = header.shape[0];
  HEARTH_ASSIGN_OR_RETURN(int64_t num_labeled,
                          EndOfLabels(*papers.labels, num_labels, 0));
  HEARTH_ASSIGN_OR_RETURN(const int64_t padding,
                          BeginOfPadding(*papers.labels, num_labeled));
  if (padding < num_labeled) {
    graph.warnings.push_back(absl::StrCat(
        path, ": the labels from ", padding, " on, ", num_labeled - padding,
        " in all, are 0, as no labels would be by chance: taken for padding, "
        "their papers have no label"));
    num_labels = num_labeled = padding;
  }
  if (num_labels < papers.num_nodes) {
    const auto end = [&](int64_t count) {
      return header.data_offset +
             static_cast<uint64_t>(count * header.type.item_bytes);
    };
    HEARTH_ASSIGN_OR_RETURN(auto file, files.OpenForRead(path));
    file =
        NewPaddedFile(std::move(file), end(num_labels), end(papers.num_nodes));
    header.shape = {papers.num_nodes};
    HEARTH_ASSIGN_OR_RETURN(papers.labels,
                            ArrayReader::ReadRaw(std::move(file), header));
    graph.transforms.push_back(absl::StrCat(name, ": papers from ", num_labels,
                                            " on are without a label"));
  }
  graph.transforms.push_back(absl::StrCat(
      "split: 60/20/20 of the first ", num_labeled, " papers, ",
      options.split_seed.has_value()
          ? absl::StrCat("at random with seed ", *options.split_seed)
          : "in their order"));
  return MakeSplit(path, num_labeled, options, papers);
}

}  // namespace hearth::ingest
