#include "engine/ingest/formats/text_arrays.h"

#include <array>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/base/status.h"
#include "engine/ingest/parse/delimited_text.h"
#include "engine/ingest/source/scratch_array.h"
#include "engine/store/array_type.h"

namespace hearth::ingest {

namespace {

// Bytes of text between reports of progress, at which cancellation is noticed,
// too.
constexpr uint64_t kProgressBytes = 256 << 10;

template <typename T>
constexpr store::ElementType TypeOf() {
  return {std::is_integral_v<T> ? store::ElementType::Kind::kInt
                                : store::ElementType::Kind::kFloat,
          sizeof(T)};
}

absl::Status LineCountError(const std::string& path, int64_t lines,
                            int64_t wanted) {
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": has ", lines, " lines; ", wanted, " are needed"));
}

/// Reads lines of `T`, as many per line as in the first, into a scratch array.
template <typename T>
class MatrixReader {
 public:
  MatrixReader(ImportContext& context, const std::string& path,
               int64_t num_rows)
      : context_(context), path_(path), num_rows_(num_rows) {}

  absl::StatusOr<std::unique_ptr<ArrayReader>> Read() {
    HEARTH_ASSIGN_OR_RETURN(array_,
                            ScratchArray::Create(context_, TypeOf<T>(), path_));
    HEARTH_RETURN_IF_ERROR(ForEachLine(
        context_, path_, [this](const TextLines& line) { return Add(line); }));
    if (rows_ != num_rows_) return LineCountError(path_, rows_, num_rows_);
    return array_->Finish({rows_, static_cast<int64_t>(row_.size())});
  }

 private:
  absl::Status Add(const TextLines& line) {
    if (rows_ == 0) HEARTH_RETURN_IF_ERROR(Begin(line));
    if (rows_ == num_rows_) {
      return line.Error(
          absl::StrCat("is one more than the ", num_rows_, " nodes"));
    }
    ++rows_;
    HEARTH_RETURN_IF_ERROR(
        ParseFields(line, Separator::kComma, absl::MakeSpan(row_)));
    return array_->template AppendValues<T>(row_);
  }

  /// The first line sets the number of columns.
  absl::Status Begin(const TextLines& line) {
    std::vector<absl::string_view> fields;
    SplitFields(line.line(), Separator::kComma, fields);
    if (fields.empty()) return line.Error("is empty");
    row_.resize(fields.size());
    const auto bytes = store::ArrayBytes(
        {num_rows_, static_cast<int64_t>(fields.size())}, sizeof(T));
    if (!bytes.has_value()) return line.Error("has too many fields");
    return context_.CheckSpace(static_cast<uint64_t>(*bytes),
                               absl::StrCat("unpacking ", path_));
  }

  ImportContext& context_;
  const std::string& path_;
  const int64_t num_rows_;
  std::unique_ptr<ScratchArray> array_;
  int64_t rows_ = 0;
  std::vector<T> row_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<TextLines>> OpenTextLines(
    ImportContext& context, const std::string& path, size_t max_line_bytes) {
  HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<io::ReadableFile> file,
                          OpenSourceFile(context.files(), path));
  return TextLines::Open(std::move(file), max_line_bytes,
                         context.memory_limit_bytes() / 4);
}

absl::Status ForEachLine(
    ImportContext& context, const std::string& path,
    absl::FunctionRef<absl::Status(const TextLines& line)> visit) {
  HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<TextLines> lines,
                          OpenTextLines(context, path));
  return ForEachLine(context, *lines, visit);
}

absl::Status ForEachLine(
    ImportContext& context, TextLines& lines,
    absl::FunctionRef<absl::Status(const TextLines& line)> visit) {
  // The size of the text is unknown if the file is compressed.
  context.Begin("reading", 0);
  uint64_t unreported = 0;
  while (true) {
    HEARTH_ASSIGN_OR_RETURN(const bool more, lines.Next());
    if (!more) return context.Advance(unreported);
    HEARTH_RETURN_IF_ERROR(visit(lines));
    unreported += lines.line().size() + 1;
    if (unreported < kProgressBytes) continue;
    HEARTH_RETURN_IF_ERROR(context.Advance(unreported));
    unreported = 0;
  }
}

absl::StatusOr<int64_t> ReadTextCount(ImportContext& context,
                                      const std::string& path, int64_t least) {
  int64_t count = -1;
  HEARTH_RETURN_IF_ERROR(ForEachLine(context, path, [&](const TextLines& line) {
    if (line.number() > 1) {
      return line.Error("follows; a dataset of one graph has one line");
    }
    HEARTH_RETURN_IF_ERROR(
        ParseFields(line, Separator::kComma, absl::MakeSpan(&count, 1)));
    return count >= least ? absl::OkStatus()
                          : line.Error(absl::StrCat("is ", count, "; ", least,
                                                    " or more is needed"));
  }));
  if (count < 0) return LineCountError(path, 0, 1);
  return count;
}

absl::StatusOr<std::unique_ptr<ArrayReader>> ReadTextFloats(
    ImportContext& context, const std::string& path, int64_t num_rows) {
  return MatrixReader<float>(context, path, num_rows).Read();
}

absl::StatusOr<std::unique_ptr<ArrayReader>> ReadTextLabels(
    ImportContext& context, const std::string& path, int64_t num_rows) {
  absl::StatusOr<std::unique_ptr<ArrayReader>> ints =
      MatrixReader<int64_t>(context, path, num_rows).Read();
  // A field that is no integer may be another number, or NaN; if it is neither,
  // the error of the float reader is the one to report.
  if (!absl::IsInvalidArgument(ints.status())) return ints;
  return MatrixReader<double>(context, path, num_rows).Read();
}

absl::StatusOr<std::unique_ptr<ArrayReader>> ReadTextIds(
    ImportContext& context, const std::string& path) {
  HEARTH_ASSIGN_OR_RETURN(
      const std::unique_ptr<ScratchArray> array,
      ScratchArray::Create(context, TypeOf<int64_t>(), path));
  int64_t count = 0;
  HEARTH_RETURN_IF_ERROR(ForEachLine(context, path, [&](const TextLines& line) {
    int64_t id = 0;
    HEARTH_RETURN_IF_ERROR(
        ParseFields(line, Separator::kComma, absl::MakeSpan(&id, 1)));
    ++count;
    return array->AppendValues<int64_t>(absl::MakeConstSpan(&id, 1));
  }));
  return array->Finish({count});
}

absl::StatusOr<std::unique_ptr<EdgeSource>> ReadTextEdges(
    ImportContext& context, const std::string& path, const EdgeEnds& ends,
    int64_t num_edges) {
  const auto bytes = store::ArrayBytes({num_edges}, ScratchEdgeBytes(ends));
  if (!bytes.has_value()) return LineCountError(path, 0, num_edges);
  HEARTH_RETURN_IF_ERROR(context.CheckSpace(static_cast<uint64_t>(*bytes),
                                            absl::StrCat("unpacking ", path)));
  HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<EdgeSpool> spool,
                          EdgeSpool::Create(context));
  const std::array<int64_t, 2> limits = {ends.num_sources,
                                         ends.num_destinations};
  HEARTH_RETURN_IF_ERROR(ForEachLine(context, path, [&](const TextLines& line) {
    std::array<int64_t, 2> edge = {};
    HEARTH_RETURN_IF_ERROR(
        ParseFields(line, Separator::kComma, absl::MakeSpan(edge)));
    for (size_t i = 0; i < edge.size(); ++i) {
      if (edge[i] >= 0 && edge[i] < limits[i]) continue;
      return line.Error(absl::StrCat("has id ", edge[i], "; node ids are 0 .. ",
                                     limits[i] - 1));
    }
    return spool->Add(edge[0], edge[1]);
  }));
  if (spool->num_edges() != num_edges) {
    return LineCountError(path, spool->num_edges(), num_edges);
  }
  return spool->Finish();
}

namespace {

// Edges between two checks of the disk and of cancellation.
constexpr int64_t kEdgesAtATime = 64 << 10;
constexpr size_t kMaxLineBytes = 256;

absl::Status CheckEnd(const TextLines& lines, int64_t id, int64_t num_nodes) {
  if (id >= 0 && id < num_nodes) return absl::OkStatus();
  return lines.Error(
      absl::StrCat("has id ", id, "; node ids are 0 .. ", num_nodes - 1));
}

}  // namespace

absl::StatusOr<std::unique_ptr<EdgeSource>> ReadCsvEdges(
    ImportContext& context, const std::string& path, const EdgeEnds& ends) {
  HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<TextLines> lines,
                          OpenTextLines(context, path, kMaxLineBytes));
  HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<EdgeSpool> spool,
                          EdgeSpool::Create(context));
  // The size of the text is unknown if the file is compressed.
  context.Begin("unpacking", 0);
  const auto block_bytes =
      static_cast<uint64_t>(kEdgesAtATime * ScratchEdgeBytes(ends));
  uint64_t read = 0;
  while (true) {
    HEARTH_ASSIGN_OR_RETURN(const bool has_line, lines->Next());
    if (!has_line) break;
    if (spool->num_edges() % kEdgesAtATime == 0) {
      HEARTH_RETURN_IF_ERROR(
          context.CheckSpace(block_bytes, "unpacking the edges"));
      HEARTH_RETURN_IF_ERROR(context.Advance(std::exchange(read, 0)));
    }
    read += lines->line().size() + 1;
    std::array<int64_t, 2> edge = {};
    HEARTH_RETURN_IF_ERROR(
        ParseFields(*lines, Separator::kComma, absl::MakeSpan(edge)));
    HEARTH_RETURN_IF_ERROR(CheckEnd(*lines, edge[0], ends.num_sources));
    HEARTH_RETURN_IF_ERROR(CheckEnd(*lines, edge[1], ends.num_destinations));
    HEARTH_RETURN_IF_ERROR(spool->Add(edge[0], edge[1]));
  }
  HEARTH_RETURN_IF_ERROR(context.Advance(read));
  return spool->Finish();
}

}  // namespace hearth::ingest
