#include "engine/store/converted_rows.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "engine/base/status.h"
#include "engine/base/thread_team.h"
#include "engine/io/aligned_memory.h"
#include "engine/io/whole_file.h"
#include "engine/store/array_writer.h"
#include "engine/store/feature_rows.h"
#include "engine/store/row_codec.h"

// Writing one node type's rows, step by step:
//   1. read a few MiB of rows, whole blocks of checksums at a time;
//   2. convert them, a range of rows on each thread, behind the bytes that the
//      last round has left;
//   3. add them to the row checksums, and append whole pages to the file.

namespace hearth::store {
namespace {

constexpr uint64_t kPageBytes = 4096;
// Bytes of rows that are read at a time, about and at most.
constexpr uint64_t kReadBytes = 4 << 20;
constexpr uint64_t kMostReadBytes = 16 << 20;
// Memory for checksums as they are read and written, and for threads.
constexpr uint64_t kBesidesBytes = 4 << 20;
// Rows that a thread converts at a time.
constexpr int64_t kRowsPerPart = 256;

// Rows that are read at a time: of whole blocks of checksums, unless these are
// too many.
int64_t RowsAtOnce(uint64_t row_bytes) {
  const uint64_t whole = kPageBytes / std::gcd(row_bytes, kPageBytes);
  const uint64_t unit = whole * row_bytes <= kMostReadBytes ? whole : 1;
  const uint64_t units = std::max<uint64_t>(1, kReadBytes / (unit * row_bytes));
  return static_cast<int64_t>(units * unit);
}

ArrayPlace PlaceOf(const Manifest& manifest, const std::string& folder,
                   size_t type) {
  return {
      .folder = folder, .dataset = manifest.name, .prefix = absl::StrCat(type)};
}

// Converts rows of one format. Each thread has a row of float32 of its own.
class RowEncoder {
 public:
  RowEncoder(const RowFormat& from, DType to, int threads)
      : from_(from),
        to_({.dim = from.dim, .dtype = to}),
        widen_(
            RowConversion(from, {.dim = from.dim, .dtype = DType::kFloat32})),
        rows_(static_cast<size_t>(threads)) {
    for (std::vector<float>& row : rows_) {
      row.resize(static_cast<size_t>(from.dim));
    }
  }

  const RowFormat& to() const { return to_; }

  // Converts row i of `stored` to row i of `out`. Returns the first column that
  // cannot be converted, or -1.
  int64_t Encode(int thread, const std::byte* stored, int64_t i,
                 std::byte* out) {
    std::vector<float>& row = rows_[static_cast<size_t>(thread)];
    auto* const floats = reinterpret_cast<std::byte*>(row.data());
    stored += i * from_.row_bytes();
    if (widen_) {
      widen_(stored, floats);
    } else {
      std::memcpy(floats, stored, row.size() * sizeof(float));
    }
    return EncodeRow(row, to_.dtype, out + i * to_.row_bytes());
  }

 private:
  const RowFormat from_;
  const RowFormat to_;
  const std::function<void(const std::byte*, std::byte*)> widen_;
  std::vector<std::vector<float>> rows_;
};

// Writes the rows of one node type.
class TableConverter {
 public:
  TableConverter(io::FileSystem& files, const Dataset& dataset, size_t type,
                 const std::string& folder, const ConvertingOptions& options)
      : files_(files),
        dataset_(dataset),
        type_(type),
        place_(PlaceOf(dataset.manifest(), folder, type)),
        options_(options),
        from_(StoredFormat(entry())),
        encoder_(from_, options.dtype, options.threads),
        at_once_(std::min(RowsAtOnce(from_bytes()), entry().num_nodes)) {}

  // The entry of the rows in the copy's manifest. `done` counts bytes read, of
  // `total`.
  absl::StatusOr<ArrayFile> Write(ThreadTeam& team, uint64_t& done,
                                  uint64_t total) {
    HEARTH_RETURN_IF_ERROR(Open());
    for (int64_t first = 0; first < entry().num_nodes; first += at_once_) {
      if (options_.stop.stop_requested()) {
        return absl::CancelledError(
            absl::StrCat(source_->path(), ": converting was stopped"));
      }
      const int64_t count = std::min(at_once_, entry().num_nodes - first);
      HEARTH_RETURN_IF_ERROR(ConvertRows(team, first, count));
      done += static_cast<uint64_t>(count) * from_bytes();
      if (options_.progress) options_.progress(done, total);
    }
    return Finish();
  }

 private:
  const NodeTypeEntry& entry() const {
    return dataset_.manifest().node_types[type_];
  }
  uint64_t from_bytes() const {
    return static_cast<uint64_t>(from_.row_bytes());
  }
  uint64_t to_bytes() const {
    return static_cast<uint64_t>(encoder_.to().row_bytes());
  }

  absl::Status Open() {
    HEARTH_ASSIGN_OR_RETURN(source_,
                            dataset_.ScanFeatures(options_.stop, type_));
    // An .npy file has no rows with scales: these are bytes.
    const bool scaled = options_.dtype == DType::kScaledInt8;
    HEARTH_ASSIGN_OR_RETURN(
        writer_, ArrayWriter::Create(
                     files_, place_, RowTypeName(options_.dtype),
                     scaled ? DType::kUint8 : options_.dtype,
                     {entry().num_nodes,
                      scaled ? encoder_.to().row_bytes() : encoder_.to().dim},
                     kRandomAccess));
    checked_ = writer_->entry();
    checked_.dtype = options_.dtype;
    checked_.shape[1] = encoder_.to().dim;
    HEARTH_ASSIGN_OR_RETURN(
        row_checksums_,
        NewRowChecksumWriter(
            files_, io::JoinPath(place_.folder, RowChecksumPath(checked_)),
            checked_));
    const auto rows = static_cast<uint64_t>(at_once_);
    HEARTH_ASSIGN_OR_RETURN(stored_,
                            io::AlignedMemory::Allocate(rows * from_bytes()));
    HEARTH_ASSIGN_OR_RETURN(
        encoded_, io::AlignedMemory::Allocate(kPageBytes + rows * to_bytes()));
    return absl::OkStatus();
  }

  absl::Status ConvertRows(ThreadTeam& team, int64_t first, int64_t count) {
    const absl::Span<std::byte> stored =
        stored_.bytes().first(static_cast<uint64_t>(count) * from_bytes());
    HEARTH_RETURN_IF_ERROR(
        source_->Read(entry().features.data_offset +
                          static_cast<uint64_t>(first) * from_bytes(),
                      stored));
    const absl::Span<std::byte> rows = encoded_.bytes().subspan(
        filled_, static_cast<uint64_t>(count) * to_bytes());
    HEARTH_RETURN_IF_ERROR(Encode(team, stored.data(), first, count, rows));
    HEARTH_RETURN_IF_ERROR(row_checksums_->Append(rows));
    filled_ += rows.size();
    return Append(filled_ - filled_ % kPageBytes);
  }

  // The thread with the lowest row reports it, whoever comes first.
  absl::Status Encode(ThreadTeam& team, const std::byte* stored, int64_t first,
                      int64_t count, absl::Span<std::byte> rows) {
    std::atomic<int64_t> next = 0;
    std::vector<std::optional<std::pair<int64_t, int64_t>>> refused(
        static_cast<size_t>(team.size()));
    HEARTH_RETURN_IF_ERROR(team.RunWorkers([&](int thread) {
      while (true) {
        const int64_t begin = next.fetch_add(kRowsPerPart);
        const int64_t end = std::min(begin + kRowsPerPart, count);
        for (int64_t i = begin; i < end; ++i) {
          const int64_t column =
              encoder_.Encode(thread, stored, i, rows.data());
          if (column < 0) continue;
          refused[static_cast<size_t>(thread)] = {i, column};
          return absl::OkStatus();
        }
        if (end == count || begin >= count) return absl::OkStatus();
      }
    }));
    std::optional<std::pair<int64_t, int64_t>> lowest;
    for (const auto& of_thread : refused) {
      if (of_thread && (!lowest || *of_thread < *lowest)) lowest = of_thread;
    }
    if (!lowest.has_value()) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(
        "row_dtype: column ", lowest->second, " of the features of node ",
        first + lowest->first, " of type \"", entry().name,
        "\" is infinite or not a number, which rows of ",
        RowTypeName(options_.dtype), " do not have; those of bf16 do"));
  }

  // Appends the first `bytes` of the buffer and moves the rest to its front.
  absl::Status Append(uint64_t bytes) {
    HEARTH_RETURN_IF_ERROR(writer_->Append(encoded_.bytes().first(bytes)));
    filled_ -= bytes;
    std::memmove(encoded_.bytes().data(), encoded_.bytes().data() + bytes,
                 filled_);
    return absl::OkStatus();
  }

  absl::StatusOr<ArrayFile> Finish() {
    HEARTH_RETURN_IF_ERROR(Append(filled_));
    HEARTH_ASSIGN_OR_RETURN(const FinishedArray finished, writer_->Finish());
    checked_.crc_file_crc32c = finished.file.crc_file_crc32c;
    HEARTH_RETURN_IF_ERROR(
        row_checksums_->Finish(checked_.crc_file_crc32c).status());
    return checked_;
  }

  io::FileSystem& files_;
  const Dataset& dataset_;
  const size_t type_;
  const ArrayPlace place_;
  const ConvertingOptions& options_;
  const RowFormat from_;
  RowEncoder encoder_;
  const int64_t at_once_;
  std::unique_ptr<io::ReadableFile> source_;
  std::unique_ptr<ArrayWriter> writer_;
  std::unique_ptr<BlockChecksumWriter> row_checksums_;
  // The entry of the rows as they are read, not as bytes.
  ArrayFile checked_;
  io::AlignedMemory stored_;
  // Converted rows; the first filled_ bytes are yet to be written.
  io::AlignedMemory encoded_;
  uint64_t filled_ = 0;
};

// Dataset whose features are elsewhere; `copy` is null as if there were one.
class ConvertedDataset final : public Dataset {
 public:
  ConvertedDataset(std::unique_ptr<Dataset> dataset,
                   std::unique_ptr<Dataset> copy, Manifest manifest)
      : dataset_(std::move(dataset)),
        copy_(std::move(copy)),
        manifest_(std::move(manifest)) {}

  const Manifest& manifest() const override { return manifest_; }
  const std::string& path() const override { return dataset_->path(); }

  absl::Status CheckUnchanged() const override {
    if (copy_ != nullptr) HEARTH_RETURN_IF_ERROR(copy_->CheckUnchanged());
    return dataset_->CheckUnchanged();
  }

  absl::StatusOr<std::unique_ptr<LoadedTopology>> LoadTopology(
      TopologyResidency residency, const std::stop_token& stop,
      size_t edge_type) const override {
    return dataset_->LoadTopology(residency, stop, edge_type);
  }
  absl::StatusOr<StoredTopology> OpenTopology(
      const io::BlockDeviceOptions& options, const std::stop_token& stop,
      size_t edge_type) const override {
    return dataset_->OpenTopology(options, stop, edge_type);
  }
  absl::StatusOr<Labels> LoadLabels(size_t node_type) const override {
    return dataset_->LoadLabels(node_type);
  }
  absl::StatusOr<Split> LoadSplit(size_t node_type) const override {
    return dataset_->LoadSplit(node_type);
  }

  absl::StatusOr<StoredFeatures> OpenFeatures(
      const io::BlockDeviceOptions& options, size_t node_type) const override {
    if (copy_ != nullptr) return copy_->OpenFeatures(options, node_type);
    HEARTH_ASSIGN_OR_RETURN(StoredFeatures features,
                            dataset_->OpenFeatures(options, node_type));
    const RowFormat format = StoredFormat(manifest_.node_types[node_type]);
    features.layout.row_bytes = static_cast<uint32_t>(format.row_bytes());
    features.dtype = format.dtype;
    return features;
  }

  absl::StatusOr<std::unique_ptr<LoadedFeatures>> LoadFeatures(
      Residency residency, const std::stop_token& stop,
      size_t node_type) const override {
    if (copy_ == nullptr) return NoCopy();
    return copy_->LoadFeatures(residency, stop, node_type);
  }
  absl::StatusOr<std::unique_ptr<io::ReadableFile>> ScanFeatures(
      const std::stop_token& stop, size_t node_type) const override {
    if (copy_ == nullptr) return NoCopy();
    return copy_->ScanFeatures(stop, node_type);
  }
  absl::StatusOr<std::unique_ptr<RowChecksums>> LoadRowChecksums(
      const std::stop_token& stop, size_t node_type) const override {
    if (copy_ == nullptr) return NoCopy();
    return copy_->LoadRowChecksums(stop, node_type);
  }
  absl::Status VerifyFeatures(const std::stop_token& stop,
                              size_t node_type) const override {
    if (copy_ == nullptr) return NoCopy();
    return copy_->VerifyFeatures(stop, node_type);
  }

 private:
  absl::Status NoCopy() const {
    return absl::FailedPreconditionError(
        absl::StrCat(path(), ": the features have not been converted"));
  }

  const std::unique_ptr<Dataset> dataset_;
  const std::unique_ptr<Dataset> copy_;
  const Manifest manifest_;
};

// What a copy was made by, so that a later version makes it again.
std::vector<std::string> MadeBy(DType dtype) {
  return {absl::StrCat("rows of ", RowTypeName(dtype), ", version 1")};
}

// Whether `copy` has the features of `manifest`, as the conversion to `dtype`
// gives them.
bool IsCopyOf(const Manifest& copy, const Manifest& manifest, DType dtype) {
  const auto same = [&](const NodeTypeEntry& a, const NodeTypeEntry& b) {
    return a.name == b.name && a.num_nodes == b.num_nodes &&
           a.features.path == b.features.path &&
           a.features.dtype == b.features.dtype &&
           a.features.shape == b.features.shape;
  };
  const Manifest wanted = ManifestOfConverted(manifest, dtype);
  return copy.fingerprint == wanted.fingerprint &&
         copy.transforms == wanted.transforms && copy.edge_types.empty() &&
         std::equal(copy.node_types.begin(), copy.node_types.end(),
                    wanted.node_types.begin(), wanted.node_types.end(), same);
}

// Bytes of the rows of all types, without headers.
uint64_t RowsBytes(const Manifest& manifest) {
  uint64_t bytes = 0;
  for (const NodeTypeEntry& type : manifest.node_types) {
    if (type.features.path.empty()) continue;
    bytes +=
        static_cast<uint64_t>(type.num_nodes * StoredFormat(type).row_bytes());
  }
  return bytes;
}

}  // namespace

bool TakesLess(const Manifest& manifest, DType dtype) {
  const auto as = [&](DType type) {
    return RowsBytes(ManifestOfConverted(manifest, type));
  };
  const uint64_t bytes = as(dtype);
  return bytes < RowsBytes(manifest) &&
         (dtype == DType::kBFloat16 || bytes < as(DType::kBFloat16));
}

Manifest ManifestOfConverted(const Manifest& manifest, DType dtype) {
  Manifest copy;
  copy.name = manifest.name;
  copy.fingerprint = manifest.fingerprint;
  copy.created_unix_seconds = manifest.created_unix_seconds;
  copy.transforms = MadeBy(dtype);
  for (size_t i = 0; i < manifest.node_types.size(); ++i) {
    const NodeTypeEntry& type = manifest.node_types[i];
    NodeTypeEntry& converted = copy.node_types.emplace_back();
    converted.name = type.name;
    converted.num_nodes = type.num_nodes;
    if (type.features.path.empty()) continue;
    const RowFormat format = {.dim = type.features.shape[1], .dtype = dtype};
    ArrayFile& file = converted.features;
    file.path = PlaceOf(manifest, "", i).FileName(RowTypeName(dtype));
    file.dtype = dtype;
    file.shape = {type.num_nodes, format.dim};
    file.data_offset = kRandomAccess.alignment;
    file.file_size_bytes =
        file.data_offset +
        static_cast<uint64_t>(type.num_nodes * format.row_bytes());
    file.crc_block_bytes = kRandomAccess.crc_block_bytes;
    file.crc_path = absl::StrCat(file.path, kChecksumSuffix);
  }
  return copy;
}

uint64_t ConvertingMemory(const Manifest& manifest, DType dtype, int threads) {
  uint64_t most = 0;
  for (const NodeTypeEntry& type : manifest.node_types) {
    if (type.features.path.empty()) continue;
    const auto stored = static_cast<uint64_t>(StoredFormat(type).row_bytes());
    const auto columns = static_cast<uint64_t>(type.features.shape[1]);
    const auto converted =
        static_cast<uint64_t>(RowBytes(type.features.shape[1], dtype));
    const auto rows =
        static_cast<uint64_t>(std::min(RowsAtOnce(stored), type.num_nodes));
    most = std::max(
        most, rows * (stored + converted) + kPageBytes +
                  static_cast<uint64_t>(threads) * columns * sizeof(float));
  }
  return most + kBesidesBytes;
}

absl::Status WriteConverted(io::FileSystem& files, const Dataset& dataset,
                            const std::string& folder,
                            const ConvertingOptions& options) {
  Manifest copy = ManifestOfConverted(dataset.manifest(), options.dtype);
  HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<ThreadTeam> team,
                          ThreadTeam::Create(options.threads));
  uint64_t done = 0;
  const uint64_t total = RowsBytes(dataset.manifest());
  for (size_t type = 0; type < copy.node_types.size(); ++type) {
    ArrayFile& features = copy.node_types[type].features;
    if (features.path.empty()) continue;
    HEARTH_ASSIGN_OR_RETURN(
        features, TableConverter(files, dataset, type, folder, options)
                      .Write(*team, done, total));
  }
  return io::WriteFileAtomically(files,
                                 io::JoinPath(folder, Manifest::kFileName),
                                 SerializeManifest(copy));
}

absl::StatusOr<std::unique_ptr<Dataset>> OpenConverted(
    io::FileSystem& files, const std::string& folder, const Manifest& manifest,
    DType dtype, VerificationRecord* record) {
  HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<Dataset> copy,
                          Dataset::Open(files, folder, record));
  if (!IsCopyOf(copy->manifest(), manifest, dtype)) {
    return absl::DataLossError(
        absl::StrCat(folder, ": is no copy of the features of dataset ",
                     manifest.name, " as ", RowTypeName(dtype)));
  }
  return copy;
}

std::unique_ptr<Dataset> WithConverted(std::unique_ptr<Dataset> dataset,
                                       std::unique_ptr<Dataset> copy) {
  Manifest manifest = dataset->manifest();
  for (size_t i = 0; i < manifest.node_types.size(); ++i) {
    ArrayFile& features = manifest.node_types[i].features;
    if (features.path.empty()) continue;
    features = copy->manifest().node_types[i].features;
    features.path = io::JoinPath(copy->path(), features.path);
    features.in_place = true;
  }
  return std::make_unique<ConvertedDataset>(std::move(dataset), std::move(copy),
                                            std::move(manifest));
}

std::unique_ptr<Dataset> AsIfConverted(std::unique_ptr<Dataset> dataset,
                                       DType dtype) {
  Manifest manifest = dataset->manifest();
  const Manifest copy = ManifestOfConverted(manifest, dtype);
  for (size_t i = 0; i < manifest.node_types.size(); ++i) {
    ArrayFile& features = manifest.node_types[i].features;
    if (features.path.empty()) continue;
    const uint64_t data_offset = features.data_offset;
    features = copy.node_types[i].features;
    features.data_offset = data_offset;
  }
  return std::make_unique<ConvertedDataset>(std::move(dataset), nullptr,
                                            std::move(manifest));
}

}  // namespace hearth::store
