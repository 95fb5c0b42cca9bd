#ifndef HEARTH_SERVER_MAPPING_SPEC_MAPPING_H_
#define HEARTH_SERVER_MAPPING_SPEC_MAPPING_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/job/interface/train_job_options.h"
#include "engine/job/run/train_job.h"
#include "engine/train/model_options.h"
#include "hearth/v1/spec.pb.h"

namespace hearth::server {

/// The fan-outs of edge types that "paper:cites:paper=15,10;writes=5,0" names;
/// none for an empty text. INVALID_ARGUMENT, saying what is wrong, for an entry
/// without a name or numbers, a number below -1 or above 1048576, or a name
/// that is given twice.
absl::StatusOr<std::vector<job::EdgeTypeFanouts>> ParseFanoutsOf(
    absl::string_view text);

/// Where the contract's job specs meet the engine's options; those of jobs on
/// datasets in dataset_spec_mapping.h. The other way, reports, is
/// report_mapping.h.

/// Bounds on what a spec may ask for that depend on the machine.
struct SpecLimits {
  /// Most threads of a model's operation: the machine's processors.
  uint32_t processors = 1;
  /// Processors by which threads that are not given are counted; fewer than
  /// `processors` under a CPU quota.
  uint32_t usable_processors = processors;
  /// GPUs that the daemon has; rows can be kept in the first one's memory.
  int gpus = 0;
  /// Disks over which features can be striped.
  int data_disks = 0;
  /// Whether models can be trained on them; else the reason, for users.
  absl::Status trains_on_gpus = absl::FailedPreconditionError("there is none");
};

/// Fills in the defaults that spec.proto describes and checks every field.
/// INVALID_ARGUMENT (UNIMPLEMENTED for more than one model,
/// FAILED_PRECONDITION for a GPU or disks that are not there) naming each
/// field, such as "train.data.neighbor.fanouts[2]", in the message and in a
/// google.rpc.BadRequest payload. Looks at the spec alone: whether datasets and
/// paths exist is for others.
absl::Status FillAndValidate(const SpecLimits& limits, v1::JobSpec& spec);

/// The engine's options for a validated spec.
job::PrepareJobOptions ToPrepareJobOptions(const v1::PrepareSpec& spec,
                                           const std::string& dataset_path);

/// Names what a train job has in common with those that may share its passes
/// (job::TrainJobOptions::sharing_key); empty if it shares with none. The spec
/// is validated.
std::string SharingKeyOf(const v1::TrainJobSpec& spec);

/// The engine's options for a train job. `directory` is the job's own folder.
job::TrainJobOptions ToTrainJobOptions(const v1::TrainJobSpec& spec,
                                       const std::string& dataset_path,
                                       const std::string& directory);

}  // namespace hearth::server

#endif  // HEARTH_SERVER_MAPPING_SPEC_MAPPING_H_
