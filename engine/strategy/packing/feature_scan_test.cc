#include "engine/strategy/packing/feature_scan.h"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "engine/base/clock.h"
#include "engine/io/file_system.h"
#include "engine/io/read_plan.h"
#include "gtest/gtest.h"

namespace hearth::strategy {
namespace {

// A file of zeros of any size.
class Zeros final : public io::ReadableFile {
 public:
  explicit Zeros(uint64_t bytes) : bytes_(bytes) {}

  absl::Status Read(uint64_t offset, absl::Span<std::byte> out) override {
    if (offset + out.size() > bytes_) return absl::DataLossError("cut off");
    return absl::OkStatus();
  }
  absl::StatusOr<io::FileInfo> Info() override {
    io::FileInfo info;
    info.size_bytes = bytes_;
    return info;
  }
  const std::string& path() const override { return path_; }

 private:
  const uint64_t bytes_;
  const std::string path_ = "zeros";
};

TEST(FeatureScanTest, OnlyALongScanTellsSomethingAboutTheDisk) {
  for (const int64_t rows : {1 << 10, 1 << 19}) {
    Zeros file(static_cast<uint64_t>(rows) * 512);
    auto scan = FeatureScan::Make(file, {.row_bytes = 512, .num_rows = rows},
                                  /*partition_nodes=*/1 << 12);
    ASSERT_TRUE(scan.ok()) << scan.status();
    EXPECT_FALSE(scan->TellingRate().has_value());
    int64_t seen = 0;
    ASSERT_EQ(scan->Run(
                  [&](const FeatureScan::Partition& partition) {
                    EXPECT_EQ(partition.first, seen);
                    seen += partition.num_rows;
                    return absl::OkStatus();
                  },
                  Clock::Real(), {}),
              absl::OkStatus());
    EXPECT_EQ(seen, rows);
    EXPECT_EQ(scan->TellingRate().has_value(), rows == 1 << 19);
  }
}

}  // namespace
}  // namespace hearth::strategy
