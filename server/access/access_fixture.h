#ifndef HEARTH_SERVER_ACCESS_ACCESS_FIXTURE_H_
#define HEARTH_SERVER_ACCESS_ACCESS_FIXTURE_H_

#include <gtest/gtest.h>

#include <filesystem>
#include <memory>
#include <string>

#include "engine/base/clock.h"
#include "engine/io/file_system.h"
#include "server/access/access_control.h"
#include "server/storage/disk_space.h"
#include "server/storage/job_store.h"
#include "server/storage/sweep_store.h"
#include "server/storage/token_store.h"
#include "server/storage/upload_staging.h"

namespace hearth::server {

/// AccessControl with all that it uses, in an empty folder `name`; for tests.
class AccessTest : public ::testing::Test {
 protected:
  explicit AccessTest(const std::string& name)
      : folder_(::testing::TempDir() + "/" + name) {
    std::filesystem::remove_all(folder_);
    std::filesystem::create_directories(folder_ + "/uploads");
    jobs_ = *JobStore::Open(io::FileSystem::Posix(), folder_ + "/hearth.db",
                            Clock::Real(), [](const auto&) {});
    sweeps_ =
        std::make_unique<SweepStore>(*jobs_, Clock::Real(), [](const auto&) {});
    trash_ = std::make_unique<Trash>(io::FileSystem::Posix(),
                                     folder_ + "/trash", [] {});
    uploads_ = *UploadStaging::Open({.files = io::FileSystem::Posix(),
                                     .clock = Clock::Real(),
                                     .jobs = *jobs_,
                                     .trash = *trash_},
                                    {.folder = folder_ + "/uploads"});
    tokens_ = *TokenStore::Open(*jobs_, io::FileSystem::Posix(),
                                folder_ + "/marker", Clock::Real());
    audit_ = *AuditLog::Open(folder_ + "/audit.log", Clock::Real());
    access_ =
        std::make_unique<AccessControl>(AccessDependencies{.tokens = *tokens_,
                                                           .jobs = *jobs_,
                                                           .sweeps = *sweeps_,
                                                           .uploads = *uploads_,
                                                           .audit = *audit_});
  }

  const std::string folder_;
  std::unique_ptr<JobStore> jobs_;
  std::unique_ptr<SweepStore> sweeps_;
  std::unique_ptr<Trash> trash_;
  std::unique_ptr<UploadStaging> uploads_;
  std::unique_ptr<TokenStore> tokens_;
  std::unique_ptr<AuditLog> audit_;
  std::unique_ptr<AccessControl> access_;
};

}  // namespace hearth::server

#endif  // HEARTH_SERVER_ACCESS_ACCESS_FIXTURE_H_
