#include "client/doctor/disk_speed.h"

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <memory>
#include <stop_token>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/types/span.h"
#include "engine/base/status_annotate.h"
#include "engine/base/status_macros.h"
#include "engine/io/aligned_memory.h"
#include "engine/io/block_device.h"
#include "engine/io/read_probe.h"

namespace hearth::doctor {
namespace {

constexpr uint64_t kPieceBytes = uint64_t{1} << 20;
// After so long no more is written, or read one after the other.
constexpr double kWriteSeconds = 1;
constexpr double kScanSeconds = 0.3;

struct Candidate {
  std::string path;
  uint64_t bytes = 0;
};

// The largest file in the folders of datasets; empty if there is none, or they
// cannot be read.
Candidate LargestArray(io::FileSystem& files, const std::string& data_dir) {
  Candidate largest;
  const std::string datasets = io::JoinPath(data_dir, "datasets");
  const auto names = files.List(datasets);
  if (!names.ok()) return largest;
  for (const std::string& name : *names) {
    const std::string dataset = io::JoinPath(datasets, name);
    const auto arrays = files.List(dataset);
    if (!arrays.ok()) continue;
    for (const std::string& array : *arrays) {
      const std::string path = io::JoinPath(dataset, array);
      const auto info = files.Stat(path);
      if (info.ok() && info->is_regular && info->size_bytes > largest.bytes) {
        largest = {.path = path, .bytes = info->size_bytes};
      }
    }
  }
  return largest;
}

absl::Status WriteProbe(io::FileSystem& files, const Clock& clock,
                        const std::string& path) {
  HEARTH_ASSIGN_OR_RETURN(io::AlignedMemory piece,
                          io::AlignedMemory::Allocate(kPieceBytes));
  // Zeros could be stored as a hole, or compressed.
  uint64_t word = 0x9e3779b97f4a7c15;
  for (std::byte& byte : piece.bytes()) {
    word = word * 6364136223846793005 + 1442695040888963407;
    byte = static_cast<std::byte>(word >> 56);
  }
  HEARTH_ASSIGN_OR_RETURN(const auto file, files.CreateUncached(path));
  const double start = clock.SteadySeconds();
  for (uint64_t at = 0; at < kProbeBytes; at += kPieceBytes) {
    HEARTH_RETURN_IF_ERROR(file->Append(piece.bytes()));
    if (clock.SteadySeconds() - start > kWriteSeconds) break;
  }
  HEARTH_RETURN_IF_ERROR(file->Sync());
  return file->Close();
}

absl::StatusOr<double> ScanSpeed(io::ReadableFile& file, const Clock& clock) {
  HEARTH_ASSIGN_OR_RETURN(const io::FileInfo info, file.Info());
  HEARTH_ASSIGN_OR_RETURN(io::AlignedMemory memory,
                          io::AlignedMemory::Allocate(kPieceBytes));
  const uint64_t most = std::min(info.size_bytes, 4 * kProbeBytes);
  const double start = clock.SteadySeconds();
  double seconds = 0;
  uint64_t at = 0;
  while (at + kPieceBytes <= most && seconds < kScanSeconds) {
    HEARTH_RETURN_IF_ERROR(file.Read(at, memory.bytes()));
    at += kPieceBytes;
    seconds = clock.SteadySeconds() - start;
  }
  return seconds > 0 ? static_cast<double>(at) / seconds : 0;
}

}  // namespace

absl::StatusOr<DiskSpeed> MeasureDisk(io::FileSystem& files,
                                      io::ReadQueues& queues,
                                      const Clock& clock,
                                      const std::string& folder) {
  const Candidate array = LargestArray(files, folder);
  std::string path = array.path;
  std::string written;
  // However this ends.
  const absl::Cleanup remove = [&] {
    if (!written.empty()) files.RemoveTree(written).IgnoreError();
  };
  if (array.bytes < kProbeBytes) {
    // A folder of its own, whose name nobody knows before and which nobody else
    // may write to: a file, or a link, of another user is never written to.
    std::string own = io::JoinPath(folder, "hearth-doctor-XXXXXX");
    if (mkdtemp(own.data()) == nullptr) {
      return ErrnoStatus(errno, own, "create");
    }
    written = own;
    path = io::JoinPath(own, "probe");
    HEARTH_RETURN_IF_ERROR(WriteProbe(files, clock, path));
  }
  HEARTH_ASSIGN_OR_RETURN(const auto device, files.OpenBlockDevice(path, {}));
  HEARTH_ASSIGN_OR_RETURN(const auto scan, files.OpenForScan(path));
  if (!written.empty()) {
    HEARTH_RETURN_IF_ERROR(files.RemoveTree(std::exchange(written, "")));
  }
  HEARTH_ASSIGN_OR_RETURN(
      const io::ReadProfile profile,
      io::ProbeReads(*device, queues, clock, DiskSpeed::kReadBytes,
                     DiskSpeed::kDepth, std::stop_token()));
  DiskSpeed speed;
  speed.reads_per_second = profile.peak_reads_per_second;
  speed.is_direct = device->direct();
  HEARTH_ASSIGN_OR_RETURN(speed.bytes_per_second, ScanSpeed(*scan, clock));
  return speed;
}

absl::StatusOr<DiskSpeed> MeasureDisk(const std::string& folder) {
  HEARTH_ASSIGN_OR_RETURN(const auto queues, io::ReadQueues::Create());
  return MeasureDisk(io::FileSystem::Posix(), *queues, Clock::Real(), folder);
}

}  // namespace hearth::doctor
