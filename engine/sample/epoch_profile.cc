#include "engine/sample/epoch_profile.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstring>
#include <memory>
#include <numeric>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "engine/base/crc32c.h"
#include "engine/base/status_macros.h"
#include "engine/io/atomic_file.h"

// The file: a header, then the three arrays, little-endian float32.

namespace hearth::sample {
namespace {

using store::NodeId;

constexpr char kMagic[8] = {'H', 'e', 'a', 'r', 't', 'h', 'E', 'P'};
constexpr uint32_t kVersion = 1;

struct Header {
  char magic[8];
  uint32_t version;
  // The CRC32C of all other fields and the arrays.
  uint32_t crc;
  int64_t num_nodes;
  int64_t num_seeds;
  int64_t num_rows;
  int64_t num_drawn;
  int64_t drawn_pages;
  int64_t row_pages;
  double shuffled_redundancy;
};
static_assert(std::is_trivially_copyable_v<Header>);

using Pieces = std::array<absl::Span<const std::byte>, 4>;

absl::Span<const std::byte> AsBytes(const std::vector<float>& values) {
  return {reinterpret_cast<const std::byte*>(values.data()),
          values.size() * sizeof(float)};
}

// What the file consists of; `header` has everything but its checksum.
Pieces PiecesOf(const Header& header, const EpochProfile& profile) {
  return {absl::Span<const std::byte>(
              reinterpret_cast<const std::byte*>(&header), sizeof(header)),
          AsBytes(profile.features), AsBytes(profile.sampled),
          AsBytes(profile.gathered)};
}

uint32_t CrcOf(Header header, const EpochProfile& profile) {
  header.crc = 0;
  uint32_t crc = 0;
  for (const auto& piece : PiecesOf(header, profile)) crc = Crc32c(piece, crc);
  return crc;
}

Header HeaderOf(const EpochProfile& profile) {
  Header header = {};
  std::memcpy(header.magic, kMagic, sizeof(kMagic));
  header.version = kVersion;
  header.num_nodes = profile.num_nodes();
  header.num_seeds = profile.num_seeds;
  header.num_rows = profile.num_rows;
  header.num_drawn = profile.num_drawn;
  header.drawn_pages = profile.drawn_pages;
  header.row_pages = profile.row_pages;
  header.shuffled_redundancy = profile.shuffled_redundancy;
  header.crc = CrcOf(header, profile);
  return header;
}

// Reads the header; DATA_LOSS if it is not one of a graph of `num_nodes`.
absl::StatusOr<Header> ReadHeader(io::ReadableFile& file, int64_t num_nodes) {
  Header header;
  HEARTH_RETURN_IF_ERROR(
      file.Read(0, {reinterpret_cast<std::byte*>(&header), sizeof(header)}));
  if (std::memcmp(header.magic, kMagic, sizeof(kMagic)) != 0) {
    return absl::DataLossError(
        absl::StrCat(file.path(), ": is no profile of an epoch"));
  }
  if (header.version != kVersion) {
    return absl::FailedPreconditionError(
        absl::StrCat(file.path(), ": has format version ", header.version,
                     "; this version of Hearth reads ", kVersion));
  }
  if (header.num_nodes != num_nodes) {
    return absl::DataLossError(absl::StrCat(
        file.path(), ": is of ", header.num_nodes, " nodes, not ", num_nodes));
  }
  return header;
}

absl::StatusOr<EpochProfile> ReadOnce(io::ReadableFile& file,
                                      int64_t num_nodes) {
  HEARTH_ASSIGN_OR_RETURN(const Header header, ReadHeader(file, num_nodes));
  EpochProfile profile = {.num_seeds = header.num_seeds,
                          .num_rows = header.num_rows,
                          .num_drawn = header.num_drawn,
                          .drawn_pages = header.drawn_pages,
                          .row_pages = header.row_pages,
                          .shuffled_redundancy = header.shuffled_redundancy,
                          .features = {},
                          .sampled = {},
                          .gathered = {}};
  uint64_t offset = sizeof(header);
  for (std::vector<float>* values :
       {&profile.features, &profile.sampled, &profile.gathered}) {
    values->resize(static_cast<size_t>(num_nodes));
    const uint64_t bytes = values->size() * sizeof(float);
    HEARTH_RETURN_IF_ERROR(file.Read(
        offset, {reinterpret_cast<std::byte*>(values->data()), bytes}));
    offset += bytes;
  }
  if (CrcOf(header, profile) != header.crc) {
    return absl::DataLossError(absl::StrCat(
        file.path(), ": is damaged (its checksum does not match)"));
  }
  return profile;
}

}  // namespace

double EpochProfile::redundancy() const {
  return num_seeds == 0
             ? 0
             : static_cast<double>(num_rows) / static_cast<double>(num_seeds);
}

double EpochProfile::beta() const {
  if (num_drawn == 0 || row_pages == 0) return 1;
  return static_cast<double>(drawn_pages) / static_cast<double>(num_drawn) /
         static_cast<double>(row_pages);
}

std::vector<NodeId> EpochProfile::BestHistories(int64_t count,
                                                double beta) const {
  std::vector<NodeId> nodes(static_cast<size_t>(num_nodes()));
  std::iota(nodes.begin(), nodes.end(), 0);
  const auto middle =
      nodes.begin() + std::clamp<int64_t>(count, 0, num_nodes());
  std::partial_sort(nodes.begin(), middle, nodes.end(),
                    [&](NodeId a, NodeId b) {
                      const double of_a = SavedByHistory(a, beta);
                      const double of_b = SavedByHistory(b, beta);
                      return of_a != of_b ? of_a > of_b : a < b;
                    });
  nodes.erase(middle, nodes.end());
  nodes.shrink_to_fit();
  return nodes;
}

uint64_t EpochProfileBytes(int64_t num_nodes) {
  return sizeof(Header) + 3 * sizeof(float) * static_cast<uint64_t>(num_nodes);
}

absl::Status WriteEpochProfile(io::FileSystem& files, const std::string& path,
                               const EpochProfile& profile) {
  const Header header = HeaderOf(profile);
  return io::WritePiecesAtomically(files, path, PiecesOf(header, profile));
}

absl::StatusOr<EpochProfile> ReadEpochProfile(io::FileSystem& files,
                                              const std::string& path,
                                              int64_t num_nodes) {
  HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<io::ReadableFile> file,
                          files.OpenForRead(path));
  absl::StatusOr<EpochProfile> profile = ReadOnce(*file, num_nodes);
  // Damage on the way is gone at the second reading; damage on disk is not.
  if (absl::IsDataLoss(profile.status())) profile = ReadOnce(*file, num_nodes);
  return profile;
}

}  // namespace hearth::sample
