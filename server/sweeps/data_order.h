#ifndef HEARTH_SERVER_SWEEPS_DATA_ORDER_H_
#define HEARTH_SERVER_SWEEPS_DATA_ORDER_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/types/span.h"
#include "hearth/v1/jobs.pb.h"

namespace hearth::server {

/// The order in which the trials of a sweep train on their data, by what
/// exists: first the data whose plans are there, then those that jobs have
/// trained on lately, so that rows may still be in memory, then the others,
/// from the nearest on by batch size and fan-outs. `data` has a validated spec
/// for each; `jobs` are those that have succeeded, the newest first; `has_plan`
/// tells whether the plan of a name can be used. Gives indices in `data`.
std::vector<uint32_t> OrderOfData(
    absl::Span<const v1::TrainJobSpec> data, absl::Span<const v1::Job> jobs,
    absl::FunctionRef<bool(const std::string& plan)> has_plan);

}  // namespace hearth::server

#endif  // HEARTH_SERVER_SWEEPS_DATA_ORDER_H_
