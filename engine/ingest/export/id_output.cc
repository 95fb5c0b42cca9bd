#include "engine/ingest/export/id_output.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "engine/base/status_macros.h"
#include "engine/ingest/export/byte_sink.h"
#include "engine/ingest/export/npy_output.h"
#include "engine/ingest/import/file_prefixes.h"
#include "engine/ingest/source/array_reader.h"

namespace hearth::ingest {
namespace {

constexpr int64_t kBlockBytes = 256 << 10;

absl::Status WriteText(ImportContext& context, ArrayReader& text,
                       ByteSink& sink) {
  const int64_t size = text.header().NumElements();
  std::vector<std::byte> block;
  for (int64_t first = 0; first < size; first += kBlockBytes) {
    block.resize(static_cast<size_t>(std::min(kBlockBytes, size - first)));
    HEARTH_RETURN_IF_ERROR(text.ReadBytes(first, absl::MakeSpan(block)));
    HEARTH_RETURN_IF_ERROR(sink.Append(block));
    HEARTH_RETURN_IF_ERROR(context.Advance(block.size()));
  }
  // Line feeds are between the ids alone.
  HEARTH_RETURN_IF_ERROR(sink.AppendText("\n"));
  return sink.Finish();
}

}  // namespace

absl::Status WriteNodeIds(ImportContext& context, SourceGraph& graph,
                          OutputFolder& folder) {
  FilePrefixes prefixes;
  for (SourceNodes& nodes : graph.nodes) {
    const std::string prefix = prefixes.New(nodes.type);
    context.Begin("ids", 0);
    if (nodes.ids != nullptr) {
      HEARTH_RETURN_IF_ERROR(WriteIntegerNpy(context, folder, *nodes.ids,
                                             absl::StrCat(prefix, ".ids.npy")));
    }
    if (nodes.id_text != nullptr) {
      HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<ByteSink> sink,
                              folder.NewSink(absl::StrCat(prefix, ".ids.txt")));
      HEARTH_RETURN_IF_ERROR(WriteText(context, *nodes.id_text, *sink));
    }
  }
  return absl::OkStatus();
}

}  // namespace hearth::ingest
