#include "client/doctor/checks.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cerrno>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "engine/base/version.h"

namespace hearth::doctor {
namespace {

using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::Not;

constexpr uint64_t kGiB = uint64_t{1} << 30;

// A machine without any note or problem.
MachineFacts GoodMachine() {
  MachineFacts facts;
  facts.kernel = "6.1.0";
  facts.open_files = {.soft = 1024, .hard = 1 << 20};
  facts.memory_bytes = 64 * kGiB;
  facts.memory_available_bytes = 60 * kGiB;
  facts.memory_capacity_bytes = 64 * kGiB;
  facts.cpu_features = {"avx2", "avx512f"};
  facts.clock_is_synchronized = true;
  return facts;
}

FolderFacts GoodFolder() {
  return {.path = "/data",
          .exists = true,
          .is_folder = true,
          .owner = 1000,
          .mode = 0700,
          .file_system = "ext4",
          .free_bytes = 500 * kGiB,
          .total_bytes = 1000 * kGiB,
          .read_ahead_kib = 128,
          .rotates = false,
          .disk = "nvme0n1"};
}

SocketFacts GoodSocket() {
  return {.path = "/data/hearth.sock",
          .exists = true,
          .is_socket = true,
          .mode = 0660,
          .is_open_to_us = true,
          .group = "staff"};
}

DaemonAnswer GoodAnswer() {
  DaemonAnswer answer;
  answer.asked = absl::FromUnixSeconds(1000);
  answer.answered = absl::FromUnixSeconds(1001);
  answer.status.mutable_time()->set_seconds(1000);
  answer.status.mutable_time()->set_nanos(500'000'000);
  answer.status.set_version(kVersion);
  answer.status.set_read_queues("io_uring");
  answer.status.set_memory_limit_bytes(50 * kGiB);
  answer.status.add_devices("cpu");
  return answer;
}

ClockReadings Seconds(double wall, double steady) {
  return {.first_wall = absl::FromUnixSeconds(1000),
          .last_wall = absl::FromUnixSeconds(1000) + absl::Seconds(wall),
          .first_steady = 5,
          .last_steady = 5 + steady};
}

// The finding of the check `check`.
Finding Of(const std::vector<Finding>& findings, const std::string& check) {
  for (const Finding& finding : findings) {
    if (finding.check == check) return finding;
  }
  ADD_FAILURE() << "no check " << check;
  return {};
}

Finding OfMachine(const MachineFacts& facts, const std::string& check) {
  return Of(CheckMachine(facts, "hearthd"), check);
}

Finding OfFolder(const FolderFacts& facts, const std::string& check) {
  return Of(CheckFolder(facts, 1000), check);
}

void ExpectAllGood(const std::vector<Finding>& findings) {
  for (const Finding& finding : findings) {
    EXPECT_EQ(finding.severity, Severity::kOk)
        << finding.check << ": " << finding.value;
    EXPECT_THAT(finding.value, Not(IsEmpty())) << finding.check;
    EXPECT_THAT(finding.remedy, IsEmpty()) << finding.check;
  }
}

// Expects a finding of `severity` whose value and remedy contain these texts.
void ExpectBad(const Finding& finding, Severity severity,
               const std::string& value, const std::string& remedy) {
  EXPECT_EQ(finding.severity, severity) << finding.check;
  EXPECT_THAT(finding.value, HasSubstr(value));
  EXPECT_THAT(finding.remedy, HasSubstr(remedy));
}

TEST(ChecksTest, WhatIsGoodIsGood) {
  const MachineFacts machine = GoodMachine();
  ExpectAllGood(CheckMachine(machine, "hearthd"));
  ExpectAllGood(CheckFolder(GoodFolder(), 1000));
  ExpectAllGood({CheckSocket(GoodSocket(), true)});
  ExpectAllGood(CheckDisk(DiskSpeed{
      .reads_per_second = 3e5, .bytes_per_second = 2e9, .is_direct = true}));
  ExpectAllGood({CheckClock(machine, Seconds(2, 2.01))});
  ExpectAllGood(CheckDaemon(GoodAnswer(), &machine));
}

TEST(ChecksTest, IoUringTellsWhoForbidsIt) {
  MachineFacts facts = GoodMachine();
  facts.io_uring_error = ENOSYS;
  ExpectBad(OfMachine(facts, "io_uring"), Severity::kNote, "6.1.0 has none",
            "Linux 5.19");
  facts.io_uring_error = EPERM;
  facts.io_uring_disabled = 2;
  ExpectBad(OfMachine(facts, "io_uring"), Severity::kNote, "all users",
            "io_uring_disabled=0");
  facts.io_uring_disabled = 1;
  ExpectBad(OfMachine(facts, "io_uring"), Severity::kNote, "this user",
            "io_uring_group");
  facts.io_uring_disabled = 0;
  facts.has_seccomp_filter = true;
  ExpectBad(OfMachine(facts, "io_uring"), Severity::kNote, "seccomp",
            "deploy/docker/seccomp.json");
  facts.has_seccomp_filter = false;
  facts.io_uring_error = ENOMEM;
  ExpectBad(OfMachine(facts, "io_uring"), Severity::kNote, "locked",
            "ulimit -l");
  facts.io_uring_error = EMFILE;
  ExpectBad(OfMachine(facts, "io_uring"), Severity::kNote, "open files", "");
}

TEST(ChecksTest, LimitsThatAreLow) {
  MachineFacts facts = GoodMachine();
  facts.open_files = {.soft = 512, .hard = 2048};
  ExpectBad(OfMachine(facts, "open files"), Severity::kNote,
            "hearthd may have 2048", "LimitNOFILE");
  facts.open_files.hard = 512;
  ExpectBad(OfMachine(facts, "open files"), Severity::kProblem, "512",
            "ulimit -Hn");
  facts.locked_memory.soft = 8 << 20;
  ExpectBad(OfMachine(facts, "locked memory"), Severity::kNote, "8.0 MiB",
            "LimitMEMLOCK");
  EXPECT_THAT(OfMachine(facts, "locked memory").value,
              Not(HasSubstr("reads at once")));
  facts.locked_memory.soft = 64 << 10;
  ExpectBad(OfMachine(facts, "locked memory"), Severity::kNote,
            "about 655 reads at once", "docker run --ulimit memlock=-1");
  facts.may_lock_any = true;
  EXPECT_EQ(OfMachine(facts, "locked memory").severity, Severity::kOk);
}

TEST(ChecksTest, MemoryThatIsLittle) {
  MachineFacts facts = GoodMachine();
  facts.memory_available_bytes = kGiB;
  ExpectBad(OfMachine(facts, "memory"), Severity::kNote, "1.0 GiB free",
            "--memory-limit");
  facts.memory_capacity_bytes = kGiB;
  ExpectBad(OfMachine(facts, "memory"), Severity::kNote,
            "container's limit is 1.0 GiB", "2 GiB");
  facts.memory_bytes = 0;
  ExpectBad(OfMachine(facts, "memory"), Severity::kNote, "not known", "");
}

TEST(ChecksTest, ProcessorAndGpu) {
  MachineFacts facts = GoodMachine();
  facts.cpu_features = {"sse2"};
  ExpectBad(OfMachine(facts, "processor"), Severity::kNote, "neither",
            "-cpu host");
  facts.gpu_driver = "535.1";
  ExpectBad(OfMachine(facts, "gpu"), Severity::kNote, "no device",
            "DeviceAllow");
  facts.has_gpu_device = true;
  ExpectBad(OfMachine(facts, "gpu"), Severity::kNote, "no model is trained",
            "580");
  facts.gpu_driver = "580.65.06";
  EXPECT_EQ(OfMachine(facts, "gpu").severity, Severity::kOk);
  ExpectBad(Of(CheckDaemon(GoodAnswer(), &facts), "daemon's devices"),
            Severity::kNote, "though there is a GPU", "HEARTH_CUDA_PLUGIN");
  DaemonAnswer answer = GoodAnswer();
  answer.status.add_devices("cuda:0 (H100)");
  EXPECT_EQ(Of(CheckDaemon(answer, &facts), "daemon's devices").severity,
            Severity::kOk);
  answer.status.set_devices(1, "cuda:0 (H100, rows only)");
  ExpectBad(Of(CheckDaemon(answer, &facts), "daemon's devices"),
            Severity::kNote, "rows only", "HEARTH_TORCH_CUDA");
}

TEST(ChecksTest, PermissionsOfTheDataDirectory) {
  FolderFacts facts = GoodFolder();
  // Mode of the folder of a daemon with --socket-group.
  facts.mode = 0710;
  EXPECT_EQ(OfFolder(facts, "data directory").severity, Severity::kOk);
  facts.mode = 0755;
  ExpectBad(OfFolder(facts, "data directory"), Severity::kProblem, "0755",
            "chmod 0700 /data");
  facts.owner = 5;
  ExpectBad(OfFolder(facts, "data directory"), Severity::kProblem,
            "belongs to user 5", "chown -R 1000 /data");
  facts.is_folder = false;
  ExpectBad(OfFolder(facts, "data directory"), Severity::kProblem,
            "not a folder", "--data-dir");
  facts.exists = false;
  ExpectBad(OfFolder(facts, "data directory"), Severity::kNote, "not there",
            "");
}

TEST(ChecksTest, FileSystemsThatAreNoGoodHome) {
  FolderFacts facts = GoodFolder();
  for (const char* network : {"nfs", "cifs", "fuse", "9p", "lustre", "ceph"}) {
    facts.file_system = network;
    ExpectBad(OfFolder(facts, "file system"), Severity::kProblem, network,
              "--data-dir");
  }
  facts.file_system = "tmpfs";
  ExpectBad(OfFolder(facts, "file system"), Severity::kNote, "memory",
            "--data-dir");
  facts.file_system = "overlay";
  ExpectBad(OfFolder(facts, "file system"), Severity::kNote, "container",
            "docker run -v");
  facts.file_system = "";
  ExpectBad(OfFolder(facts, "file system"), Severity::kNote, "not known", "");
}

TEST(ChecksTest, SpaceAndReadAhead) {
  FolderFacts facts = GoodFolder();
  facts.free_bytes = 40 * kGiB;
  ExpectBad(OfFolder(facts, "free space"), Severity::kNote, "40.0 GiB",
            "plan delete");
  facts.free_bytes = 1 << 20;
  ExpectBad(OfFolder(facts, "free space"), Severity::kProblem, "1.0 MiB",
            "dataset delete");
  facts.read_ahead_kib = 4096;
  facts.rotates = true;
  ExpectBad(OfFolder(facts, "disk"), Severity::kNote, "rotates",
            "blockdev --setra 256 /dev/nvme0n1");
  facts.read_ahead_kib.reset();
  ExpectBad(OfFolder(facts, "disk"), Severity::kNote, "does not tell", "");
}

TEST(ChecksTest, Sockets) {
  SocketFacts facts = GoodSocket();
  ExpectBad(CheckSocket(facts, false), Severity::kNote, "no daemon answers",
            "hearthd");
  facts.is_open_to_us = false;
  ExpectBad(CheckSocket(facts, false), Severity::kProblem, "not open",
            "usermod -aG staff");
  facts.mode = 0600;
  ExpectBad(CheckSocket(facts, false), Severity::kProblem, "not open",
            "--socket-group");
  facts.mode = 0666;
  ExpectBad(CheckSocket(facts, true), Severity::kProblem, "0666",
            "restart hearthd");
  facts.is_socket = false;
  ExpectBad(CheckSocket(facts, true), Severity::kProblem, "no socket", "rm ");
  facts.exists = false;
  ExpectBad(CheckSocket(facts, false), Severity::kNote, "not there", "hearthd");
}

TEST(ChecksTest, DisksThatAreSlowOrFail) {
  const std::vector<Finding> slow = CheckDisk(DiskSpeed{
      .reads_per_second = 400, .bytes_per_second = 9e7, .is_direct = true});
  ExpectBad(Of(slow, "random reads"), Severity::kNote, "400 a second", "NVMe");
  ExpectBad(Of(slow, "sequential reads"), Severity::kNote, "0.09 GB/s", "NVMe");
  const std::vector<Finding> cached = CheckDisk(DiskSpeed{
      .reads_per_second = 1e6, .bytes_per_second = 9e9, .is_direct = false});
  ExpectBad(Of(cached, "random reads"), Severity::kNote, "page cache", "ext4");
  ExpectBad(Of(CheckDisk(absl::UnavailableError("/d: EIO")), "disk speed"),
            Severity::kProblem, "/d: EIO", "dmesg");
  ExpectBad(Of(CheckDisk(absl::PermissionDeniedError("/d")), "disk speed"),
            Severity::kNote, "not measured: /d", "");
}

TEST(ChecksTest, ClocksThatStep) {
  MachineFacts facts = GoodMachine();
  ExpectBad(CheckClock(facts, Seconds(62, 2)), Severity::kProblem, "+60.0 s",
            "set-ntp");
  ExpectBad(CheckClock(facts, Seconds(-1, 2)), Severity::kProblem, "-3.0 s",
            "set-ntp");
  facts.clock_is_synchronized = false;
  ExpectBad(CheckClock(facts, Seconds(2, 2)), Severity::kNote, "does not know",
            "set-ntp");
  facts.clock_is_synchronized.reset();
  EXPECT_EQ(CheckClock(facts, Seconds(2, 2)).severity, Severity::kOk);
}

TEST(ChecksTest, DaemonsWhoseClockIsAnother) {
  DaemonAnswer answer = GoodAnswer();
  answer.status.mutable_time()->set_seconds(1031);
  ExpectBad(Of(CheckDaemon(answer, nullptr), "daemon's clock"), Severity::kNote,
            "30s ahead", "both machines");
  answer.status.mutable_time()->set_seconds(100);
  ExpectBad(Of(CheckDaemon(answer, nullptr), "daemon's clock"),
            Severity::kProblem, "14m59s behind", "both machines");
  answer.status.clear_time();
  ExpectBad(Of(CheckDaemon(answer, nullptr), "daemon's clock"), Severity::kNote,
            "not told", "");
}

TEST(ChecksTest, WhatElseADaemonTells) {
  const MachineFacts machine = GoodMachine();
  DaemonAnswer answer = GoodAnswer();
  answer.status.set_version("0.0.1");
  answer.status.set_read_queues("threads");
  answer.status.set_memory_limit_bytes(80 * kGiB);
  answer.status.set_draining(true);
  answer.status.add_warnings("jobs/train-1 was damaged");
  const std::vector<Finding> findings = CheckDaemon(answer, &machine);
  ExpectBad(Of(findings, "versions"), Severity::kProblem, "hearthd 0.0.1",
            "same version");
  answer.status.set_version(absl::StrCat(kVersion, "9"));
  ExpectBad(Of(CheckDaemon(answer, &machine), "versions"), Severity::kNote,
            "hearthd", "same version");
  ExpectBad(Of(findings, "daemon reads by"), Severity::kNote, "threads",
            "io_uring");
  ExpectBad(Of(findings, "memory of jobs"), Severity::kProblem,
            "more than there is", "--memory-limit");
  ExpectBad(Of(findings, "drain"), Severity::kNote, "no new jobs", "--off");
  ExpectBad(Of(findings, "daemon warns"), Severity::kNote, "was damaged", "");
}

}  // namespace
}  // namespace hearth::doctor
