#include "client/doctor/machine_facts.h"

#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/un.h>
#include <unistd.h>

#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/io/testing/faults.h"
#include "engine/io/testing/scratch_directory.h"

namespace hearth::doctor {

namespace {

namespace fs = std::filesystem;

class MachineFactsTest : public testing::Test {
 protected:
  void Write(const std::string& path, const std::string& text) {
    fs::create_directories(fs::path(scratch_.Path(path)).parent_path());
    std::ofstream(scratch_.Path(path)) << text;
  }

  const io::ScratchDirectory scratch_;
  const KernelFolders folders_ = {.proc = scratch_.Path("proc"),
                                  .sys = scratch_.Path("sys"),
                                  .dev = scratch_.Path("dev")};
};

TEST_F(MachineFactsTest, ReadsWhatTheKernelTells) {
  Write("proc/sys/kernel/io_uring_disabled", "1\n");
  Write("proc/77/status",
        "Name:\thearthd\nCapEff:\t0000000000004001\n"
        "Seccomp:\t2\nSeccomp_filters:\t1\n");
  Write("proc/77/limits",
        "Limit                     Soft Limit           Hard Limit           "
        "Units     \n"
        "Max open files            1024                 4096                 "
        "files     \n"
        "Max locked memory         8388608              unlimited            "
        "bytes     \n");
  Write("proc/77/cgroup", "0::/group\n");
  Write("sys/fs/cgroup/group/memory.max", "1048576\n");
  Write("proc/meminfo", "MemTotal:       16384 kB\nMemAvailable:    8192 kB\n");
  Write("proc/cpuinfo", "processor\t: 0\nflags\t\t: fpu avx2 avx512f\n");
  Write("proc/driver/nvidia/version",
        "NVRM version: NVIDIA UNIX x86_64 Kernel Module  535.161.08  Sat Feb "
        "17 22:55:48 UTC 2024\nGCC version:  12.2.0\n");
  Write("dev/nvidia0", "");
  const MachineFacts facts = ReadMachineFacts(folders_, 77);
  EXPECT_EQ(facts.io_uring_disabled, 1);
  EXPECT_TRUE(facts.has_seccomp_filter);
  EXPECT_EQ(facts.open_files.soft, 1024u);
  EXPECT_EQ(facts.open_files.hard, 4096u);
  EXPECT_EQ(facts.locked_memory.soft, 8388608u);
  EXPECT_EQ(facts.locked_memory.hard, UINT64_MAX);
  EXPECT_TRUE(facts.may_lock_any);
  Write("proc/78/status", "CapEff:\t00000000a80425fb\n");
  EXPECT_FALSE(ReadMachineFacts(folders_, 78).may_lock_any);
  EXPECT_EQ(facts.memory_bytes, 16384u << 10);
  EXPECT_EQ(facts.memory_available_bytes, 8192u << 10);
  EXPECT_EQ(facts.memory_capacity_bytes, 1048576u);
  EXPECT_TRUE(facts.cpu_features.contains("avx512f"));
  EXPECT_FALSE(facts.cpu_features.contains("amx_bf16"));
  EXPECT_EQ(facts.gpu_driver, "535.161.08");
  EXPECT_TRUE(facts.has_gpu_device);
}

TEST_F(MachineFactsTest, WhatCannotBeReadIsLeftOut) {
  const MachineFacts facts = ReadMachineFacts(folders_, 0);
  EXPECT_EQ(facts.io_uring_disabled, 0);
  EXPECT_FALSE(facts.has_seccomp_filter);
  EXPECT_FALSE(facts.may_lock_any);
  EXPECT_EQ(facts.open_files.hard, UINT64_MAX);
  EXPECT_EQ(facts.memory_bytes, 0u);
  EXPECT_EQ(facts.gpu_driver, "");
  EXPECT_FALSE(facts.has_gpu_device);
}

TEST_F(MachineFactsTest, ThisMachineTellsOfItself) {
  const MachineFacts facts = ReadMachineFacts(KernelFolders(), 0);
  EXPECT_NE(facts.kernel, "");
  EXPECT_GT(facts.memory_bytes, 0u);
  EXPECT_GT(facts.memory_capacity_bytes, 0u);
  EXPECT_FALSE(facts.cpu_features.empty());
  EXPECT_GT(facts.open_files.hard, 0u);
}

TEST_F(MachineFactsTest, AProcessIsKnownByItsName) {
  Write("proc/77/comm", "hearthd\n");
  EXPECT_TRUE(IsProcess(folders_, 77, "hearthd"));
  EXPECT_FALSE(IsProcess(folders_, 77, "hearth"));
  EXPECT_FALSE(IsProcess(folders_, 78, "hearthd"));
}

TEST_F(MachineFactsTest, AFolderIsThatOfItsDisk) {
  struct stat info {};
  ASSERT_EQ(stat(scratch_.path().c_str(), &info), 0);
  const std::string number = std::to_string(major(info.st_dev)) + ":" +
                             std::to_string(minor(info.st_dev));
  // A partition has no queue of its own.
  Write("sys/devices/nvme0n1/queue/read_ahead_kb", "128\n");
  Write("sys/devices/nvme0n1/queue/rotational", "0\n");
  Write("sys/devices/nvme0n1/nvme0n1p1/size", "1\n");
  fs::create_directories(scratch_.Path("sys/dev/block"));
  fs::create_directory_symlink(scratch_.Path("sys/devices/nvme0n1/nvme0n1p1"),
                               scratch_.Path("sys/dev/block/" + number));
  const std::string path = scratch_.Path("data");
  fs::create_directory(path);
  chmod(path.c_str(), 0700);
  const FolderFacts facts = ReadFolderFacts(folders_, path);
  EXPECT_TRUE(facts.exists);
  EXPECT_TRUE(facts.is_folder);
  EXPECT_EQ(facts.owner, geteuid());
  EXPECT_EQ(facts.mode, 0700u);
  EXPECT_NE(facts.file_system, "");
  EXPECT_GT(facts.total_bytes, 0u);
  EXPECT_EQ(facts.disk, "nvme0n1");
  EXPECT_EQ(facts.read_ahead_kib, 128u);
  EXPECT_EQ(facts.rotates, false);
}

TEST_F(MachineFactsTest, AFolderThatIsMissingIsOnTheDiskAboveIt) {
  const FolderFacts facts = ReadFolderFacts(folders_, scratch_.Path("a/b/c"));
  EXPECT_FALSE(facts.exists);
  EXPECT_GT(facts.total_bytes, 0u);
  EXPECT_EQ(facts.read_ahead_kib, std::nullopt);
}

TEST_F(MachineFactsTest, ASocketTellsWhoMayUseIt) {
  EXPECT_FALSE(ReadSocketFacts(scratch_.path()).exists);
  // A short path: a socket's path has 107 bytes at most.
  char folder[] = "/tmp/hearth-facts-XXXXXX";
  ASSERT_NE(mkdtemp(folder), nullptr);
  const int listener = socket(AF_UNIX, SOCK_STREAM, 0);
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  const std::string path = std::string(folder) + "/hearth.sock";
  std::memcpy(address.sun_path, path.data(), path.size());
  ASSERT_EQ(bind(listener, reinterpret_cast<const sockaddr*>(&address),
                 sizeof(address)),
            0);
  chmod(path.c_str(), 0660);
  const SocketFacts facts = ReadSocketFacts(folder);
  EXPECT_TRUE(facts.exists);
  EXPECT_TRUE(facts.is_socket);
  EXPECT_TRUE(facts.is_open_to_us);
  EXPECT_EQ(facts.mode, 0660u);
  close(listener);
  fs::remove_all(folder);
}

class DiskSpeedTest : public testing::Test {
 protected:
  absl::StatusOr<DiskSpeed> Measure(io::FileSystem& files) {
    return MeasureDisk(files, *queues_, Clock::Real(), scratch_.path());
  }

  const io::ScratchDirectory scratch_;
  const std::unique_ptr<io::ReadQueues> queues_ = *io::ReadQueues::Create();
};

TEST_F(DiskSpeedTest, AnEmptyFolderIsMeasuredAndStaysEmpty) {
  const auto speed = Measure(io::FileSystem::Posix());
  ASSERT_TRUE(speed.ok()) << speed.status();
  EXPECT_GT(speed->reads_per_second, 0);
  EXPECT_GT(speed->bytes_per_second, 0);
  EXPECT_TRUE(fs::is_empty(scratch_.path()));
}

TEST_F(DiskSpeedTest, NoFileThatIsThereIsWrittenTo) {
  const std::string precious = scratch_.Path("precious");
  std::ofstream(precious) << "mine";
  fs::create_symlink(precious, scratch_.Path(absl::StrCat("hearth-doctor-",
                                                          getpid(), ".tmp")));
  ASSERT_TRUE(Measure(io::FileSystem::Posix()).ok());
  EXPECT_EQ(fs::file_size(precious), 4);
}

TEST_F(DiskSpeedTest, WhereADatasetIsNothingIsWritten) {
  fs::create_directories(scratch_.Path("datasets/papers"));
  const std::string array = scratch_.Path("datasets/papers/node_feat");
  std::ofstream(array) << "x";
  fs::resize_file(array, kProbeBytes);
  io::FaultyFileSystem files(io::FileSystem::Posix());
  files.Inject({.for_good = true, .only = io::Operation::kCreate});
  const auto speed = Measure(files);
  ASSERT_TRUE(speed.ok()) << speed.status();
  EXPECT_GT(speed->bytes_per_second, 0);
  EXPECT_EQ(files.hits(), 0);
}

TEST_F(DiskSpeedTest, WhateverFailsIsToldAndNothingIsLeft) {
  io::FaultyFileSystem files(io::FileSystem::Posix());
  for (const io::Operation operation :
       {io::Operation::kCreate, io::Operation::kWrite, io::Operation::kSync,
        io::Operation::kOpenForRead, io::Operation::kRead}) {
    files.Inject({.for_good = true, .only = operation});
    const auto speed = Measure(files);
    EXPECT_TRUE(absl::IsUnavailable(speed.status())) << speed.status();
    files.Clear();
    EXPECT_TRUE(fs::is_empty(scratch_.path()));
  }
}

}  // namespace

}  // namespace hearth::doctor
