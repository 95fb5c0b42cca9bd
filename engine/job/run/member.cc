#include "engine/job/run/member.h"

#include <memory>

#include "engine/job/run/feed_member.h"
#include "engine/job/run/model_trainer.h"

namespace hearth::job {

absl::StatusOr<std::unique_ptr<Member>> NewMember(const Member::Job& job,
                                                  const store::Dataset& dataset,
                                                  const PassSchedule& passes) {
  if (job.options.feed.has_value()) {
    return std::make_unique<FeedMember>(job, dataset, passes);
  }
  return ModelTrainer::Make(job, dataset, passes);
}

}  // namespace hearth::job
