#include "engine/ingest/formats/igb.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "engine/base/random.h"
#include "engine/base/status.h"
#include "engine/ingest/formats/format_options.h"
#include "engine/ingest/formats/source_files.h"
#include "engine/ingest/import/feature_import.h"
#include "engine/ingest/source/array_reader.h"
#include "engine/ingest/source/edge_source.h"
#include "engine/ingest/source/source_graph.h"
#include "engine/io/file_system.h"
#include "engine/store/array_type.h"

namespace hearth::ingest {

namespace {

// With more rounds nothing improves visibly; fewer leave patterns among few
// ids.
constexpr uint32_t kRounds = 10;
// Separates these random numbers from all others of the same seed.
constexpr uint32_t kPurpose = 0x73706C74;

uint64_t Mask(int bits) { return (uint64_t{1} << bits) - 1; }

}  // namespace

IdPermutation::IdPermutation(int64_t size, uint64_t seed)
    : size_(static_cast<uint64_t>(size)), seed_(seed) {
  const int bits = std::max(2, static_cast<int>(std::bit_width(size_ - 1)));
  low_bits_ = bits / 2;
  high_bits_ = bits - low_bits_;
}

uint64_t IdPermutation::Scramble(uint64_t id) const {
  uint64_t low = id & Mask(low_bits_);
  uint64_t high = id >> low_bits_;
  for (uint32_t round = 0; round < kRounds; ++round) {
    const bool changes_low = round % 2 == 0;
    const uint64_t other = changes_low ? high : low;
    const auto random = Philox(
        {static_cast<uint32_t>(other), static_cast<uint32_t>(other >> 32),
         round, kPurpose},
        {static_cast<uint32_t>(seed_), static_cast<uint32_t>(seed_ >> 32)});
    const uint64_t value = uint64_t{random[1]} << 32 | random[0];
    if (changes_low) {
      low ^= value & Mask(low_bits_);
    } else {
      high ^= value & Mask(high_bits_);
    }
  }
  return high << low_bits_ | low;
}

int64_t IdPermutation::operator[](int64_t position) const {
  // Cycle walking: fewer than half of the values of that many bits are no ids
  // (except for the least sizes), and the walk ends at an id that no other
  // position reaches.
  uint64_t id = Scramble(static_cast<uint64_t>(position));
  while (id >= size_) id = Scramble(id);
  return static_cast<int64_t>(id);
}

namespace {

absl::Status CheckRange(const io::ReadableFile& file, uint64_t size,
                        uint64_t offset, size_t count) {
  if (offset <= size && count <= size - offset) return absl::OkStatus();
  return absl::DataLossError(
      absl::StrCat(file.path(), ": ends at byte ", size));
}

class IdFile final : public io::ReadableFile {
 public:
  IdFile(std::string name, int64_t first, int64_t count,
         std::optional<IdPermutation> order)
      : name_(std::move(name)),
        first_(first),
        size_(static_cast<uint64_t>(count) * sizeof(int64_t)),
        order_(order) {}

  absl::Status Read(uint64_t offset, absl::Span<std::byte> out) override {
    HEARTH_RETURN_IF_ERROR(CheckRange(*this, size_, offset, out.size()));
    while (!out.empty()) {
      const int64_t position =
          first_ + static_cast<int64_t>(offset / sizeof(int64_t));
      const int64_t id = order_.has_value() ? (*order_)[position] : position;
      const size_t skipped = offset % sizeof(int64_t);
      const size_t count = std::min(out.size(), sizeof(int64_t) - skipped);
      std::memcpy(out.data(), reinterpret_cast<const std::byte*>(&id) + skipped,
                  count);
      out.remove_prefix(count);
      offset += count;
    }
    return absl::OkStatus();
  }

  absl::StatusOr<io::FileInfo> Info() override {
    io::FileInfo info;
    info.size_bytes = size_;
    info.is_regular = true;
    return info;
  }

  const std::string& path() const override { return name_; }

 private:
  const std::string name_;
  const int64_t first_;
  const uint64_t size_;
  const std::optional<IdPermutation> order_;
};

class PaddedFile final : public io::ReadableFile {
 public:
  PaddedFile(std::unique_ptr<io::ReadableFile> file, uint64_t kept_bytes,
             uint64_t size_bytes)
      : file_(std::move(file)), kept_(kept_bytes), size_(size_bytes) {}

  absl::Status Read(uint64_t offset, absl::Span<std::byte> out) override {
    HEARTH_RETURN_IF_ERROR(CheckRange(*this, size_, offset, out.size()));
    const uint64_t kept = kept_ - std::min(offset, kept_);
    const auto count =
        static_cast<size_t>(std::min<uint64_t>(kept, out.size()));
    if (count > 0) {
      HEARTH_RETURN_IF_ERROR(file_->Read(offset, out.first(count)));
    }
    std::fill(out.begin() + count, out.end(), std::byte{0xFF});
    return absl::OkStatus();
  }

  absl::StatusOr<io::FileInfo> Info() override {
    HEARTH_ASSIGN_OR_RETURN(io::FileInfo info, file_->Info());
    info.size_bytes = size_;
    return info;
  }

  const std::string& path() const override { return file_->path(); }

 private:
  const std::unique_ptr<io::ReadableFile> file_;
  const uint64_t kept_;
  const uint64_t size_;
};

}  // namespace

std::unique_ptr<io::ReadableFile> NewIdFile(
    std::string name, int64_t first, int64_t count,
    std::optional<IdPermutation> order) {
  return std::make_unique<IdFile>(std::move(name), first, count, order);
}

std::unique_ptr<io::ReadableFile> NewPaddedFile(
    std::unique_ptr<io::ReadableFile> file, uint64_t kept_bytes,
    uint64_t size_bytes) {
  return std::make_unique<PaddedFile>(std::move(file), kept_bytes, size_bytes);
}

namespace {

constexpr int64_t kBlockElements = 64 << 10;
// Fewer zeros at the end are labels, however unlikely.
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

/// The file of labels; in the large sizes it is float32 without a header.
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

/// Reads elements `first` .. `end` - 1.
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

/// Position after the last of the first `end` elements that is `least` or more;
/// 0 if there is none.
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

/// Position from which the first `end` labels are padding: all 0, and more than
/// labels would plausibly be; `end` if there is no padding. The larger IGB
/// datasets have files of full length that labels fill only in part.
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
  // Chance of so many labels of class 0 in a row, given the share of class 0
  // among the labels before them.
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
  // IGB's own loader rounds the parts this way.
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

/// Opens the labels of IGB's papers in `folder`, and makes their split: 60, 20
/// and 20 percent of the papers up to the last one with a label, in their order
/// or, with a seed, at random. The file may end after the first papers, or have
/// zeros after the labels, more in a row than class 0 would have by chance;
/// `graph`.warnings say so. Decisions go into `graph`.transforms. REQUIRES:
/// `papers`, which belongs to `graph`, has its number of nodes.
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

constexpr char kProcessed[] = "processed";
constexpr char kPaper[] = "paper";
constexpr char kFeaturesFile[] = "node_feat.npy";
constexpr char kEdgesFile[] = "edge_index.npy";
constexpr char kSeparator[] = "__";
constexpr int64_t kColumns = 1024;

/// The folder of IGB's data at `source` or within it; empty if there is none.
absl::StatusOr<std::string> FindProcessed(io::FileSystem& files,
                                          const std::string& source) {
  for (const std::string& folder : {io::JoinPath(source, kProcessed), source}) {
    HEARTH_ASSIGN_OR_RETURN(
        const bool found,
        Exists(files,
               io::JoinPath(io::JoinPath(folder, kPaper), kFeaturesFile)));
    if (found) return folder;
  }
  return "";
}

absl::StatusOr<std::unique_ptr<ArrayReader>> OpenFeatures(
    io::FileSystem& files, const std::string& path) {
  HEARTH_ASSIGN_OR_RETURN(const bool is_npy, HasNpyHeader(files, path));
  if (is_npy) return ArrayReader::OpenNpy(files, path);
  HEARTH_ASSIGN_OR_RETURN(const io::FileInfo info, files.Stat(path));
  constexpr uint64_t kRowBytes = kColumns * sizeof(float);
  if (info.size_bytes % kRowBytes != 0) {
    return absl::DataLossError(
        absl::StrCat(path, ": has no .npy header and ", info.size_bytes,
                     " bytes, which is no multiple of ", kRowBytes,
                     ", a row of ", kColumns, " float32"));
  }
  return ArrayReader::OpenRaw(
      files, path,
      {.type = {},
       .shape = {static_cast<int64_t>(info.size_bytes / kRowBytes), kColumns}});
}

/// Opens the contents of the folder, one type after another.
class IgbFolder {
 public:
  IgbFolder(io::FileSystem& files, std::string folder,
            const IgbOptions& options)
      : files_(files), folder_(std::move(folder)), options_(options) {}

  absl::StatusOr<SourceGraph> Open() {
    HEARTH_ASSIGN_OR_RETURN(const std::vector<std::string> names,
                            files_.List(folder_));
    for (const std::string& name : names) {
      if (absl::StrContains(name, kSeparator)) continue;
      HEARTH_RETURN_IF_ERROR(AddNodes(name));
    }
    for (const std::string& name : names) {
      std::optional<SourceEdges> edges = EdgesOfType(name, kSeparator);
      if (!edges.has_value()) continue;
      HEARTH_RETURN_IF_ERROR(AddEdges(name, *std::move(edges)));
    }
    if (graph_.nodes.size() == 1 && graph_.edges.size() == 1) {
      graph_.nodes[0].type = SourceNodes().type;
      graph_.edges[0].type = SourceEdges().type;
      graph_.edges[0].source_type = graph_.nodes[0].type;
      graph_.edges[0].destination_type = graph_.nodes[0].type;
    }
    return std::move(graph_);
  }

 private:
  absl::Status AddNodes(const std::string& type) {
    const std::string folder = io::JoinPath(folder_, type);
    const std::string path = io::JoinPath(folder, kFeaturesFile);
    HEARTH_ASSIGN_OR_RETURN(const bool found, Exists(files_, path));
    if (!found) return absl::OkStatus();
    SourceNodes nodes;
    nodes.type = type;
    HEARTH_ASSIGN_OR_RETURN(nodes.features, OpenFeatures(files_, path));
    const std::vector<int64_t>& shape = nodes.features->header().shape;
    if (!shape.empty() && shape[0] == 0) {
      // A type without nodes has no features.
      nodes.features = nullptr;
      graph_.nodes.push_back(std::move(nodes));
      return absl::OkStatus();
    }
    HEARTH_RETURN_IF_ERROR(CheckFeatureShape(*nodes.features));
    nodes.num_nodes = shape[0];
    HEARTH_RETURN_IF_ERROR(WarnOfUnusedFiles(
        files_, folder,
        {kFeaturesFile, "node_label_19.npy", "node_label_2K.npy",
         absl::StrCat(type, "_id_index_mapping.npy")},
        graph_.warnings));
    if (type == kPaper) {
      HEARTH_RETURN_IF_ERROR(
          OpenIgbLabels(files_, folder, options_, graph_, nodes));
    }
    graph_.nodes.push_back(std::move(nodes));
    return absl::OkStatus();
  }

  absl::Status AddEdges(const std::string& name, SourceEdges edges) {
    EdgeEnds ends;
    for (const auto& [type, count] :
         {std::pair(&edges.source_type, &ends.num_sources),
          std::pair(&edges.destination_type, &ends.num_destinations)}) {
      const SourceNodes* const nodes = graph_.FindNodes(*type);
      if (nodes == nullptr) {
        return absl::InvalidArgumentError(absl::StrCat(folder_, ": has edges ",
                                                       name, ", but no ", *type,
                                                       "/", kFeaturesFile));
      }
      *count = nodes->num_nodes;
    }
    HEARTH_ASSIGN_OR_RETURN(
        std::unique_ptr<ArrayReader> array,
        ArrayReader::OpenNpy(
            files_, io::JoinPath(io::JoinPath(folder_, name), kEdgesFile)));
    HEARTH_ASSIGN_OR_RETURN(
        edges.edges,
        NewArrayEdgeSource(std::move(array), ends, EdgeShape::kPairs));
    HEARTH_RETURN_IF_ERROR(WarnOfUnusedFiles(
        files_, io::JoinPath(folder_, name), {kEdgesFile}, graph_.warnings));
    graph_.edges.push_back(std::move(edges));
    return absl::OkStatus();
  }

  io::FileSystem& files_;
  const std::string folder_;
  const IgbOptions& options_;
  SourceGraph graph_;
};

}  // namespace

absl::StatusOr<std::string> RecognizeIgb(io::FileSystem& files,
                                         const std::string& source) {
  HEARTH_ASSIGN_OR_RETURN(const std::string folder,
                          FindProcessed(files, source));
  if (folder.empty()) return "";
  HEARTH_ASSIGN_OR_RETURN(
      const bool found,
      Exists(files, io::JoinPath(folder, "paper__cites__paper")));
  return found ? "it has paper/node_feat.npy and paper__cites__paper" : "";
}

absl::StatusOr<SourceGraph> OpenIgb(ImportContext& context,
                                    const std::string& source,
                                    const IgbOptions& options) {
  HEARTH_RETURN_IF_ERROR(CheckIsFolder(context.files(), source));
  HEARTH_ASSIGN_OR_RETURN(std::string folder,
                          FindProcessed(context.files(), source));
  if (folder.empty()) {
    return absl::InvalidArgumentError(
        absl::StrCat(source, ": has neither processed/paper/node_feat.npy nor ",
                     "paper/node_feat.npy"));
  }
  return IgbFolder(context.files(), std::move(folder), options).Open();
}

}  // namespace hearth::ingest
