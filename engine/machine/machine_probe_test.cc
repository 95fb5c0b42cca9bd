#include "engine/machine/machine_probe.h"

#include <cstddef>
#include <memory>
#include <stop_token>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "engine/base/clock.h"
#include "engine/io/file_system.h"
#include "engine/io/read_queue.h"
#include "engine/io/testing/faults.h"
#include "engine/io/testing/scratch_directory.h"
#include "gtest/gtest.h"

namespace hearth::machine {
namespace {

class MachineProbeTest : public ::testing::Test {
 protected:
  // The path of a new file of `bytes` bytes.
  std::string Make(size_t bytes) {
    const std::string path = scratch_.Path("file");
    auto file = *files_.Create(path);
    const std::vector<std::byte> data(bytes, std::byte{1});
    EXPECT_EQ(file->Append(data), absl::OkStatus());
    EXPECT_EQ(file->Close(), absl::OkStatus());
    return path;
  }

  ProbeContext Context(std::stop_token stop = {}) {
    return {.files = files_,
            .read_queues = *queues_,
            .clock = Clock::Real(),
            .stop = stop};
  }

  io::ScratchDirectory scratch_;
  io::FaultyFileSystem files_{io::FileSystem::Posix()};
  const std::unique_ptr<io::ReadQueues> queues_ = *io::ReadQueues::Create();
};

TEST_F(MachineProbeTest, ReadsFilesOfAnySize) {
  for (const size_t bytes :
       {size_t{0}, size_t{1}, size_t{5000}, size_t{100000}, size_t{20} << 20}) {
    const std::string path = Make(bytes);
    for (const Streams& streams :
         {Streams{}, Streams{.threads = 3}, Streams{.at_once = true}}) {
      const auto rate = ProbeReading(Context(), path, streams);
      ASSERT_TRUE(rate.ok()) << rate.status();
      EXPECT_GT(*rate, 0);
    }
    const auto pages = ProbePages(Context(), path, 16);
    ASSERT_TRUE(pages.ok()) << pages.status();
    EXPECT_GT(*pages, 0);
  }
}

TEST_F(MachineProbeTest, WhatItWritesIsRemoved) {
  const auto rate = ProbeWriting(Context(), scratch_.path());
  ASSERT_TRUE(rate.ok()) << rate.status();
  EXPECT_GT(*rate, 0);
  EXPECT_TRUE(files_.List(scratch_.path())->empty());
  files_.LimitSpace(1 << 20);
  EXPECT_TRUE(absl::IsResourceExhausted(
      ProbeWriting(Context(), scratch_.path()).status()));
  EXPECT_TRUE(files_.List(scratch_.path())->empty());
}

TEST_F(MachineProbeTest, AStopEndsIt) {
  std::stop_source stop;
  stop.request_stop();
  const ProbeContext context = Context(stop.get_token());
  const std::string path = Make(100000);
  EXPECT_TRUE(absl::IsCancelled(ProbeReading(context, path, {}).status()));
  EXPECT_TRUE(absl::IsCancelled(ProbePages(context, path, 4).status()));
  EXPECT_TRUE(
      absl::IsCancelled(ProbeWriting(context, scratch_.path()).status()));
  EXPECT_EQ(files_.List(scratch_.path())->size(), 1u);
}

TEST_F(MachineProbeTest, MissingFilesAreErrors) {
  const std::string path = scratch_.Path("absent");
  EXPECT_TRUE(absl::IsNotFound(ProbeReading(Context(), path, {}).status()));
  EXPECT_TRUE(absl::IsNotFound(ProbePages(Context(), path, 4).status()));
}

TEST_F(MachineProbeTest, TimesRowsOfAnySize) {
  for (const int64_t dim : {1, 100, 1 << 20}) {
    EXPECT_GT(ProbeRowCopy(Clock::Real(), {.dim = dim}), 0);
  }
  EXPECT_GT(ProbeChecksum(Clock::Real()), 0);
  EXPECT_GT(*ProbeMemory(Clock::Real()), 0);
}

}  // namespace
}  // namespace hearth::machine
