// Effects of the VFS on a database: Database keeps its promises whichever call
// fails, and whenever power is lost.

#include "server/storage/testing/faulty_vfs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <fstream>
#include <iterator>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status.h"
#include "engine/io/testing/scratch_directory.h"
#include "server/storage/sqlite.h"

namespace hearth::server {
namespace {

using ::testing::Contains;
using ::testing::Ge;
using ::testing::HasSubstr;
using ::testing::Key;
using ::testing::Pair;

constexpr VfsOperation kOperations[] = {
    VfsOperation::kOpen,   VfsOperation::kDelete,   VfsOperation::kAccess,
    VfsOperation::kRead,   VfsOperation::kWrite,    VfsOperation::kTruncate,
    VfsOperation::kSync,   VfsOperation::kFileSize, VfsOperation::kLock,
    VfsOperation::kShmMap, VfsOperation::kShmLock};

class FaultyVfsTest : public testing::Test {
 protected:
  absl::Status Open() {
    auto database = Database::Open(path_, vfs_.name());
    if (database.ok()) database_ = *std::move(database);
    return database.status();
  }

  absl::Status Insert(int row, Durability durability = Durability::kAtOnce) {
    const auto transaction = Transaction::Begin(*database_, durability);
    if (!transaction.ok()) return transaction.status();
    absl::Status status = database_->Execute(
        absl::StrCat("INSERT INTO t VALUES (", row, ", zeroblob(5000))"));
    if (status.ok()) status = (*transaction)->Commit();
    return status;
  }

  // Inserts rows 1, 2, 3 ... until the first error; returns how many were
  // acknowledged.
  int Work() {
    int acknowledged = 0;
    if (!Open().ok()) return acknowledged;
    if (database_->Execute("CREATE TABLE t (id INTEGER PRIMARY KEY, x BLOB)")
            .ok()) {
      while (acknowledged < 4 && Insert(acknowledged + 1).ok()) ++acknowledged;
    }
    database_.reset();
    return acknowledged;
  }

  // Number of rows that exist, from the first on; -1 for a damaged database.
  int64_t Rows() {
    if (!Open().ok() || Query("PRAGMA quick_check") != "ok") return -1;
    if (Query("SELECT COUNT(*) FROM sqlite_schema") == "0") return 0;
    const std::string rows = Query("SELECT COUNT(*) FROM t");
    EXPECT_EQ(rows, Query("SELECT coalesce(max(id), 0) FROM t"));
    database_.reset();
    return std::stoll(rows);
  }

  std::string Query(const std::string& sql) {
    auto statement = database_->Prepare(sql);
    if (!statement.ok() || !statement->Step().ok()) return "error";
    return statement->Bytes(0);
  }

  // Loses power until a new start.
  void LosePower() {
    vfs_.Inject(
        {.operation = VfsOperation::kShmLock, .effect = VfsEffect::kLosePower});
    EXPECT_FALSE(Insert(1).ok());
    EXPECT_TRUE(vfs_.power_is_lost());
    database_.reset();
    vfs_.RestorePower();
  }

  const io::ScratchDirectory scratch_;
  FaultyVfs vfs_{"faulty"};
  const std::string path_ = scratch_.Path("t.db");
  std::unique_ptr<Database> database_;
};

TEST_F(FaultyVfsTest, WithoutFaultsItIsTheDefaultOne) {
  EXPECT_EQ(Work(), 4);
  EXPECT_EQ(Rows(), 4);
  for (const VfsOperation operation : kOperations) {
    // No call here makes a file shorter.
    if (operation == VfsOperation::kTruncate) continue;
    EXPECT_THAT(vfs_.counts(), Contains(Pair(operation, Ge(1))))
        << static_cast<int>(operation);
  }
  database_ = *Database::Open(path_);
  EXPECT_EQ(Query("SELECT COUNT(*) FROM t"), "4");
}

TEST_F(FaultyVfsTest, OneCallFailsOrAllFromThereOn) {
  ASSERT_TRUE(Open().ok());
  ASSERT_TRUE(database_->Execute("CREATE TABLE t (id INTEGER, x BLOB)").ok());
  vfs_.Inject({.operation = VfsOperation::kSync, .nth = 2});
  EXPECT_TRUE(Insert(1).ok());
  EXPECT_FALSE(Insert(2).ok());
  EXPECT_TRUE(Insert(2).ok());
  EXPECT_EQ(vfs_.hits(), 1);
  vfs_.Inject({.operation = VfsOperation::kWrite, .for_good = true});
  EXPECT_FALSE(Insert(3).ok());
  EXPECT_FALSE(Insert(3).ok());
  EXPECT_GE(vfs_.hits(), 2);
  vfs_.Clear();
  EXPECT_TRUE(Insert(3).ok());
  EXPECT_EQ(Rows(), 3);
}

TEST_F(FaultyVfsTest, ErrorsTellTheirCause) {
  ASSERT_TRUE(Open().ok());
  ASSERT_TRUE(database_->Execute("CREATE TABLE t (id INTEGER, x BLOB)").ok());
  vfs_.Inject({.operation = VfsOperation::kWrite});
  const absl::Status failed = Insert(1);
  EXPECT_EQ(WaitCauseOf(failed), WaitCause::kDisk) << failed;
  EXPECT_THAT(std::string(failed.message()), HasSubstr(path_));
  vfs_.Inject({.effect = VfsEffect::kFull});
  const absl::Status full = Insert(1);
  EXPECT_TRUE(absl::IsResourceExhausted(full)) << full;
  EXPECT_EQ(WaitCauseOf(full), WaitCause::kDiskSpace) << full;
  database_.reset();
  vfs_.Inject({.operation = VfsOperation::kOpen});
  EXPECT_EQ(WaitCauseOf(Open()), WaitCause::kDisk);
  vfs_.Inject({.operation = VfsOperation::kOpen, .effect = VfsEffect::kFull});
  EXPECT_EQ(WaitCauseOf(Open()), WaitCause::kDiskSpace);
}

TEST_F(FaultyVfsTest, TearsAWriteAtASector) {
  ASSERT_TRUE(Open().ok());
  ASSERT_TRUE(database_->Execute("CREATE TABLE t (id INTEGER, x BLOB)").ok());
  const std::string log = absl::StrCat(path_, "-wal");
  const auto size = [&] {
    std::ifstream file(log, std::ios::binary);
    return std::string(std::istreambuf_iterator<char>(file), {}).size();
  };
  const size_t before = size();
  // The second write of a frame is its page.
  vfs_.Inject({.nth = 2, .effect = VfsEffect::kTearWrite});
  EXPECT_FALSE(Insert(1).ok());
  EXPECT_GT(size(), before + 1000);
  EXPECT_LT(size(), before + 24 + 4096);
  EXPECT_EQ(size() % 512, 0u);
  EXPECT_TRUE(Insert(1).ok());
  EXPECT_EQ(Rows(), 1);
}

// Every call of every kind fails, once and for good, with every effect.
// Acknowledged rows exist afterwards, and at most one further row, whose
// acknowledgement was lost.
TEST_F(FaultyVfsTest, NothingAcknowledgedIsLost) {
  for (const VfsOperation operation : kOperations) {
    for (const VfsEffect effect :
         {VfsEffect::kFail, VfsEffect::kFull, VfsEffect::kTearWrite,
          VfsEffect::kLosePower, VfsEffect::kLosePowerBetweenSectors}) {
      for (const bool for_good : {false, true}) {
        VfsFault fault = {
            .operation = operation, .for_good = for_good, .effect = effect};
        for (fault.nth = 1;; ++fault.nth) {
          SCOPED_TRACE(absl::StrCat(
              "operation ", static_cast<int>(operation), ", call ", fault.nth,
              ", effect ", static_cast<int>(effect), ", for good ", for_good));
          for (const char* suffix : {"", "-wal", "-shm", "-journal"}) {
            std::remove(absl::StrCat(path_, suffix).c_str());
          }
          vfs_.Forget();
          vfs_.Inject(fault);
          const int acknowledged = Work();
          const bool hit = vfs_.hits() > 0;
          if (vfs_.power_is_lost()) vfs_.RestorePower();
          vfs_.Clear();
          const int64_t rows = Rows();
          EXPECT_GE(rows, acknowledged);
          EXPECT_LE(rows, acknowledged + 1);
          if (!hit) break;
        }
      }
    }
  }
}

// The log has a gap where row 2 was, which a later sync does not fill.
TEST_F(FaultyVfsTest, ASyncThatFailedIsNotReliedOn) {
  for (const int64_t nth : {1, 2}) {
    SCOPED_TRACE(nth);
    ASSERT_TRUE(Open().ok());
    ASSERT_TRUE(
        database_->Execute("DROP TABLE IF EXISTS t; CREATE TABLE t (id, x)")
            .ok());
    ASSERT_TRUE(Insert(1).ok());
    ASSERT_TRUE(Insert(2, Durability::kLazily).ok());
    vfs_.Inject({.operation = VfsOperation::kSync});
    EXPECT_FALSE(Insert(3).ok());
    if (nth == 2) {
      // Writing everything again does not succeed at once either.
      vfs_.Inject({.operation = VfsOperation::kSync});
      EXPECT_FALSE(Insert(3).ok());
    }
    ASSERT_TRUE(Insert(3).ok());
    ASSERT_TRUE(Insert(4).ok());
    LosePower();
    EXPECT_EQ(Rows(), 4);
  }
}

TEST_F(FaultyVfsTest, TheSyncOfACheckpointMayFail) {
  ASSERT_TRUE(Open().ok());
  ASSERT_TRUE(database_->Execute("CREATE TABLE t (id, x)").ok());
  // Lazy commits sync at checkpoints only.
  int rows = 0;
  vfs_.Inject({.operation = VfsOperation::kSync});
  while (vfs_.hits() == 0) {
    ASSERT_TRUE(Insert(++rows, Durability::kLazily).ok());
  }
  ASSERT_TRUE(Insert(++rows).ok());
  LosePower();
  EXPECT_EQ(Rows(), rows);
}

TEST_F(FaultyVfsTest, WhatCannotBeReadIsNotDamaged) {
  ASSERT_EQ(Work(), 4);
  for (const bool for_good : {false, true}) {
    VfsFault fault = {.operation = VfsOperation::kRead, .for_good = for_good};
    for (fault.nth = 1;; ++fault.nth) {
      vfs_.Inject(fault);
      if (Open().ok()) {
        const absl::Status status = database_->CheckSound();
        EXPECT_TRUE(status.ok() || absl::IsUnavailable(status)) << status;
      }
      database_.reset();
      if (vfs_.hits() == 0) break;
    }
  }
}

TEST_F(FaultyVfsTest, DamageIsFound) {
  ASSERT_EQ(Work(), 4);
  {
    std::fstream file(path_, std::ios::binary | std::ios::in | std::ios::out);
    file.seekp(4096 + 100);
    file << std::string(2000, 'x');
  }
  ASSERT_TRUE(Open().ok());
  EXPECT_TRUE(absl::IsDataLoss(database_->CheckSound()));
}

TEST_F(FaultyVfsTest, WhatIsNotSyncedGoesWithThePower) {
  ASSERT_TRUE(Open().ok());
  ASSERT_TRUE(database_->Execute("CREATE TABLE t (id INTEGER, x BLOB)").ok());
  ASSERT_TRUE(Insert(1).ok());
  ASSERT_TRUE(Insert(2, Durability::kLazily).ok());
  LosePower();
  EXPECT_EQ(Rows(), 1);
}

}  // namespace
}  // namespace hearth::server
