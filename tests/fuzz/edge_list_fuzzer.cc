#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "engine/ingest/formats/edge_list_layout.h"
#include "engine/ingest/formats/format_options.h"
#include "engine/ingest/parse/delimited_text.h"
#include "engine/io/file_system.h"

namespace hearth::ingest {
namespace {

EdgeListOptions OptionsOf(uint8_t choice) {
  EdgeListOptions options;
  if ((choice & 1) != 0) options.has_header = (choice & 2) != 0;
  if ((choice & 4) != 0) {
    options.source_column = (choice & 8) != 0 ? "2" : "source";
    options.destination_column = (choice & 16) != 0 ? "1" : "target";
  }
  return options;
}

void FindLayout(std::string text, const EdgeListOptions& options) {
  auto lines = TextLines::Open(io::NewMemoryFile(std::move(text)), 1000);
  if (!lines.ok()) return;
  const auto head = ReadEdgeListHead(**lines, 1000);
  if (!head.ok()) return;
  const auto layout = FindEdgeListLayout(*head, options);
  if (!layout.ok()) return;
  // Descriptions are single lines.
  for (const std::string& told :
       {layout->DescribeHeader(), layout->DescribeUnusedColumns()}) {
    if (told.find('\n') != std::string::npos) __builtin_trap();
  }
  for (const size_t column : layout->columns) {
    if (column >= layout->num_columns) __builtin_trap();
  }
  if (layout->columns[0] == layout->columns[1]) __builtin_trap();
  if (!layout->matrix.has_value()) return;
  if (layout->matrix->num_nodes < 1 || layout->matrix->num_entries < 0) {
    __builtin_trap();
  }
}

}  // namespace
}  // namespace hearth::ingest

// First lines of an edge list; the first byte selects the options.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  hearth::ingest::FindLayout(
      std::string(reinterpret_cast<const char*>(data) + 1, size - 1),
      hearth::ingest::OptionsOf(data[0]));
  return 0;
}
