#include "engine/ingest/export/dataset_source.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "engine/base/status.h"
#include "engine/ingest/source/array_reader.h"
#include "engine/io/file_system.h"
#include "engine/store/array_type.h"
#include "engine/store/labels.h"
#include "engine/store/manifest.h"
#include "engine/store/npy.h"
#include "engine/store/stored_array.h"

namespace hearth::ingest {

namespace {

// Bytes of rows that are read at a time.
constexpr uint64_t kBlockBytes = 256 << 10;

class UnpackedLabels final : public io::ReadableFile {
 public:
  UnpackedLabels(std::unique_ptr<io::ReadableFile> bits, uint64_t offset,
                 int64_t num_rows, int64_t width, bool partial)
      : bits_(std::move(bits)),
        offset_(offset),
        num_rows_(static_cast<uint64_t>(num_rows)),
        width_(width),
        partial_(partial) {}

  absl::Status Read(uint64_t offset, absl::Span<std::byte> out) override {
    const uint64_t size = num_rows_ * RowBytes();
    if (offset > size || out.size() > size - offset) {
      return absl::DataLossError(absl::StrCat(path(), ": ends at byte ", size));
    }
    const uint64_t block_rows = std::max<uint64_t>(1, kBlockBytes / BitBytes());
    std::vector<std::byte> bits;
    while (!out.empty()) {
      const uint64_t row = offset / RowBytes();
      const uint64_t skipped = offset % RowBytes();
      const uint64_t rows = std::min(
          block_rows, (skipped + out.size() + RowBytes() - 1) / RowBytes());
      bits.resize(rows * BitBytes());
      HEARTH_RETURN_IF_ERROR(
          bits_->Read(offset_ + row * BitBytes(), absl::MakeSpan(bits)));
      const auto part = out.first(
          std::min<uint64_t>(out.size(), rows * RowBytes() - skipped));
      Unpack(bits, skipped, part);
      offset += part.size();
      out.remove_prefix(part.size());
    }
    return absl::OkStatus();
  }

  absl::StatusOr<io::FileInfo> Info() override {
    HEARTH_ASSIGN_OR_RETURN(io::FileInfo info, bits_->Info());
    info.size_bytes = num_rows_ * RowBytes();
    return info;
  }

  const std::string& path() const override { return bits_->path(); }

 private:
  uint64_t RowBytes() const {
    return static_cast<uint64_t>(width_) * sizeof(float);
  }
  uint64_t BitBytes() const {
    return static_cast<uint64_t>(store::MultiLabelRowBytes(width_, partial_));
  }

  /// Unpacks rows into bytes, from byte `at` of the first row on.
  void Unpack(const std::vector<std::byte>& bits, uint64_t at,
              absl::Span<std::byte> out) const {
    while (!out.empty()) {
      const auto* row = reinterpret_cast<const uint8_t*>(
          bits.data() + at / RowBytes() * BitBytes());
      const auto column = static_cast<int64_t>(at % RowBytes() / sizeof(float));
      float value = store::HasBit(row, column) ? 1 : 0;
      const uint8_t* known = row + store::MultiLabelRowBytes(width_);
      if (!store::HasBit(row, width_) ||
          (partial_ && !store::HasBit(known, column))) {
        value = std::numeric_limits<float>::quiet_NaN();
      }
      const size_t skipped = at % sizeof(float);
      const size_t count = std::min(out.size(), sizeof(float) - skipped);
      std::memcpy(out.data(), reinterpret_cast<const char*>(&value) + skipped,
                  count);
      at += count;
      out.remove_prefix(count);
    }
  }

  const std::unique_ptr<io::ReadableFile> bits_;
  const uint64_t offset_;
  const uint64_t num_rows_;
  const int64_t width_;
  const bool partial_;
};

/// The multi-label rows of a dataset (store/labels.h), which begin at byte
/// `offset` of `bits`, in the form that importers read: float32 [num_rows,
/// width], 1 or 0 for each label, NaN for an unknown label (if `partial`), and
/// a row of NaN for an unlabeled node. Computed when read; thread-safe.
std::unique_ptr<io::ReadableFile> NewUnpackedLabels(
    std::unique_ptr<io::ReadableFile> bits, uint64_t offset, int64_t num_rows,
    int64_t width, bool partial) {
  return std::make_unique<UnpackedLabels>(std::move(bits), offset, num_rows,
                                          width, partial);
}

store::ElementType TypeOf(store::DType dtype) {
  switch (dtype) {
    case store::DType::kFloat32:
    case store::DType::kFloat16:
      return {store::ElementType::Kind::kFloat, store::SizeOf(dtype)};
    case store::DType::kBFloat16:
      return {store::ElementType::Kind::kBFloat, store::SizeOf(dtype)};
    case store::DType::kInt32:
    case store::DType::kInt64:
      return {store::ElementType::Kind::kInt, store::SizeOf(dtype)};
    case store::DType::kUint8:
      return {store::ElementType::Kind::kUint, store::SizeOf(dtype)};
    case store::DType::kScaledInt8:
      break;
  }
  return {};
}

/// Opens the arrays of a dataset; null for arrays that it does not have.
class ArrayOpener {
 public:
  ArrayOpener(io::FileSystem& files, const std::string& folder)
      : files_(files), folder_(folder) {}

  absl::Status Open(const store::ArrayFile& array,
                    std::unique_ptr<ArrayReader>& reader) const {
    if (array.path.empty()) return absl::OkStatus();
    HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<io::ReadableFile> file,
                            store::OpenVerifiedFile(files_, folder_, array));
    store::ArrayHeader header;
    header.type = TypeOf(array.dtype);
    header.shape = array.shape;
    header.data_offset = array.data_offset;
    HEARTH_ASSIGN_OR_RETURN(
        reader, ArrayReader::ReadRaw(std::move(file), std::move(header)));
    return absl::OkStatus();
  }

  /// Multi-label rows are bits in a dataset, a form that no other format has.
  absl::Status OpenLabels(const store::NodeTypeEntry& entry,
                          std::unique_ptr<ArrayReader>& reader) const {
    const store::ArrayFile& labels = entry.labels;
    if (labels.path.empty() ||
        entry.label_kind != store::LabelKind::kMultiLabel) {
      return Open(labels, reader);
    }
    HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<io::ReadableFile> bits,
                            store::OpenVerifiedFile(files_, folder_, labels));
    store::ArrayHeader header;
    header.type = TypeOf(store::DType::kFloat32);
    header.shape = {entry.num_nodes, entry.label_width};
    HEARTH_ASSIGN_OR_RETURN(
        reader, ArrayReader::ReadRaw(
                    NewUnpackedLabels(std::move(bits), labels.data_offset,
                                      entry.num_nodes, entry.label_width,
                                      store::HasPartialLabels(entry)),
                    std::move(header)));
    return absl::OkStatus();
  }

 private:
  io::FileSystem& files_;
  const std::string folder_;
};

absl::StatusOr<SourceNodes> OpenNodes(const ArrayOpener& opener,
                                      const store::NodeTypeEntry& entry) {
  SourceNodes nodes;
  nodes.type = entry.name;
  nodes.num_nodes = entry.num_nodes;
  if (!entry.labels.path.empty()) nodes.label_kind = entry.label_kind;
  HEARTH_RETURN_IF_ERROR(opener.Open(entry.features, nodes.features));
  HEARTH_RETURN_IF_ERROR(opener.OpenLabels(entry, nodes.labels));
  HEARTH_RETURN_IF_ERROR(opener.Open(entry.train, nodes.split[0]));
  HEARTH_RETURN_IF_ERROR(opener.Open(entry.valid, nodes.split[1]));
  HEARTH_RETURN_IF_ERROR(opener.Open(entry.test, nodes.split[2]));
  HEARTH_RETURN_IF_ERROR(opener.Open(entry.ids, nodes.ids));
  HEARTH_RETURN_IF_ERROR(opener.Open(entry.id_text, nodes.id_text));
  return nodes;
}

}  // namespace

absl::StatusOr<SourceGraph> OpenDatasetAsSource(io::FileSystem& files,
                                                const store::Dataset& dataset) {
  HEARTH_RETURN_IF_ERROR(dataset.CheckUnchanged());
  const ArrayOpener opener(files, dataset.path());
  SourceGraph graph;
  for (const store::NodeTypeEntry& entry : dataset.manifest().node_types) {
    HEARTH_RETURN_IF_ERROR(store::CheckIsWhole(dataset.path(), entry.features));
    HEARTH_ASSIGN_OR_RETURN(SourceNodes nodes, OpenNodes(opener, entry));
    graph.nodes.push_back(std::move(nodes));
  }
  for (const store::EdgeTypeEntry& entry : dataset.manifest().edge_types) {
    SourceEdges edges;
    edges.type = entry.name;
    edges.source_type = entry.source_type;
    edges.destination_type = entry.destination_type;
    HEARTH_RETURN_IF_ERROR(opener.Open(entry.indptr, edges.indptr));
    HEARTH_RETURN_IF_ERROR(opener.Open(entry.indices, edges.indices));
    graph.edges.push_back(std::move(edges));
  }
  return graph;
}

}  // namespace hearth::ingest
