#ifndef HEARTH_SERVER_MAPPING_FANOUTS_OF_H_
#define HEARTH_SERVER_MAPPING_FANOUTS_OF_H_

#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/job/train_job_options.h"

namespace hearth::server {

/// The fan-outs of edge types that "paper:cites:paper=15,10;writes=5,0" names;
/// none for an empty text. INVALID_ARGUMENT, saying what is wrong, for an entry
/// without a name or numbers, a number below -1 or above 1048576, or a name
/// that is given twice.
absl::StatusOr<std::vector<job::EdgeTypeFanouts>> ParseFanoutsOf(
    absl::string_view text);

}  // namespace hearth::server

#endif  // HEARTH_SERVER_MAPPING_FANOUTS_OF_H_
