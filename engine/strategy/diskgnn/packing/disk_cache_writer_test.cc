#include "engine/strategy/diskgnn/packing/disk_cache_writer.h"

#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/io/file_system.h"
#include "engine/io/testing/faults.h"
#include "engine/io/testing/scratch_directory.h"
#include "gtest/gtest.h"

namespace hearth::strategy {
namespace {

class DiskOrderTest : public ::testing::Test {
 protected:
  io::FileSystem& posix_ = io::FileSystem::Posix();
  io::FaultyFileSystem faulty_{posix_};
  const io::ScratchDirectory scratch_;
  const std::string path_ = scratch_.Path("scratch");
};

TEST_F(DiskOrderTest, ComesBackInPieces) {
  auto order = *DiskOrder::Create(posix_, path_);
  const std::vector<std::vector<uint32_t>> segments = {
      {3, 1, 0, 2}, {}, {0}, {4, 3, 2, 1, 0}};
  for (const auto& places : segments) ASSERT_TRUE(order->Add(places).ok());
  ASSERT_TRUE(order->EndAdding().ok());
  ASSERT_EQ(order->num_segments(), 4);
  for (int64_t i = 0; i < 4; ++i) {
    ASSERT_EQ(order->num_rows(i), std::ssize(segments[i]));
    for (const int64_t piece : {1, 3, 5}) {
      std::vector<uint32_t> read;
      for (int64_t at = 0; at < order->num_rows(i); at += piece) {
        std::vector<uint32_t> places(
            static_cast<size_t>(std::min(piece, order->num_rows(i) - at)));
        ASSERT_TRUE(order->Read(i, at, absl::MakeSpan(places)).ok());
        read.insert(read.end(), places.begin(), places.end());
      }
      EXPECT_EQ(read, segments[i]);
    }
  }
  order.reset();
  EXPECT_TRUE(absl::IsNotFound(posix_.Stat(path_).status()));
}

TEST_F(DiskOrderTest, DamageIsDataLoss) {
  const auto order = *DiskOrder::Create(faulty_, path_);
  ASSERT_TRUE(order->Add({2, 1, 0}).ok());
  ASSERT_TRUE(order->EndAdding().ok());
  faulty_.Inject(
      {.effect = io::Effect::kCorruptRead, .only = io::Operation::kRead});
  std::vector<uint32_t> places(3);
  const absl::Status status = order->Read(0, 0, absl::MakeSpan(places));
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_NE(status.message().find("segment 0"), absl::string_view::npos);
}

}  // namespace
}  // namespace hearth::strategy
