#include "engine/ingest/formats/csv_edges.h"

#include <array>
#include <cstdint>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "engine/base/status_macros.h"
#include "engine/ingest/formats/text_arrays.h"
#include "engine/ingest/import/edge_spool.h"
#include "engine/ingest/parse/delimited.h"
#include "engine/ingest/parse/text_lines.h"

namespace hearth::ingest {
namespace {

// Between two looks at the disk and at whether the import was cancelled.
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
  // How many bytes the text has is unknown where it is compressed.
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
