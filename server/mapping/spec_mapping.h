#ifndef HEARTH_SERVER_MAPPING_SPEC_MAPPING_H_
#define HEARTH_SERVER_MAPPING_SPEC_MAPPING_H_

#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/feed/channel.h"
#include "engine/job/interface/train_job_options.h"
#include "engine/job/run/train_job.h"
#include "engine/train/model_options.h"
#include "hearth/v1/spec.pb.h"

namespace hearth::server {

/// Fan-outs of edge types in a text such as
/// "paper:cites:paper=15,10;writes=5,0"; none for an empty text.
/// INVALID_ARGUMENT, naming the fault, for an entry without a name or numbers,
/// a number below -1 or above 1048576, or a name that is given twice.
absl::StatusOr<std::vector<job::EdgeTypeFanouts>> ParseFanoutsOf(
    absl::string_view text);

/// Conversion of the contract's job specs to the engine's options. Jobs on
/// datasets are in dataset_spec_mapping.h, reports (the other direction) in
/// report_mapping.h.

/// Limits of a spec that depend on the machine.
struct SpecLimits {
  /// Most threads of a model's operations: the machine's processors.
  uint32_t processors = 1;
  /// Processors for defaults of threads; fewer than `processors` under a CPU
  /// quota.
  uint32_t usable_processors = processors;
  /// GPUs of the daemon; the first one's memory can keep rows.
  int gpus = 0;
  /// Disks over which features can be striped.
  int data_disks = 0;
  /// Whether the daemon has a cluster, whose members can train together.
  bool has_cluster = false;
  /// Whether models can be trained on GPUs; otherwise the reason, for users.
  absl::Status trains_on_gpus = absl::FailedPreconditionError("there is none");
};

/// Fills in the defaults that spec.proto describes and checks every field.
/// INVALID_ARGUMENT (UNIMPLEMENTED for more than one model, FAILED_PRECONDITION
/// for missing GPUs or disks) naming each field, such as
/// "train.data.neighbor.fanouts[2]", in the message and in a
/// google.rpc.BadRequest payload. Checks the spec alone, not whether datasets
/// and paths exist.
absl::Status FillAndValidate(const SpecLimits& limits, v1::JobSpec& spec);

/// Engine's options for a validated spec.
job::PrepareJobOptions ToPrepareJobOptions(const v1::PrepareSpec& spec,
                                           const std::string& dataset_path);

/// Key that is equal for train jobs and feeds that may share passes
/// (job::TrainJobOptions::sharing_key); empty if the job shares none, and where
/// machines > 1. REQUIRES: a validated spec.
std::string SharingKeyOf(const v1::TrainJobSpec& spec);
std::string SharingKeyOf(const v1::FeedSpec& spec);

/// SharingKeyOf, also of jobs that ask for several machines: those then share
/// passes with jobs that ask for the same ones.
std::string ConvoyKeyOf(const v1::TrainJobSpec& spec);

/// Engine's options for a train job. `directory` is the job's own folder.
job::TrainJobOptions ToTrainJobOptions(const v1::TrainJobSpec& spec,
                                       const std::string& dataset_path,
                                       const std::string& directory);

/// The files that have the nodes of a feed's own, in the job's folder
/// `directory`, once its client has sent them.
job::OwnNodes ToOwnNodes(const v1::FeedSpec& spec,
                         const std::string& directory);

/// Engine's options for a feed, whose clients are at `channels`, one for each
/// of its trainers. `directory` is the job's own folder.
using Channels = std::vector<std::shared_ptr<feed::Channel>>;
job::TrainJobOptions ToFeedJobOptions(const v1::FeedSpec& spec,
                                      const std::string& dataset_path,
                                      const std::string& directory,
                                      Channels channels);

}  // namespace hearth::server

#endif  // HEARTH_SERVER_MAPPING_SPEC_MAPPING_H_
