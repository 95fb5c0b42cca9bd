#include "engine/plan/plan_stores.h"

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "engine/base/clock.h"
#include "engine/io/file_system.h"
#include "engine/io/scratch_directory.h"
#include "engine/plan/plan_lease.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hearth::plan {
namespace {

class PlanStoresTest : public ::testing::Test {
 protected:
  static void Make(PlanStore& store, const std::string& name) {
    auto lease = store.Take(name, {});
    ASSERT_TRUE(lease.ok()) << lease.status();
    ASSERT_TRUE(lease->Publish({}).ok());
    ASSERT_TRUE(lease->Share().ok());
  }

  std::vector<std::string> Names() const {
    std::vector<std::string> names;
    const auto plans = *stores_.List();
    for (const PlanInfo& plan : plans) names.push_back(plan.name);
    return names;
  }

  io::ScratchDirectory scratch_;
  PlanStore main_{io::FileSystem::Posix(),
                  Clock::Real(),
                  {.folder = scratch_.Path("main")}};
  PlanStore disk_{io::FileSystem::Posix(),
                  Clock::Real(),
                  {.folder = scratch_.Path("disk")}};
  PlanStore* const others_[1] = {&disk_};
  const PlanStores stores_{main_, others_};
};

TEST_F(PlanStoresTest, AllPlansAreShownAndFoundByName) {
  EXPECT_TRUE(Names().empty());
  Make(main_, "gids-ab-1");
  Make(disk_, "stripe-ab-2");
  EXPECT_THAT(Names(),
              ::testing::UnorderedElementsAre("gids-ab-1", "stripe-ab-2"));
  EXPECT_EQ(stores_.Get("stripe-ab-2")->strategy(), "stripe");
  EXPECT_EQ(stores_.Get("gids-ab-1")->strategy(), "gids");
  EXPECT_TRUE(absl::IsNotFound(stores_.Get("none").status()));
}

TEST_F(PlanStoresTest, APlanIsRemovedWhereItIs) {
  Make(main_, "gids-ab-1");
  Make(disk_, "stripe-ab-2");
  EXPECT_EQ(stores_.Remove("stripe-ab-2"), absl::OkStatus());
  EXPECT_THAT(Names(), ::testing::ElementsAre("gids-ab-1"));
  EXPECT_TRUE(absl::IsNotFound(stores_.Remove("stripe-ab-2")));
  const auto lease = main_.Take("gids-ab-1", {});
  EXPECT_TRUE(absl::IsFailedPrecondition(stores_.Remove("gids-ab-1")));
}

TEST_F(PlanStoresTest, PlansOfADatasetGoFromAllStores) {
  Make(main_, "gids-ab-1");
  Make(main_, "gids-cd-1");
  Make(disk_, "stripe-ab-2");
  const auto lease = main_.Take("gids-ab-1", {});
  EXPECT_TRUE(absl::IsFailedPrecondition(stores_.RemoveOf("ab")));
  EXPECT_THAT(Names(),
              ::testing::UnorderedElementsAre("gids-ab-1", "gids-cd-1"));
}

}  // namespace
}  // namespace hearth::plan
