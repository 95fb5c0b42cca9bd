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

/// The position after the last label; 0 if there is none.
absl::StatusOr<int64_t> EndOfLabels(ArrayReader& labels) {
  std::vector<double> floats;
  std::vector<int64_t> ints;
  int64_t end = labels.header().shape[0];
  while (end > 0) {
    const int64_t first = std::max<int64_t>(0, end - kBlockElements);
    floats.resize(static_cast<size_t>(end - first));
    if (labels.header().type.IsFloat()) {
      HEARTH_RETURN_IF_ERROR(labels.ReadFloats(first, absl::MakeSpan(floats)));
    } else {
      ints.resize(floats.size());
      HEARTH_RETURN_IF_ERROR(labels.ReadInts(first, absl::MakeSpan(ints)));
      std::copy(ints.begin(), ints.end(), floats.begin());
    }
    // False for NaN.
    const auto last = std::find_if(floats.rbegin(), floats.rend(),
                                   [](double label) { return label >= 0; });
    if (last != floats.rend()) return end - (last - floats.rbegin());
    end = first;
  }
  return 0;
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
  HEARTH_ASSIGN_OR_RETURN(const int64_t num_labeled,
                          EndOfLabels(*papers.labels));
  store::ArrayHeader header = papers.labels->header();
  const int64_t num_labels = header.shape[0];
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
