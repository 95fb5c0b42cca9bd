#include "engine/base/version.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace hearth {
namespace {

using ::testing::HasSubstr;

TEST(VersionTest, VersionsOfOneLineSpeakWithEachOther) {
  EXPECT_TRUE(CheckVersions(kVersion, kVersion).ok());
  EXPECT_TRUE(CheckVersions("0.1.0", "0.1.7").ok());
  EXPECT_TRUE(CheckVersions("1.9.1", "1.2.0").ok());
}

TEST(VersionTest, TheErrorSaysWhichIsOlder) {
  const absl::Status older = CheckVersions("0.2.0", "0.1.9");
  EXPECT_EQ(older.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(older.message(), HasSubstr("hearthd 0.1.9 is older than"));
  EXPECT_THAT(CheckVersions("0.9.0", "1.0.0").message(),
              HasSubstr("hearthd 1.0.0 is newer than"));
  EXPECT_THAT(CheckVersions("10.0.0", "9.0.0").message(), HasSubstr("older"));
}

TEST(VersionTest, WhatIsNoVersionIsTakenToFit) {
  for (const char* version : {"", "1", "unknown", "0.x.1", "0.1.0 ", "-1.2"}) {
    EXPECT_TRUE(CheckVersions(version, kVersion).ok()) << version;
    EXPECT_TRUE(CheckVersions(kVersion, version).ok()) << version;
  }
}

}  // namespace
}  // namespace hearth
