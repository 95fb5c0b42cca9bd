#include "engine/job/run/member.h"

#include <memory>

#include "engine/base/status.h"
#include "engine/job/data/passes.h"
#include "engine/job/run/feed_member.h"
#include "engine/job/run/model_trainer.h"

namespace hearth::job {

absl::StatusOr<std::unique_ptr<Member>> NewMember(const Member::Job& job,
                                                  const store::Dataset& dataset,
                                                  const PassSchedule& passes) {
  if (job.options.feed.has_value()) {
    return std::make_unique<FeedMember>(job, dataset, passes);
  }
  // The dataset may have been opened for a feed.
  HEARTH_RETURN_IF_ERROR(CheckTrainable(dataset, job.options.data));
  return ModelTrainer::Make(job, dataset, passes);
}

}  // namespace hearth::job
