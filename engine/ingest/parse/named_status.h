#ifndef HEARTH_ENGINE_INGEST_PARSE_NAMED_STATUS_H_
#define HEARTH_ENGINE_INGEST_PARSE_NAMED_STATUS_H_

#include <string>

#include "absl/status/status.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "engine/base/status_annotate.h"

namespace hearth::ingest {

/// `status` with "`file`: `part`: " before its message, or "`file`: " where
/// `part` is empty. Errors of reading the file name it already and stay as
/// they are.
inline absl::Status Named(const absl::Status& status, absl::string_view file,
                          absl::string_view part = "") {
  if (absl::StartsWith(status.message(), absl::StrCat(file, ": "))) {
    return status;
  }
  return Annotate(status, part.empty() ? std::string(file)
                                       : absl::StrCat(file, ": ", part));
}

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_PARSE_NAMED_STATUS_H_
