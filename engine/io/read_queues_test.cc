#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "engine/io/aligned_memory.h"
#include "engine/io/block_device.h"
#include "engine/io/file_system.h"
#include "engine/io/read_queue.h"
#include "engine/io/row_reader.h"
#include "engine/io/test_bytes_fixture.h"
#include "engine/io/testing/scratch_directory.h"
#include "engine/io/uring.h"
#include "gtest/gtest.h"

namespace hearth::io {
namespace {

constexpr size_t kPage = 4096;

std::unique_ptr<ReadQueues> Create(ReadQueueKind kind) {
  auto queues = ReadQueues::Create({.kind = kind});
  EXPECT_TRUE(queues.ok()) << queues.status();
  return *std::move(queues);
}

bool HasIoUring() {
  return ReadQueues::Create({.kind = ReadQueueKind::kIoUring}).ok();
}

/// Runs `body` in a process of its own. `body` returns a text that says what is
/// wrong, empty if nothing is.
void InAnotherProcess(const std::function<std::string()>& body) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    const std::string wrong = body();
    if (!wrong.empty()) std::fprintf(stderr, "%s\n", wrong.c_str());
    ::_exit(wrong.empty() ? 0 : 1);
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 0) << status;
}

/// From now on io_uring_setup gives `error`, as containers have it.
bool ForbidIoUring(int error) {
  sock_filter filter[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_io_uring_setup, 0, 1),
      BPF_STMT(BPF_RET | BPF_K,
               SECCOMP_RET_ERRNO | static_cast<unsigned>(error)),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
  const sock_fprog program = {4, filter};
  return ::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
         ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

/// Reads all rows of the file of TestBytes at `path` through `queues`; what is
/// wrong, or nothing.
std::string ReadAll(ReadQueues& queues, const std::string& path,
                    uint64_t staging_bytes) {
  auto device = FileSystem::Posix().OpenBlockDevice(path, {});
  if (!device.ok()) return std::string(device.status().message());
  auto queue = queues.Take(32);
  if (!queue.ok()) return std::string(queue.status().message());
  const RowLayout layout{0, kPage,
                         static_cast<int64_t>((*device)->size_bytes() / kPage)};
  auto reader = RowReader::Create(**device, layout, **queue,
                                  {.staging_bytes = staging_bytes});
  if (!reader.ok()) return std::string(reader.status().message());
  std::vector<int64_t> rows;
  for (int64_t row = 0; row < layout.num_rows; row += 2) rows.push_back(row);
  bool right = true;
  ReadTally tally;
  const absl::Status status = (*reader)->Read(
      rows,
      [&](size_t position, const std::byte* row) {
        right &= AreTestBytes(layout.RowOffset(rows[position]), {row, kPage});
      },
      std::stop_token(), tally);
  if (!status.ok()) return std::string(status.message());
  if (!right) return "the bytes are wrong";
  return tally.rows == static_cast<int64_t>(rows.size()) ? "" : "rows missing";
}

TEST(ReadQueuesTest, TellsItsKind) {
  EXPECT_EQ(Create(ReadQueueKind::kThreads)->kind(), "threads");
  EXPECT_EQ(Create(ReadQueueKind::kAutomatic)->kind(),
            HasIoUring() ? "io_uring" : "threads");
}

TEST(ReadQueuesTest, KeepsQueuesWarm) {
  for (const ReadQueueKind kind :
       {ReadQueueKind::kAutomatic, ReadQueueKind::kThreads}) {
    const auto queues = Create(kind);
    ReadQueues::Handle first = *queues->Take(8);
    ReadQueues::Handle other = *queues->Take(8);
    const ReadQueue* address = first.get();
    EXPECT_NE(address, other.get());
    first.reset();
    EXPECT_NE(queues->Take(9)->get(), address);
    EXPECT_EQ(queues->Take(8)->get(), address);
    const ReadQueues::Handle again = *queues->Take(8);
    EXPECT_EQ(again.get(), address);
  }
}

TEST(ReadQueuesTest, KeepsALimitedNumber) {
  const auto queues = Create(ReadQueueKind::kThreads);
  const auto threads = [] {
    return FileSystem::Posix().List("/proc/self/task")->size();
  };
  const size_t before = threads();
  std::vector<ReadQueues::Handle> handles;
  for (int i = 0; i < 40; ++i) handles.push_back(*queues->Take(1));
  EXPECT_EQ(threads(), before + 40);
  handles.clear();
  EXPECT_EQ(threads(), before + 32);
}

TEST(ReadQueuesTest, RefusesDepthsThatNoQueueHas) {
  const auto queues = Create(ReadQueueKind::kAutomatic);
  for (const size_t depth : {size_t{0}, kMaxReadDepth + 1}) {
    EXPECT_TRUE(absl::IsInvalidArgument(queues->Take(depth).status()));
  }
  EXPECT_TRUE(queues->Take(kMaxReadDepth).ok());
}

TEST(ReadQueuesTest, AQueueMayGoFromThreadToThread) {
  const auto queues = Create(ReadQueueKind::kAutomatic);
  ScratchDirectory scratch;
  WriteTestBytes(scratch.Path("f"), 40 * kPage);
  for (int i = 0; i < 5; ++i) {
    std::thread([&] {
      EXPECT_EQ(ReadAll(*queues, scratch.Path("f"), 1 << 20), "");
    }).join();
  }
}

TEST(ReadQueuesTest, ThreadsTakeQueuesAtTheSameTime) {
  const auto queues = Create(ReadQueueKind::kAutomatic);
  ScratchDirectory scratch;
  WriteTestBytes(scratch.Path("f"), 40 * kPage);
  std::vector<std::thread> threads;
  for (int t = 0; t < 4; ++t) {
    threads.emplace_back([&] {
      for (int i = 0; i < 10; ++i) {
        EXPECT_EQ(ReadAll(*queues, scratch.Path("f"), 1 << 20), "");
        EXPECT_GE(queues->statistics().in_flight, 0);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  const ReadStatistics statistics = queues->statistics();
  EXPECT_EQ(statistics.in_flight, 0);
  EXPECT_GT(statistics.reads, 0);
  EXPECT_EQ(statistics.failed_reads, 0);
}

TEST(ReadQueuesTest, ReadsByThreadsWhereIoUringIsForbidden) {
  ScratchDirectory scratch;
  WriteTestBytes(scratch.Path("f"), 40 * kPage);
  for (const int error : {EPERM, ENOSYS, EACCES}) {
    InAnotherProcess([&]() -> std::string {
      if (!ForbidIoUring(error)) return "seccomp is forbidden, too";
      auto forced = ReadQueues::Create({.kind = ReadQueueKind::kIoUring});
      if (!absl::IsPermissionDenied(forced.status()) &&
          !absl::IsUnimplemented(forced.status())) {
        return "io_uring was not refused: " + forced.status().ToString();
      }
      const auto queues = Create(ReadQueueKind::kAutomatic);
      if (queues->kind() != "threads") return "not by threads";
      return ReadAll(*queues, scratch.Path("f"), 1 << 20);
    });
  }
}

TEST(ReadQueuesTest, NoMoreDescriptorsAreToldAsSuch) {
  if (!HasIoUring()) GTEST_SKIP() << "no io_uring here";
  InAnotherProcess([]() -> std::string {
    const auto queues = Create(ReadQueueKind::kIoUring);
    const rlimit none = {3, 3};
    ::setrlimit(RLIMIT_NOFILE, &none);
    const absl::Status status = queues->Take(1).status();
    return absl::IsResourceExhausted(status) ? "" : status.ToString();
  });
}

// As an ordinary user who may lock next to nothing: rings and reads work, and
// what cannot be registered shows.
TEST(ReadQueuesTest, ReadsUnregisteredUnderASmallLimitOnLockedMemory) {
  if (!HasIoUring()) GTEST_SKIP() << "no io_uring here";
  if (::geteuid() != 0) GTEST_SKIP() << "not root: cannot become another user";
  ScratchDirectory scratch;
  WriteTestBytes(scratch.Path("f"), 40 * kPage);
  InAnotherProcess([&]() -> std::string {
    auto device = FileSystem::Posix().OpenBlockDevice(scratch.Path("f"), {});
    const rlimit little = {64 << 10, 64 << 10};
    if (::setrlimit(RLIMIT_MEMLOCK, &little) != 0 || ::setgid(65534) != 0 ||
        ::setuid(65534) != 0) {
      std::fprintf(stderr, "SKIPPED: cannot become an ordinary user\n");
      return "";
    }
    const auto queues = Create(ReadQueueKind::kAutomatic);
    if (queues->kind() != "io_uring") {
      std::fprintf(stderr, "SKIPPED: others have locked all there is\n");
      return "";
    }
    const RowLayout layout{0, kPage, 40};
    const auto queue = *queues->Take(kMaxReadDepth);
    if (queues->reduction().empty()) return "a ring of 4096 entries was had";
    auto reader =
        RowReader::Create(**device, layout, *queue, {.staging_bytes = 4 << 20});
    if (!reader.ok()) return reader.status().ToString();
    if ((*reader)->registration().memory) return "4 MiB were locked";
    std::vector<int64_t> rows = {3, 39, 0, 17};
    int64_t right = 0;
    ReadTally tally;
    const absl::Status status = (*reader)->Read(
        rows,
        [&](size_t position, const std::byte* row) {
          right += AreTestBytes(layout.RowOffset(rows[position]), {row, kPage});
        },
        std::stop_token(), tally);
    if (!status.ok()) return status.ToString();
    return right == 4 ? "" : "the bytes are wrong";
  });
}

// A kernel that has memory for rings of so many entries in all.
class LittleMemory {
 public:
  explicit LittleMemory(size_t entries) : left_(entries) {}

  RingMaker Maker() {
    return [this](size_t entries) -> absl::StatusOr<std::unique_ptr<Ring>> {
      asked_.push_back(entries);
      if (entries > left_) return absl::ResourceExhaustedError("no memory");
      return NewKernelRing(entries);
    };
  }
  void Leave(size_t entries) { left_ = entries; }
  // Requests since the last call.
  std::vector<size_t> Asked() { return std::exchange(asked_, {}); }

 private:
  size_t left_;
  std::vector<size_t> asked_;
};

TEST(ReadQueuesTest, RingsThatCannotBeHadGetSmaller) {
  if (!HasIoUring()) GTEST_SKIP() << "no io_uring here";
  ScratchDirectory scratch;
  WriteTestBytes(scratch.Path("f"), 40 * kPage);
  for (const ReadQueueKind kind :
       {ReadQueueKind::kAutomatic, ReadQueueKind::kIoUring}) {
    LittleMemory memory(300);
    const auto queues =
        *ReadQueues::Create({.kind = kind, .new_ring = memory.Maker()});
    EXPECT_EQ(queues->Take(256)->get()->depth(), 256u);
    EXPECT_EQ(queues->statistics().reduced_queues, 0);
    EXPECT_EQ(queues->reduction(), "");
    memory.Asked();
    {
      const ReadQueues::Handle queue = *queues->Take(1000);
      EXPECT_EQ(queue->depth(), 1000u);
      EXPECT_EQ(memory.Asked(), (std::vector<size_t>{1000, 1000, 500, 250}));
    }
    EXPECT_EQ(queues->statistics().reduced_queues, 1);
    EXPECT_EQ(queues->reduction(),
              "no ring for 1000 reads at once (no memory); 250 are with the "
              "kernel at once");
    memory.Leave(40);
    EXPECT_EQ(ReadAll(*queues, scratch.Path("f"), 1 << 20), "");
    // A reduced queue is not kept: the system may have more memory the next
    // time.
    memory.Leave(1000);
    memory.Asked();
    EXPECT_TRUE(queues->Take(1000).ok());
    EXPECT_EQ(memory.Asked(), std::vector<size_t>{1000});
    EXPECT_EQ(queues->statistics().reduced_queues, 1);
  }
}

TEST(ReadQueuesTest, WarmQueuesGoBeforeRingsGetSmaller) {
  if (!HasIoUring()) GTEST_SKIP() << "no io_uring here";
  LittleMemory memory(64);
  const auto queues = *ReadQueues::Create({.new_ring = memory.Maker()});
  const ReadQueue* warm = queues->Take(64)->get();
  EXPECT_EQ(queues->Take(64)->get(), warm);
  memory.Leave(32);
  EXPECT_TRUE(queues->Take(48).ok());
  memory.Leave(64);
  memory.Asked();
  EXPECT_TRUE(queues->Take(64).ok());
  EXPECT_EQ(memory.Asked(), std::vector<size_t>{64});
}

TEST(ReadQueuesTest, ThreadsReadWhereThereIsNoMemoryForAnyRing) {
  if (!HasIoUring()) GTEST_SKIP() << "no io_uring here";
  ScratchDirectory scratch;
  WriteTestBytes(scratch.Path("f"), 40 * kPage);
  LittleMemory memory(1);
  const auto queues = *ReadQueues::Create({.new_ring = memory.Maker()});
  EXPECT_EQ(queues->kind(), "io_uring");
  memory.Leave(0);
  memory.Asked();
  EXPECT_EQ(ReadAll(*queues, scratch.Path("f"), 1 << 20), "");
  EXPECT_EQ(memory.Asked(), (std::vector<size_t>{32, 32}));
  EXPECT_EQ(queues->reduction(),
            "no ring for 32 reads at once (no memory); 32 threads read "
            "instead");
  EXPECT_EQ(queues->Take(4096)->get()->depth(), 4096u);
  EXPECT_EQ(queues->statistics().reduced_queues, 2);
  LittleMemory rings(1);
  const auto forced = *ReadQueues::Create(
      {.kind = ReadQueueKind::kIoUring, .new_ring = rings.Maker()});
  rings.Leave(0);
  EXPECT_TRUE(absl::IsResourceExhausted(forced->Take(64).status()));
}

}  // namespace
}  // namespace hearth::io
