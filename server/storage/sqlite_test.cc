#include "server/storage/sqlite.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sqlite3.h>

#include <cstdio>

#include "absl/strings/str_cat.h"

namespace hearth::server {
namespace {

using ::testing::HasSubstr;

class SqliteTest : public testing::Test {
 protected:
  SqliteTest() {
    for (const char* suffix : {"", "-wal", "-shm"}) {
      std::remove(absl::StrCat(path_, suffix).c_str());
    }
    database_ = *Database::Open(path_);
    EXPECT_TRUE(
        database_->Execute("CREATE TABLE t (id INTEGER PRIMARY KEY, x BLOB)")
            .ok());
  }

  int64_t Query(const std::string& sql) {
    auto statement = database_->Prepare(sql);
    EXPECT_TRUE(statement->Step().ok());
    return statement->Int64(0);
  }

  const std::string path_ = testing::TempDir() + "/sqlite_test.db";
  std::unique_ptr<Database> database_;
};

TEST_F(SqliteTest, CommitsAreDurable) {
  auto mode = database_->Prepare("PRAGMA journal_mode");
  ASSERT_TRUE(*mode->Step());
  EXPECT_EQ(mode->Bytes(0), "wal");
  EXPECT_EQ(Query("PRAGMA synchronous"), 2);
  EXPECT_EQ(Query("PRAGMA foreign_keys"), 1);
}

TEST_F(SqliteTest, ValuesComeBackAsTheyWere) {
  const std::string bytes("a\0b", 3);
  {
    auto insert = database_->Prepare("INSERT INTO t VALUES (?1, ?2)");
    ASSERT_TRUE(insert->Bind(1, INT64_MAX).BindBlob(2, bytes).Run().ok());
  }
  {
    auto insert = database_->Prepare("INSERT INTO t VALUES (?1, ?2)");
    ASSERT_TRUE(insert->Bind(1, 1).BindBlob(2, "").Run().ok());
  }
  {
    // Parameters of an earlier use are not bound any more.
    auto insert = database_->Prepare("INSERT INTO t VALUES (?1, ?2)");
    ASSERT_TRUE(insert->Bind(1, 2).Run().ok());
    EXPECT_EQ(database_->LastInsertRow(), 2);
  }
  auto select = database_->Prepare("SELECT id, x FROM t ORDER BY id");
  ASSERT_TRUE(*select->Step());
  EXPECT_EQ(select->Bytes(1), "");
  EXPECT_FALSE(select->IsNull(1));
  ASSERT_TRUE(*select->Step());
  EXPECT_TRUE(select->IsNull(1));
  ASSERT_TRUE(*select->Step());
  EXPECT_EQ(select->Int64(0), INT64_MAX);
  EXPECT_EQ(select->Bytes(1), bytes);
  EXPECT_FALSE(*select->Step());
}

TEST_F(SqliteTest, TransactionsAreRolledBackUnlessCommitted) {
  {
    const auto transaction = Transaction::Begin(*database_);
    ASSERT_TRUE(database_->Execute("INSERT INTO t (id) VALUES (1)").ok());
  }
  EXPECT_EQ(Query("SELECT COUNT(*) FROM t"), 0);
  {
    const auto transaction = Transaction::Begin(*database_);
    ASSERT_TRUE(database_->Execute("INSERT INTO t (id) VALUES (1)").ok());
    ASSERT_TRUE((*transaction)->Commit().ok());
  }
  EXPECT_EQ(Query("SELECT COUNT(*) FROM t"), 1);
}

TEST_F(SqliteTest, ErrorsNameTheFile) {
  const absl::Status malformed = database_->Execute("SELEKT");
  EXPECT_EQ(malformed.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(malformed.message()), HasSubstr(path_));
  EXPECT_FALSE(database_->Prepare("SELECT nothing FROM nowhere").ok());
  const auto missing = Database::Open("/no/such/folder/x.db");
  EXPECT_EQ(missing.status().code(), absl::StatusCode::kPermissionDenied);
  EXPECT_THAT(std::string(missing.status().message()),
              HasSubstr("/no/such/folder/x.db"));
}

TEST_F(SqliteTest, ALargeFileTakesLittleMemory) {
  constexpr int kRows = 2000;
  const std::string bytes(2048, 'x');
  {
    auto transaction = Transaction::Begin(*database_, Durability::kLazily);
    for (int row = 0; row < kRows; ++row) {
      auto insert = database_->Prepare("INSERT INTO t VALUES (?1, ?2)");
      ASSERT_TRUE(insert->Bind(1, row).BindBlob(2, bytes).Run().ok());
    }
    ASSERT_TRUE((*transaction)->Commit().ok());
  }
  EXPECT_EQ(Query("SELECT SUM(LENGTH(x)) FROM t"), kRows * 2048);
  EXPECT_LT(sqlite3_memory_used(), 1 << 20);
}

TEST_F(SqliteTest, AFullDiskIsResourceExhausted) {
  ASSERT_TRUE(database_->Execute("PRAGMA max_page_count = 4").ok());
  auto insert =
      database_->Prepare("INSERT INTO t VALUES (1, zeroblob(100000))");
  EXPECT_EQ(insert->Run().code(), absl::StatusCode::kResourceExhausted);
}

}  // namespace
}  // namespace hearth::server
