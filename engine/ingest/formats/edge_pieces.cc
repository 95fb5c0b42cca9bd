#include "engine/ingest/formats/edge_pieces.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "engine/base/crc32c.h"
#include "engine/base/sha256.h"
#include "engine/base/status.h"
#include "engine/ingest/formats/edge_lines.h"
#include "engine/ingest/formats/edge_list.h"
#include "engine/ingest/formats/edge_list_layout.h"
#include "engine/ingest/formats/format_options.h"
#include "engine/ingest/formats/node_numbering.h"
#include "engine/ingest/formats/source_files.h"
#include "engine/ingest/formats/text_arrays.h"
#include "engine/ingest/parse/byte_stream.h"
#include "engine/ingest/parse/delimited_text.h"
#include "engine/ingest/source/array_reader.h"
#include "engine/ingest/source/edge_source.h"
#include "engine/ingest/source/import_context.h"
#include "engine/ingest/source/source_graph.h"
#include "engine/io/file_system.h"
#include "engine/io/whole_file.h"
#include "engine/store/strict_json.h"
#include "nlohmann/json.hpp"

// The file of a piece, little-endian:
//
//   edges whose ids are 0 .. 2^31 - 2, 8 bytes each, up to the first other one
//   zeros up to a multiple of 16, if other edges follow
//   all further edges, 16 bytes each
//   what the piece says of itself: sealed JSON
//   the size of the JSON, 8 bytes; kMagic, 8 bytes
//
// A piece is written to a file of a random name, synced, and renamed: two
// processes that make it at the same time do not meet, and either's bytes stay.

namespace hearth::ingest {
namespace {

constexpr absl::string_view kFormat = "edge list in pieces";
constexpr absl::string_view kMagic = "HEARTHPC";
constexpr size_t kTailBytes = sizeof(uint64_t) + kMagic.size();
constexpr uint64_t kMaxPlanBytes = 64 << 20;
constexpr uint64_t kMaxTrailerBytes = 64 << 10;
constexpr size_t kBufferBytes = 256 << 10;
constexpr EdgeEnds kNarrow{INT32_MAX, INT32_MAX};
constexpr EdgeEnds kWide{INT64_MAX, INT64_MAX};
constexpr int64_t kNarrowBytes = 8;
constexpr int64_t kWideBytes = 16;

absl::Span<const std::byte> BytesOf(absl::string_view text) {
  return {reinterpret_cast<const std::byte*>(text.data()), text.size()};
}

/// Fills `text` with the bytes of `file` at `offset`.
absl::Status ReadText(io::ReadableFile& file, uint64_t offset,
                      absl::Span<char> text) {
  return file.Read(offset,
                   {reinterpret_cast<std::byte*>(text.data()), text.size()});
}

/// First of the wide edges behind `num_narrow` narrow ones, in units of
/// kWideBytes.
int64_t FirstWide(int64_t num_narrow) { return (num_narrow + 1) / 2; }

int64_t BytesOfEdges(int64_t num_narrow, int64_t num_wide) {
  return num_wide == 0 ? num_narrow * kNarrowBytes
                       : (FirstWide(num_narrow) + num_wide) * kWideBytes;
}

/// Whether an edge of 8 bytes has room for the id. Ids below 0 are not numbers
/// of nodes.
bool IsNarrow(int64_t id) { return id >= 0 && id < INT32_MAX; }

/// What the file of a piece says of itself.
struct PieceTrailer {
  std::string plan_sha256;
  int64_t index = 0;
  ScratchExtent narrow;
  ScratchExtent wide;
  EdgeLineFacts facts;
};

std::string Serialize(const PieceTrailer& trailer) {
  return store::SealJson({{"version", EdgePiecePlan::kVersion},
                          {"plan_sha256", trailer.plan_sha256},
                          {"piece", trailer.index},
                          {"narrow_edges", trailer.narrow.num_edges},
                          {"narrow_crc32c", trailer.narrow.crc32c},
                          {"wide_edges", trailer.wide.num_edges},
                          {"wide_crc32c", trailer.wide.crc32c},
                          {"last_id", trailer.facts.last_id},
                          {"entries", trailer.facts.num_entries},
                          {"has_below", trailer.facts.has_below},
                          {"has_above", trailer.facts.has_above}});
}

absl::StatusOr<PieceTrailer> ParseTrailer(absl::string_view text) {
  HEARTH_ASSIGN_OR_RETURN(const nlohmann::json json,
                          store::OpenSealedJson(text));
  store::JsonFields fields(json, "piece");
  PieceTrailer trailer;
  fields.Int("version", EdgePiecePlan::kVersion, EdgePiecePlan::kVersion);
  // Their bytes fit int64, so that sizes do not overflow.
  constexpr int64_t kMaxEdges = INT64_MAX / 64;
  trailer.plan_sha256 = fields.String("plan_sha256");
  trailer.index = fields.Int("piece", 0, EdgePiecePlan::kMaxPieces);
  trailer.narrow.num_edges = fields.Int("narrow_edges", 0, kMaxEdges);
  trailer.narrow.crc32c =
      static_cast<uint32_t>(fields.Uint("narrow_crc32c", UINT32_MAX));
  trailer.wide.first_edge = FirstWide(trailer.narrow.num_edges);
  trailer.wide.num_edges = fields.Int("wide_edges", 0, kMaxEdges);
  trailer.wide.crc32c =
      static_cast<uint32_t>(fields.Uint("wide_crc32c", UINT32_MAX));
  trailer.facts.num_edges = trailer.narrow.num_edges + trailer.wide.num_edges;
  trailer.facts.last_id = fields.Int("last_id", -1, INT64_MAX - 1);
  trailer.facts.num_entries = fields.Int("entries", 0, trailer.facts.num_edges);
  trailer.facts.has_below = fields.Bool("has_below");
  trailer.facts.has_above = fields.Bool("has_above");
  HEARTH_RETURN_IF_ERROR(fields.status());
  return trailer;
}

/// Writes the file of a piece; removes what is unfinished when destroyed.
/// Single-owner.
class PieceWriter {
 public:
  static absl::StatusOr<std::unique_ptr<PieceWriter>> Create(
      io::FileSystem& files, const std::string& path) {
    HEARTH_ASSIGN_OR_RETURN(const std::string random, RandomHex(8));
    std::unique_ptr<PieceWriter> writer(new PieceWriter(
        files, path, absl::StrCat(path, ".", random, io::kTemporarySuffix)));
    HEARTH_ASSIGN_OR_RETURN(writer->file_,
                            files.CreateUncached(writer->scratch_.path()));
    return writer;
  }

  absl::Status Add(int64_t source, int64_t destination) {
    if (!is_wide_ && !(IsNarrow(source) && IsNarrow(destination))) {
      HEARTH_RETURN_IF_ERROR(Widen());
    }
    AppendScratchEdge(is_wide_ ? kWide : kNarrow, source, destination, buffer_);
    ++(is_wide_ ? wide_ : narrow_).num_edges;
    return buffer_.size() < kBufferBytes ? absl::OkStatus() : Flush();
  }

  /// Ends the piece: the protocol at the top.
  absl::Status Finish(PieceTrailer trailer) {
    HEARTH_RETURN_IF_ERROR(Flush());
    trailer.narrow = narrow_;
    trailer.wide = wide_;
    const std::string text = Serialize(trailer);
    const uint64_t size = text.size();
    std::string tail(kTailBytes, '\0');
    std::memcpy(tail.data(), &size, sizeof(size));
    std::memcpy(tail.data() + sizeof(size), kMagic.data(), kMagic.size());
    HEARTH_RETURN_IF_ERROR(file_->Append(BytesOf(absl::StrCat(text, tail))));
    HEARTH_RETURN_IF_ERROR(file_->Sync());
    HEARTH_RETURN_IF_ERROR(file_->Close());
    HEARTH_RETURN_IF_ERROR(files_.Rename(scratch_.path(), path_));
    return files_.SyncDirectory(io::ParentDirectory(path_));
  }

 private:
  PieceWriter(io::FileSystem& files, std::string path, std::string scratch)
      : files_(files),
        path_(std::move(path)),
        scratch_(files, std::move(scratch)) {}

  absl::Status Flush() {
    ScratchExtent& extent = is_wide_ ? wide_ : narrow_;
    extent.crc32c = Crc32c(buffer_, extent.crc32c);
    HEARTH_RETURN_IF_ERROR(file_->Append(buffer_));
    buffer_.clear();
    return absl::OkStatus();
  }

  absl::Status Widen() {
    HEARTH_RETURN_IF_ERROR(Flush());
    is_wide_ = true;
    if (narrow_.num_edges % 2 == 0) return absl::OkStatus();
    constexpr std::array<std::byte, kNarrowBytes> kZeros = {};
    return file_->Append(kZeros);
  }

  io::FileSystem& files_;
  const std::string path_;
  const io::ScratchFile scratch_;
  std::unique_ptr<io::WritableFile> file_;
  std::vector<std::byte> buffer_;
  bool is_wide_ = false;
  ScratchExtent narrow_;
  ScratchExtent wide_;
};

/// `status` of a piece that has to be made, with how to do that.
absl::Status ToBeMade(const absl::Status& status, const EdgePiecePlan& plan,
                      int64_t index) {
  return absl::Status(
      status.code(),
      absl::StrCat(status.message(), "; make the piece: hearth piece --of ",
                   plan.path, " --index ", index));
}

/// A piece, open for reading.
struct OpenPiece {
  std::unique_ptr<io::ReadableFile> file;
  PieceTrailer trailer;
};

absl::StatusOr<OpenPiece> ReadTrailer(io::FileSystem& files,
                                      const EdgePiecePlan& plan, int64_t index,
                                      const std::string& path) {
  OpenPiece piece;
  HEARTH_ASSIGN_OR_RETURN(piece.file, files.OpenForScan(path));
  HEARTH_ASSIGN_OR_RETURN(const io::FileInfo info, piece.file->Info());
  const auto damaged = [&](absl::string_view problem) {
    return absl::DataLossError(absl::StrCat(path, ": ", problem));
  };
  std::array<char, kTailBytes> tail;
  if (info.size_bytes < tail.size()) return damaged("is cut short");
  const uint64_t tail_begin = info.size_bytes - tail.size();
  HEARTH_RETURN_IF_ERROR(
      ReadText(*piece.file, tail_begin, absl::MakeSpan(tail)));
  uint64_t size = 0;
  std::memcpy(&size, tail.data(), sizeof(size));
  if (absl::string_view(tail.data() + sizeof(size), kMagic.size()) != kMagic ||
      size > std::min(tail_begin, kMaxTrailerBytes)) {
    return damaged("is no piece, or is cut short");
  }
  std::string text(size, '\0');
  HEARTH_RETURN_IF_ERROR(
      ReadText(*piece.file, tail_begin - size, absl::MakeSpan(text)));
  absl::StatusOr<PieceTrailer> trailer = ParseTrailer(text);
  if (!trailer.ok()) return damaged(trailer.status().message());
  piece.trailer = *std::move(trailer);
  if (piece.trailer.plan_sha256 != plan.sha256 ||
      piece.trailer.index != index) {
    return absl::FailedPreconditionError(absl::StrCat(
        path, ": is piece ", piece.trailer.index,
        piece.trailer.plan_sha256 == plan.sha256 ? "" : " of another plan"));
  }
  const auto edge_bytes = static_cast<uint64_t>(BytesOfEdges(
      piece.trailer.narrow.num_edges, piece.trailer.wide.num_edges));
  if (edge_bytes != tail_begin - size) {
    return damaged(absl::StrCat("has ", tail_begin - size, " bytes of edges; ",
                                edge_bytes, " were written"));
  }
  if (piece.trailer.wide.num_edges > 0 &&
      piece.trailer.narrow.num_edges % 2 == 1) {
    std::array<char, kNarrowBytes> zeros;
    HEARTH_RETURN_IF_ERROR(ReadText(
        *piece.file,
        static_cast<uint64_t>(piece.trailer.narrow.num_edges * kNarrowBytes),
        absl::MakeSpan(zeros)));
    if (zeros != std::array<char, kNarrowBytes>{}) {
      return damaged("has bytes between its edges");
    }
  }
  return piece;
}

/// The piece `index` in `folder`; errors of MissingPiece, with what to do.
absl::StatusOr<OpenPiece> OpenPieceIn(io::FileSystem& files,
                                      const EdgePiecePlan& plan, int64_t index,
                                      const std::string& folder) {
  const std::string path = io::JoinPath(folder, EdgePieceName(index));
  absl::StatusOr<OpenPiece> piece = ReadTrailer(files, plan, index, path);
  if (absl::IsNotFound(piece.status())) {
    return ToBeMade(absl::NotFoundError(absl::StrCat(path, ": is missing")),
                    plan, index);
  }
  if (absl::IsDataLoss(piece.status()) ||
      absl::IsFailedPrecondition(piece.status())) {
    return ToBeMade(piece.status(), plan, index);
  }
  return piece;
}

/// The edges of one piece in order. Single-owner.
class PieceReader {
 public:
  /// `any_ids`: ids are not the numbers of nodes.
  PieceReader(OpenPiece piece, bool any_ids)
      : piece_(std::move(piece)),
        any_ids_(any_ids),
        parts_{
            NewScratchEdgeSource(*piece_.file, kNarrow, piece_.trailer.narrow),
            NewScratchEdgeSource(*piece_.file, kWide, piece_.trailer.wide)} {}

  bool done() const { return next_ == piece_.trailer.facts.num_edges; }

  /// Appends up to `count` of the next edges to `block`, and returns how many.
  /// DATA_LOSS if they are not as they were written.
  absl::StatusOr<int64_t> ReadSome(int64_t count, EdgeBlock& block) {
    const int64_t num_narrow = piece_.trailer.narrow.num_edges;
    const bool is_wide = next_ >= num_narrow;
    const int64_t first = is_wide ? next_ - num_narrow : next_;
    EdgeSource& part = *parts_[is_wide ? 1 : 0];
    count = std::min(count, part.num_edges() - first);
    HEARTH_RETURN_IF_ERROR(part.Read(first, count, some_));
    HEARTH_RETURN_IF_ERROR(Append(some_.sources, block.sources));
    HEARTH_RETURN_IF_ERROR(Append(some_.destinations, block.destinations));
    next_ += count;
    return count;
  }

 private:
  // A checksum tells damage, but what made the file may be anything.
  absl::Status Append(const std::vector<int64_t>& some,
                      std::vector<int64_t>& all) const {
    const int64_t last_id = piece_.trailer.facts.last_id;
    for (const int64_t id : some) {
      if (!any_ids_ && (id < 0 || id > last_id)) {
        return absl::DataLossError(absl::StrCat(piece_.file->path(),
                                                ": has id ", id,
                                                "; the largest is ", last_id));
      }
    }
    all.insert(all.end(), some.begin(), some.end());
    return absl::OkStatus();
  }

  const OpenPiece piece_;
  const bool any_ids_;
  const std::array<std::unique_ptr<EdgeSource>, 2> parts_;
  int64_t next_ = 0;
  EdgeBlock some_;
};

/// The edges of all pieces, one piece after another. One file is open at a
/// time.
class PieceEdges final : public EdgeSource {
 public:
  PieceEdges(io::FileSystem& files, EdgePiecePlan plan, std::string folder,
             int64_t num_edges)
      : files_(files),
        plan_(std::move(plan)),
        folder_(std::move(folder)),
        num_edges_(num_edges) {}

  int64_t num_edges() const override { return num_edges_; }

  absl::Status Read(int64_t first, int64_t count, EdgeBlock& block) override {
    block.sources.clear();
    block.destinations.clear();
    if (first == 0) {
      index_ = -1;
      reader_.reset();
    }
    while (count > 0) {
      while (reader_ == nullptr || reader_->done()) {
        HEARTH_RETURN_IF_ERROR(OpenNext());
      }
      const absl::StatusOr<int64_t> read = reader_->ReadSome(count, block);
      if (absl::IsDataLoss(read.status())) {
        return ToBeMade(read.status(), plan_, index_);
      }
      HEARTH_RETURN_IF_ERROR(read.status());
      count -= *read;
    }
    return absl::OkStatus();
  }

 private:
  absl::Status OpenNext() {
    reader_.reset();
    if (++index_ == plan_.num_pieces()) {
      return absl::DataLossError(
          absl::StrCat(folder_, ": pieces were replaced while they were read"));
    }
    HEARTH_ASSIGN_OR_RETURN(OpenPiece piece,
                            OpenPieceIn(files_, plan_, index_, folder_));
    reader_ = std::make_unique<PieceReader>(std::move(piece), plan_.relabels());
    return absl::OkStatus();
  }

  io::FileSystem& files_;
  const EdgePiecePlan plan_;
  const std::string folder_;
  const int64_t num_edges_;
  int64_t index_ = -1;
  std::unique_ptr<PieceReader> reader_;
};

std::string SerializePlan(const EdgePiecePlan& plan) {
  nlohmann::ordered_json texts = nlohmann::ordered_json::array();
  for (const EdgePiecePlan::Text& text : plan.texts) {
    texts.push_back({{"path", text.path},
                     {"size_bytes", text.size_bytes},
                     {"modified_unix_nanos", text.modified_unix_nanos},
                     {"bounds", text.bounds}});
  }
  nlohmann::ordered_json json = {
      {"format", kFormat},
      {"version", EdgePiecePlan::kVersion},
      {"texts", std::move(texts)},
      {"relabel", plan.options.relabel},
      {"source_column", plan.options.source_column},
      {"destination_column", plan.options.destination_column},
      {"reason", plan.reason},
      {"transforms", plan.transforms},
      {"warnings", plan.warnings}};
  if (plan.options.has_header.has_value()) {
    json["has_header"] = *plan.options.has_header;
  }
  if (plan.matrix.has_value()) {
    json["matrix"] = {{"num_nodes", plan.matrix->num_nodes},
                      {"num_entries", plan.matrix->num_entries},
                      {"is_symmetric", plan.matrix->is_symmetric},
                      {"line", plan.matrix_line}};
  }
  return store::SealJson(json);
}

EdgePiecePlan::Text ParseText(store::JsonFields& fields) {
  EdgePiecePlan::Text text;
  text.path = fields.String("path");
  text.size_bytes = fields.Uint("size_bytes", INT64_MAX);
  text.modified_unix_nanos =
      fields.Int("modified_unix_nanos", INT64_MIN, INT64_MAX);
  text.bounds = fields.NonNegativeInts("bounds");
  const std::vector<int64_t>& bounds = text.bounds;
  if (bounds.size() < 2 || bounds.front() != 0 ||
      static_cast<uint64_t>(bounds.back()) != text.size_bytes ||
      std::adjacent_find(bounds.begin(), bounds.end(),
                         std::greater_equal<>()) != bounds.end()) {
    fields.Fail("bounds", "are not ascending from 0 to the size");
  }
  return text;
}

absl::StatusOr<EdgePiecePlan> ParsePlan(absl::string_view contents) {
  HEARTH_ASSIGN_OR_RETURN(const nlohmann::json json,
                          store::OpenSealedJson(contents));
  store::JsonFields fields(json, "plan");
  if (fields.String("format") != kFormat) {
    fields.Fail("format", absl::StrCat("is not \"", kFormat, "\""));
  }
  fields.Int("version", EdgePiecePlan::kVersion, EdgePiecePlan::kVersion);
  EdgePiecePlan plan;
  for (store::JsonFields& text : fields.Objects("texts")) {
    plan.texts.push_back(ParseText(text));
    fields.Absorb(text);
  }
  plan.options.relabel = fields.Bool("relabel");
  plan.options.source_column = fields.String("source_column");
  plan.options.destination_column = fields.String("destination_column");
  if (fields.Has("has_header")) {
    plan.options.has_header = fields.Bool("has_header");
  }
  plan.reason = fields.String("reason");
  plan.transforms = fields.Strings("transforms");
  plan.warnings = fields.Strings("warnings");
  if (fields.Has("matrix")) {
    store::JsonFields matrix = fields.Object("matrix");
    plan.matrix.emplace();
    plan.matrix->num_nodes = matrix.Int("num_nodes", 1, INT64_MAX);
    plan.matrix->num_entries = matrix.Int("num_entries", 0, INT64_MAX);
    plan.matrix->is_symmetric = matrix.Bool("is_symmetric");
    plan.matrix_line = matrix.Int("line", 1, INT64_MAX);
    fields.Absorb(matrix);
  }
  if (plan.num_pieces() < 1 || plan.num_pieces() > EdgePiecePlan::kMaxPieces) {
    fields.Fail("texts", "have no pieces, or too many");
  }
  HEARTH_RETURN_IF_ERROR(fields.status());
  Sha256 digest;
  digest.Update(contents);
  plan.sha256 = digest.HexDigest();
  return plan;
}

/// Offset behind the `count`th end of a line at or after `begin`; the size of
/// the file if there are fewer. INVALID_ARGUMENT if a line is longer than any
/// that is read.
absl::StatusOr<int64_t> EndOfLine(io::ReadableFile& file, uint64_t size,
                                  int64_t begin, int64_t count) {
  // A line, and the two bytes of its end.
  constexpr size_t kMostBytes = TextLines::kMaxLineBytes + 2;
  // Few bytes tell the end of a usual line.
  std::vector<char> bytes(4096);
  auto offset = static_cast<uint64_t>(begin);
  while (offset < size) {
    const absl::Span<char> some = absl::MakeSpan(bytes).first(
        std::min<uint64_t>(bytes.size(), size - offset));
    HEARTH_RETURN_IF_ERROR(ReadText(file, offset, some));
    const auto* const end =
        static_cast<const char*>(std::memchr(some.data(), '\n', some.size()));
    if (end != nullptr) {
      offset += static_cast<uint64_t>(end - some.data()) + 1;
      if (--count == 0) return static_cast<int64_t>(offset);
    } else if (some.size() == size - offset) {
      break;
    } else if (some.size() == kMostBytes) {
      return absl::InvalidArgumentError(
          absl::StrCat(file.path(), ": the line at byte ", offset,
                       " is longer than ", TextLines::kMaxLineBytes, " bytes"));
    } else {
      bytes.resize(kMostBytes);
    }
  }
  return static_cast<int64_t>(size);
}

/// Cuts a text behind its header into pieces of whole lines.
absl::Status Cut(io::ReadableFile& file, int64_t header_line,
                 uint64_t piece_bytes, EdgePiecePlan::Text& text) {
  text.bounds = {0};
  HEARTH_ASSIGN_OR_RETURN(const bool is_compressed, IsCompressedText(file));
  if (!is_compressed) {
    int64_t least = 1;
    if (header_line > 0) {
      HEARTH_ASSIGN_OR_RETURN(least,
                              EndOfLine(file, text.size_bytes, 0, header_line));
    }
    while (text.size_bytes - static_cast<uint64_t>(text.bounds.back()) >
           piece_bytes) {
      const int64_t wanted =
          text.bounds.back() + static_cast<int64_t>(piece_bytes);
      // The byte before a bound ends a line.
      HEARTH_ASSIGN_OR_RETURN(
          const int64_t bound,
          EndOfLine(file, text.size_bytes, std::max(wanted, least) - 1, 1));
      if (static_cast<uint64_t>(bound) == text.size_bytes) break;
      text.bounds.push_back(bound);
      if (text.num_pieces() > EdgePiecePlan::kMaxPieces) break;
    }
  }
  text.bounds.push_back(static_cast<int64_t>(text.size_bytes));
  return absl::OkStatus();
}

/// Adds those of `some` that `all` does not have.
void AddNew(const std::vector<std::string>& some,
            std::vector<std::string>& all) {
  for (const std::string& text : some) {
    if (std::find(all.begin(), all.end(), text) == all.end()) {
      all.push_back(text);
    }
  }
}

/// Adds the text at `path` to the plan.
absl::Status AddText(ImportContext& context, const std::string& path,
                     uint64_t piece_bytes, std::vector<std::string>& reasons,
                     EdgePiecePlan& plan) {
  if (!absl::StartsWith(path, "/") || !store::IsUtf8(path)) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": the path of a text must be absolute, and UTF-8"));
  }
  HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<io::ReadableFile> file,
                          OpenSourceFile(context.files(), path));
  HEARTH_ASSIGN_OR_RETURN(const io::FileInfo info, file->Info());
  HEARTH_ASSIGN_OR_RETURN(std::string reason,
                          RecognizeEdgeList(context.files(), path));
  HEARTH_ASSIGN_OR_RETURN(const EdgeListText list,
                          ReadEdgeListText(context, path, plan.options));
  std::vector<std::string> transforms, warnings;
  list.TellIn(transforms, warnings);
  AddNew({std::move(reason)}, reasons);
  AddNew(transforms, plan.transforms);
  AddNew(warnings, plan.warnings);
  if (list.layout.matrix.has_value()) {
    if (plan.options.relabel) {
      plan.warnings.insert(plan.warnings.begin(), kMatrixIsNotRelabeled);
    }
    plan.matrix = list.layout.matrix;
    plan.matrix_line = list.layout.header_line;
  }
  EdgePiecePlan::Text& text = plan.texts.emplace_back();
  text.path = path;
  text.size_bytes = info.size_bytes;
  text.modified_unix_nanos = absl::ToUnixNanos(info.modified);
  return Cut(*file, list.layout.header_line, piece_bytes, text);
}

/// The text of piece `index`, and the piece's number within it.
std::pair<const EdgePiecePlan::Text*, size_t> FindText(
    const EdgePiecePlan& plan, int64_t index) {
  for (const EdgePiecePlan::Text& text : plan.texts) {
    if (index < text.num_pieces()) return {&text, static_cast<size_t>(index)};
    index -= text.num_pieces();
  }
  return {nullptr, 0};
}

/// Whether the path leads to the text that was cut. To be asked before and
/// after it is read, since another file may take its place.
absl::Status CheckUnchanged(io::FileSystem& files, const EdgePiecePlan& plan,
                            const EdgePiecePlan::Text& text) {
  HEARTH_ASSIGN_OR_RETURN(const io::FileInfo info, files.Stat(text.path));
  if (info.size_bytes == text.size_bytes &&
      absl::ToUnixNanos(info.modified) == text.modified_unix_nanos) {
    return absl::OkStatus();
  }
  return absl::FailedPreconditionError(
      absl::StrCat(text.path, ": was changed since ", plan.path,
                   " was made, or is not the same file here"));
}

/// The lines of a piece.
absl::StatusOr<std::unique_ptr<TextLines>> OpenLines(
    ImportContext& context, const EdgePiecePlan::Text& text, size_t number) {
  if (text.num_pieces() == 1) return OpenTextLines(context, text.path);
  HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<io::ReadableFile> file,
                          OpenSourceFile(context.files(), text.path));
  return std::make_unique<TextLines>(
      NewRangeStream(std::move(file),
                     static_cast<uint64_t>(text.bounds[number]),
                     static_cast<uint64_t>(text.bounds[number + 1])),
      TextLines::kMaxLineBytes,
      number == 0 ? TextLines::Part::kBegin : TextLines::Part::kRest);
}

/// Names the texts of a plan in messages.
std::string NameOf(const EdgePiecePlan& plan) {
  const size_t others = plan.texts.size() - 1;
  return others == 0 ? plan.texts[0].path
                     : absl::StrCat(plan.texts[0].path, " and ", others,
                                    others == 1 ? " other" : " others");
}

/// The graph of all pieces, whose ids are the numbers of nodes.
absl::StatusOr<SourceGraph> Join(ImportContext& context, EdgePiecePlan plan,
                                 const std::string& folder,
                                 const EdgeLineFacts& facts) {
  EdgeListLayout layout;
  layout.matrix = plan.matrix;
  layout.header_line = plan.matrix_line;
  HEARTH_RETURN_IF_ERROR(CheckEdgeLines(NameOf(plan), layout, facts));
  if (plan.matrix.has_value() && facts.last_id >= plan.matrix->num_nodes) {
    return absl::DataLossError(absl::StrCat(folder, ": has id ", facts.last_id,
                                            " in a matrix of ",
                                            plan.matrix->num_nodes, " rows"));
  }
  return GraphOfEdgeLines(
      layout, facts,
      std::make_unique<PieceEdges>(context.files(), std::move(plan), folder,
                                   facts.num_edges));
}

/// The same, whose ids are any numbers: numbers the nodes by them.
absl::StatusOr<SourceGraph> JoinRelabeled(ImportContext& context,
                                          EdgePiecePlan plan,
                                          const std::string& folder,
                                          const EdgeLineFacts& facts) {
  constexpr int64_t kBlockEdges = 4 << 10;
  const std::string name = NameOf(plan);
  HEARTH_ASSIGN_OR_RETURN(
      const std::unique_ptr<NodeNumbering> numbering,
      NodeNumbering::Create(context, NodeNumbering::IdKind::kNumbers, name));
  PieceEdges edges(context.files(), std::move(plan), folder, facts.num_edges);
  context.Begin("reading",
                static_cast<uint64_t>(facts.num_edges) * 2 * sizeof(int64_t));
  EdgeBlock block;
  for (int64_t first = 0; first < facts.num_edges; first += kBlockEdges) {
    const int64_t count = std::min(kBlockEdges, facts.num_edges - first);
    HEARTH_RETURN_IF_ERROR(edges.Read(first, count, block));
    for (size_t i = 0; i < block.size(); ++i) {
      HEARTH_RETURN_IF_ERROR(
          numbering->Add(block.sources[i], block.destinations[i]));
    }
    HEARTH_RETURN_IF_ERROR(
        context.Advance(static_cast<uint64_t>(count) * 2 * sizeof(int64_t)));
  }
  HEARTH_ASSIGN_OR_RETURN(NumberedEdges numbered, numbering->Finish());
  return GraphOfNumberedEdges(name, std::move(numbered),
                              /*ids_are_text=*/false);
}

}  // namespace

int64_t EdgePiecePlan::num_pieces() const {
  int64_t sum = 0;
  for (const Text& text : texts) sum += text.num_pieces();
  return sum;
}

absl::StatusOr<EdgePiecePlan> PlanEdgePieces(
    ImportContext& context, const std::vector<std::string>& texts,
    const EdgeListOptions& options, uint64_t piece_bytes,
    const std::string& folder) {
  if (texts.empty() || piece_bytes == 0 || piece_bytes > INT64_MAX / 2) {
    return absl::InvalidArgumentError(
        "a plan of pieces needs a text, and a size of pieces");
  }
  EdgePiecePlan plan;
  plan.options = options;
  std::vector<std::string> reasons;
  for (const std::string& path : texts) {
    HEARTH_RETURN_IF_ERROR(AddText(context, path, piece_bytes, reasons, plan));
  }
  plan.reason = absl::StrJoin(reasons, "; ");
  if (plan.matrix.has_value() && texts.size() > 1) {
    return absl::InvalidArgumentError(
        absl::StrCat(NameOf(plan),
                     ": a Matrix Market file is a graph of its own, and "
                     "cannot be read together with other files"));
  }
  if (plan.num_pieces() > EdgePiecePlan::kMaxPieces) {
    return absl::InvalidArgumentError(absl::StrCat(
        NameOf(plan), ": has more than ", EdgePiecePlan::kMaxPieces,
        " pieces of ", piece_bytes, " bytes: larger pieces are needed"));
  }
  const std::string contents = SerializePlan(plan);
  const std::string path = io::JoinPath(folder, EdgePiecePlan::kFileName);
  const absl::StatusOr<std::string> there =
      io::ReadWholeFile(context.files(), path, kMaxPlanBytes);
  if (absl::IsNotFound(there.status())) {
    HEARTH_RETURN_IF_ERROR(
        io::WriteFileAtomically(context.files(), path, contents));
  } else {
    HEARTH_RETURN_IF_ERROR(there.status());
    if (*there != contents) {
      return absl::AlreadyExistsError(absl::StrCat(
          path, ": is another plan, or of texts that have changed since"));
    }
  }
  return ReadEdgePiecePlan(context.files(), path);
}

absl::StatusOr<EdgePiecePlan> ReadEdgePiecePlan(io::FileSystem& files,
                                                const std::string& path) {
  HEARTH_ASSIGN_OR_RETURN(const std::string contents,
                          io::ReadWholeFile(files, path, kMaxPlanBytes));
  absl::StatusOr<EdgePiecePlan> plan = ParsePlan(contents);
  if (!plan.ok()) return Annotate(plan.status(), path);
  plan->path = path;
  return plan;
}

std::string EdgePieceName(int64_t index) {
  return absl::StrFormat("piece-%06d.edges", index);
}

absl::Status MakeEdgePiece(ImportContext& context, const EdgePiecePlan& plan,
                           int64_t index, const std::string& folder) {
  if (index < 0 || index >= plan.num_pieces()) {
    return absl::InvalidArgumentError(
        absl::StrCat(plan.path, ": has pieces 0 .. ", plan.num_pieces() - 1,
                     ", no piece ", index));
  }
  const auto [text, number] = FindText(plan, index);
  HEARTH_RETURN_IF_ERROR(CheckUnchanged(context.files(), plan, *text));
  HEARTH_ASSIGN_OR_RETURN(EdgeListText list,
                          ReadEdgeListText(context, text->path, plan.options));
  if (number > 0) list.layout.header_line = 0;
  HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<TextLines> lines,
                          OpenLines(context, *text, number));
  HEARTH_ASSIGN_OR_RETURN(
      const std::unique_ptr<PieceWriter> writer,
      PieceWriter::Create(context.files(),
                          io::JoinPath(folder, EdgePieceName(index))));
  PieceTrailer trailer;
  trailer.plan_sha256 = plan.sha256;
  trailer.index = index;
  const auto add = [&](int64_t source, int64_t destination) {
    return writer->Add(source, destination);
  };
  if (plan.relabels()) {
    const absl::Status read =
        ReadNumberIdLines(context, *lines, list.layout, add, trailer.facts);
    if (absl::IsInvalidArgument(read)) {
      return absl::InvalidArgumentError(
          absl::StrCat(read.message(),
                       "; edges between ids of text are not read in pieces"));
    }
    HEARTH_RETURN_IF_ERROR(read);
  } else {
    HEARTH_RETURN_IF_ERROR(
        ReadEdgeLines(context, *lines, list.layout, add, trailer.facts));
  }
  HEARTH_RETURN_IF_ERROR(CheckUnchanged(context.files(), plan, *text));
  return writer->Finish(std::move(trailer));
}

absl::StatusOr<std::vector<MissingPiece>> FindMissingPieces(
    ImportContext& context, const EdgePiecePlan& plan,
    const std::string& folder, bool read_all) {
  constexpr int64_t kBlockEdges = 64 << 10;
  std::vector<MissingPiece> missing;
  context.Begin("checking", 0);
  for (int64_t index = 0; index < plan.num_pieces(); ++index) {
    absl::StatusOr<OpenPiece> piece =
        OpenPieceIn(context.files(), plan, index, folder);
    absl::Status status = piece.status();
    if (status.ok() && read_all) {
      PieceReader reader(*std::move(piece), plan.relabels());
      EdgeBlock block;
      while (status.ok() && !reader.done()) {
        block.sources.clear();
        block.destinations.clear();
        status = reader.ReadSome(kBlockEdges, block).status();
        HEARTH_RETURN_IF_ERROR(context.Advance(block.size() * kNarrowBytes));
      }
      if (absl::IsDataLoss(status)) status = ToBeMade(status, plan, index);
    }
    if (absl::IsNotFound(status) || absl::IsDataLoss(status) ||
        absl::IsFailedPrecondition(status)) {
      missing.push_back({index, std::move(status)});
      continue;
    }
    HEARTH_RETURN_IF_ERROR(status);
  }
  return missing;
}

absl::StatusOr<std::string> RecognizeEdgePieces(io::FileSystem& files,
                                                const std::string& source) {
  const absl::StatusOr<io::FileInfo> info = files.Stat(source);
  if (absl::IsNotFound(info.status())) return "";
  HEARTH_RETURN_IF_ERROR(info.status());
  if (!info->is_directory) return "";
  const std::string path = io::JoinPath(source, EdgePiecePlan::kFileName);
  HEARTH_ASSIGN_OR_RETURN(const bool exists, Exists(files, path));
  if (!exists) return "";
  HEARTH_ASSIGN_OR_RETURN(const EdgePiecePlan plan,
                          ReadEdgePiecePlan(files, path));
  return plan.reason;
}

absl::StatusOr<SourceGraph> OpenEdgePieces(ImportContext& context,
                                           const std::string& source,
                                           const EdgeListOptions& options) {
  if (options.relabel || options.has_header.has_value() ||
      !options.source_column.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(
        source,
        ": is an edge list in pieces, whose plan says where its ids are: "
        "--relabel, --header and --columns do not apply"));
  }
  HEARTH_ASSIGN_OR_RETURN(
      EdgePiecePlan plan,
      ReadEdgePiecePlan(context.files(),
                        io::JoinPath(source, EdgePiecePlan::kFileName)));
  EdgeLineFacts facts;
  for (int64_t index = 0; index < plan.num_pieces(); ++index) {
    HEARTH_ASSIGN_OR_RETURN(const OpenPiece piece,
                            OpenPieceIn(context.files(), plan, index, source));
    facts.Add(piece.trailer.facts);
    HEARTH_RETURN_IF_ERROR(context.Advance(0));
  }
  const std::vector<std::string> transforms = plan.transforms;
  const std::vector<std::string> warnings = plan.warnings;
  HEARTH_ASSIGN_OR_RETURN(
      SourceGraph graph,
      plan.relabels() ? JoinRelabeled(context, std::move(plan), source, facts)
                      : Join(context, std::move(plan), source, facts));
  graph.transforms.insert(graph.transforms.end(), transforms.begin(),
                          transforms.end());
  graph.warnings.insert(graph.warnings.end(), warnings.begin(), warnings.end());
  return graph;
}

}  // namespace hearth::ingest
