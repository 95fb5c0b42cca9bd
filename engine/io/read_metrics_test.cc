#include "engine/io/read_metrics.h"

#include <array>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "absl/types/span.h"
#include "engine/io/block_device.h"
#include "engine/io/read_queue.h"
#include "engine/metrics/registry.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hearth::io {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class ReadMetricsTest : public ::testing::Test {
 protected:
  void Read(uint64_t offset) {
    auto queue = queues_->Take(4);
    ASSERT_TRUE(queue.ok()) << queue.status();
    std::array<std::byte, 64> out;
    const ReadRequest request = {
        .device = device_.get(), .offset = offset, .out = absl::MakeSpan(out)};
    ASSERT_TRUE((*queue)->Submit(absl::MakeConstSpan(&request, 1)).ok());
    std::vector<ReadResult> results;
    ASSERT_TRUE((*queue)->Wait(1, results).ok());
  }

  const std::unique_ptr<metrics::Registry> registry_ = metrics::NewRegistry();
  const std::unique_ptr<ReadQueues> queues_ =
      *ReadQueues::Create({.kind = ReadQueueKind::kThreads});
  const std::unique_ptr<BlockDevice> device_ =
      NewMemoryDevice(std::string(4096, 'x'), 1);
};

TEST_F(ReadMetricsTest, CountsReadsAndBytes) {
  const auto exported = NewReadMetrics(*registry_, *queues_);
  Read(0);
  Read(128);
  const std::string once = registry_->Text();
  EXPECT_THAT(once, HasSubstr("hearth_read_operations_total{queue=\"threads\","
                              "result=\"ok\"} 2"));
  EXPECT_THAT(once,
              HasSubstr("hearth_read_bytes_total{queue=\"threads\"} 128"));
  EXPECT_THAT(once, HasSubstr("hearth_read_latency_seconds_count{"
                              "queue=\"threads\"} 2"));
  EXPECT_THAT(once, HasSubstr("hearth_reads_in_flight{queue=\"threads\"} 0"));
  Read(256);  // Only new reads are added.
  EXPECT_THAT(registry_->Text(), HasSubstr("hearth_read_latency_seconds_count{"
                                           "queue=\"threads\"} 3"));
}

TEST_F(ReadMetricsTest, CountsFailures) {
  const auto exported = NewReadMetrics(*registry_, *queues_);
  Read(8192);  // Past the end.
  EXPECT_THAT(registry_->Text(),
              HasSubstr("hearth_read_operations_total{queue=\"threads\","
                        "result=\"error\"} 1"));
}

TEST_F(ReadMetricsTest, SeriesGoWithTheExporter) {
  NewReadMetrics(*registry_, *queues_);
  EXPECT_THAT(registry_->Text(), Not(HasSubstr("hearth_read")));
}

}  // namespace
}  // namespace hearth::io
