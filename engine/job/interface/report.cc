#include "engine/job/interface/report.h"

#include <array>
#include <cstddef>
#include <cstring>
#include <limits>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/base/crc32c.h"
#include "engine/base/status.h"
#include "engine/io/whole_file.h"

// The file: a header, the name of the profile, [embeddings] int64 nodes;
// little-endian.

namespace hearth::job {

namespace {

using store::NodeId;

constexpr char kFile[] = "history";
constexpr char kMagic[8] = {'H', 'e', 'a', 'r', 't', 'h', 'H', 'C'};
constexpr uint32_t kVersion = 1;
constexpr double kNoShare = -1;

struct Header {
  char magic[8];
  uint32_t version;
  // CRC32C of all other fields and of the bytes after the header.
  uint32_t crc;
  int64_t embeddings;
  uint64_t bytes;
  int64_t staleness;
  double share;
  double sample_weight;
  double redundancy;
  double shuffled_redundancy;
  uint64_t name_bytes;
};
static_assert(std::is_trivially_copyable_v<Header>);

absl::Span<const std::byte> BytesOf(absl::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

uint32_t CrcOf(Header header, absl::Span<const std::byte> rest) {
  header.crc = 0;
  return Crc32c(rest, Crc32c({reinterpret_cast<const std::byte*>(&header),
                              sizeof(header)}));
}

}  // namespace

absl::Status WriteHistoryChoice(io::FileSystem& files,
                                const std::string& folder,
                                const KeptHistoryChoice& kept) {
  const HistoryChoice& choice = kept.choice;
  std::string rest = choice.profile;
  rest.append(reinterpret_cast<const char*>(kept.nodes.data()),
              kept.nodes.size() * sizeof(NodeId));
  Header header = {};
  std::memcpy(header.magic, kMagic, sizeof(kMagic));
  header.version = kVersion;
  header.embeddings = choice.embeddings;
  header.bytes = choice.bytes;
  header.staleness = choice.staleness;
  header.share = choice.share.value_or(kNoShare);
  header.sample_weight = choice.sample_weight;
  header.redundancy = choice.redundancy;
  header.shuffled_redundancy = choice.shuffled_redundancy;
  header.name_bytes = choice.profile.size();
  header.crc = CrcOf(header, BytesOf(rest));
  return io::WritePiecesAtomically(
      files, io::JoinPath(folder, kFile),
      {{reinterpret_cast<const std::byte*>(&header), sizeof(header)},
       BytesOf(rest)});
}

absl::StatusOr<KeptHistoryChoice> ReadHistoryChoice(io::FileSystem& files,
                                                    const std::string& folder) {
  const std::string path = io::JoinPath(folder, kFile);
  HEARTH_ASSIGN_OR_RETURN(
      const std::string text,
      io::ReadWholeFile(files, path, std::numeric_limits<uint64_t>::max()));
  Header header;
  absl::string_view rest = text;
  if (rest.size() < sizeof(header)) {
    return absl::DataLossError(absl::StrCat(path, ": is cut off"));
  }
  std::memcpy(&header, rest.data(), sizeof(header));
  rest.remove_prefix(sizeof(header));
  if (std::memcmp(header.magic, kMagic, sizeof(kMagic)) != 0) {
    return absl::DataLossError(
        absl::StrCat(path, ": is no choice of a history"));
  }
  if (header.version != kVersion) {
    return absl::FailedPreconditionError(
        absl::StrCat(path, ": has format version ", header.version,
                     "; this version of Hearth reads ", kVersion));
  }
  // The counts are trusted only after the checksum, which covers them.
  if (header.crc != CrcOf(header, BytesOf(rest)) ||
      header.name_bytes +
              static_cast<uint64_t>(header.embeddings) * sizeof(NodeId) !=
          rest.size()) {
    return absl::DataLossError(
        absl::StrCat(path, ": is damaged (its checksum does not match)"));
  }
  KeptHistoryChoice kept;
  kept.choice = {.embeddings = header.embeddings,
                 .bytes = header.bytes,
                 .staleness = header.staleness,
                 .share = header.share == kNoShare
                              ? std::nullopt
                              : std::optional(header.share),
                 .sample_weight = header.sample_weight,
                 .redundancy = header.redundancy,
                 .shuffled_redundancy = header.shuffled_redundancy,
                 .profile = std::string(rest.substr(0, header.name_bytes))};
  rest.remove_prefix(header.name_bytes);
  kept.nodes.resize(static_cast<size_t>(header.embeddings));
  if (!rest.empty()) std::memcpy(kept.nodes.data(), rest.data(), rest.size());
  return kept;
}

}  // namespace hearth::job
