#include "engine/job/train_job_options.h"

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"

namespace hearth::job {
namespace {

absl::Status RequireAtLeast(const char* option, int64_t value, int64_t least) {
  if (value >= least) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(option, " must be at least ", least, ", not ", value));
}

}  // namespace

absl::Status TrainJobOptions::Validate() const {
  if (data.fanouts.empty()) {
    return absl::InvalidArgumentError("fanouts must not be empty");
  }
  for (const int32_t fanout : data.fanouts) {
    if (fanout != -1 && fanout < 1) {
      return absl::InvalidArgumentError(absl::StrCat(
          "fanouts must be positive, or -1 for all neighbors, not ", fanout));
    }
  }
  HEARTH_RETURN_IF_ERROR(RequireAtLeast("batch-size", data.batch_size, 1));
  HEARTH_RETURN_IF_ERROR(RequireAtLeast("trainers", data.trainers, 1));
  if (data.trainers > train::kMaxTrainers) {
    return absl::InvalidArgumentError(absl::StrCat("trainers must be at most ",
                                                   train::kMaxTrainers,
                                                   ", not ", data.trainers));
  }
  if (data.trainers > data.batch_size) {
    return absl::InvalidArgumentError(absl::StrCat(
        data.trainers, " trainers need a batch-size of at least as many, not ",
        data.batch_size));
  }
  HEARTH_RETURN_IF_ERROR(RequireAtLeast("epochs", data.epochs, 1));
  HEARTH_RETURN_IF_ERROR(
      RequireAtLeast("distinct-epochs", data.distinct_epochs, 0));
  HEARTH_RETURN_IF_ERROR(RequireAtLeast("samplers", pipeline.samplers, 1));
  HEARTH_RETURN_IF_ERROR(RequireAtLeast("extractors", pipeline.extractors, 1));
  HEARTH_RETURN_IF_ERROR(RequireAtLeast("patience", patience, 0));
  HEARTH_RETURN_IF_ERROR(
      RequireAtLeast("checkpoint-every", checkpoint_every, 0));
  return train.Validate();
}

}  // namespace hearth::job
