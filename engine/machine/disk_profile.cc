#include "engine/machine/disk_profile.h"

#include <sys/sysmacros.h>
#include <time.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <memory>
#include <optional>
#include <thread>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status.h"
#include "engine/io/aligned_memory.h"
#include "engine/io/block_device.h"
#include "engine/io/read_probe.h"
#include "engine/io/whole_file.h"
#include "engine/store/feature_rows.h"
#include "engine/store/strict_json.h"
#include "nlohmann/json.hpp"

namespace hearth::machine {

namespace {

constexpr int kFormat = 1;
constexpr uint64_t kMostFileBytes = 1 << 16;

constexpr uint64_t kPageBytes = 4096;
constexpr uint64_t kMiddleBytes = 16384;
constexpr uint64_t kLargeBytes = 131072;
// Files of less are likely to be in some cache of the disk.
constexpr uint64_t kLeastFileBytes = uint64_t{64} << 20;
// Seconds after which streams, and writes, end.
constexpr double kStreamSeconds = 0.25;
constexpr double kWriteSeconds = 0.4;
constexpr std::array kStreams = {1, 2, 4};

// Random reads to measure, the most important first.
constexpr std::array<RandomReads, 9> kReads = {{{1, 1, 0},
                                                {1, 64, 0},
                                                {2, 64, 0},
                                                {1, 16, 0},
                                                {1, 256, 0},
                                                {2, 1, 0},
                                                {4, 64, 0},
                                                {4, 1, 0},
                                                {1, 4, 0}}};

// Wide and narrow rows, from which the time of any row follows.
constexpr int64_t kNarrow = 16;
constexpr int64_t kWide = 256;

double ThreadSeconds() {
  timespec now = {};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) +
         1e-9 * static_cast<double>(now.tv_nsec);
}

// Measures a disk until the time is over.
class Measuring {
 public:
  Measuring(const ProbeContext& context, const MeasuredDisk& disk)
      : context_(context),
        disk_(disk),
        scratch_(context.files,
                 io::JoinPath(disk.folder,
                              absl::StrCat("profile", io::kTemporarySuffix))),
        deadline_(context.clock.SteadySeconds() + kMostProfileSeconds) {}

  absl::StatusOr<DiskProfile> Run() {
    HEARTH_ASSIGN_OR_RETURN(
        profile_.write_bytes_per_second,
        ProbeWriting(context_, disk_.folder, kWriteSeconds));
    HEARTH_RETURN_IF_ERROR(ChooseFile());
    HEARTH_RETURN_IF_ERROR(MeasureStreams());
    HEARTH_RETURN_IF_ERROR(MeasureReads());
    HEARTH_RETURN_IF_ERROR(MeasureProcessor());
    profile_.measured = context_.clock.Now();
    return std::move(profile_);
  }

 private:
  bool IsOver() const { return context_.clock.SteadySeconds() >= deadline_; }

  // The disk's file if it is large enough, or else one that is written.
  absl::Status ChooseFile() {
    HEARTH_ASSIGN_OR_RETURN(const io::FileInfo info,
                            context_.files.Stat(disk_.file));
    path_ = disk_.file;
    if (info.size_bytes >= kLeastFileBytes) return absl::OkStatus();
    HEARTH_ASSIGN_OR_RETURN(const io::FileInfo folder,
                            context_.files.Stat(disk_.folder));
    if (folder.file_system != info.file_system) return absl::OkStatus();
    path_ = scratch_.path();
    HEARTH_ASSIGN_OR_RETURN(io::AlignedMemory memory,
                            io::AlignedMemory::Allocate(uint64_t{1} << 20));
    std::fill(memory.bytes().begin(), memory.bytes().end(), std::byte{1});
    HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<io::WritableFile> file,
                            context_.files.CreateUncached(path_));
    const double end = context_.clock.SteadySeconds() + kWriteSeconds;
    for (uint64_t at = 0; at < kLeastFileBytes; at += memory.bytes().size()) {
      if (context_.clock.SteadySeconds() >= end && at > 0) break;
      HEARTH_RETURN_IF_ERROR(file->Write(at, memory.bytes()));
    }
    return file->Close();
  }

  absl::Status MeasureStreams() {
    for (const int threads : kStreams) {
      if (!profile_.streams.empty() && IsOver()) break;
      HEARTH_ASSIGN_OR_RETURN(
          const double rate,
          ProbeReading(context_, path_,
                       {.threads = threads, .most_seconds = kStreamSeconds}));
      profile_.streams.push_back(rate);
    }
    profile_.streams.resize(kStreams.size(), profile_.streams.back());
    return absl::OkStatus();
  }

  absl::Status MeasureReads() {
    for (RandomReads reads : kReads) {
      if (!profile_.pages.empty() && IsOver()) break;
      const double before = ThreadSeconds();
      const double start = context_.clock.SteadySeconds();
      HEARTH_ASSIGN_OR_RETURN(reads.per_second,
                              ReadAll(reads.threads, reads.depth, kPageBytes));
      if (reads.threads == 1 && reads.depth == kDeepReads) {
        profile_.seconds_per_read =
            (ThreadSeconds() - before) /
            std::max(1.0, reads.per_second *
                              (context_.clock.SteadySeconds() - start));
      }
      profile_.pages.push_back(reads);
    }
    std::sort(profile_.pages.begin(), profile_.pages.end(),
              [](const RandomReads& one, const RandomReads& other) {
                return std::pair(one.threads, one.depth) <
                       std::pair(other.threads, other.depth);
              });
    const double pages = profile_.ReadsPerSecond(1, kDeepReads, kPageBytes);
    const auto larger = [&](uint64_t bytes) -> absl::StatusOr<double> {
      if (!IsOver()) return ReadAll(1, kDeepReads, bytes);
      return std::min(pages,
                      profile_.streams.front() / static_cast<double>(bytes));
    };
    HEARTH_ASSIGN_OR_RETURN(profile_.reads_of_16k, larger(kMiddleBytes));
    HEARTH_ASSIGN_OR_RETURN(profile_.reads_of_128k, larger(kLargeBytes));
    return absl::OkStatus();
  }

  // Reads per second of `threads` that each read other places of the file.
  absl::StatusOr<double> ReadAll(int threads, int depth, uint64_t bytes) {
    std::vector<absl::StatusOr<double>> rates(static_cast<size_t>(threads), 0);
    const auto read = [&](size_t i) {
      const absl::Status status = CatchExceptions([&] {
        rates[i] = ReadSome(depth, bytes, next_seed_ + i);
        return rates[i].status();
      });
      if (!status.ok()) rates[i] = status;
    };
    {
      std::vector<std::jthread> others;
      for (size_t i = 1; i < rates.size(); ++i) others.emplace_back(read, i);
      read(0);
    }
    next_seed_ += rates.size();
    double sum = 0;
    for (const absl::StatusOr<double>& rate : rates) {
      HEARTH_RETURN_IF_ERROR(rate.status());
      sum += *rate;
    }
    return std::max(1.0, sum);
  }

  absl::StatusOr<double> ReadSome(int depth, uint64_t bytes, uint64_t seed) {
    HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<io::BlockDevice> device,
                            context_.files.OpenBlockDevice(path_, {}));
    HEARTH_ASSIGN_OR_RETURN(
        const io::ReadProfile profile,
        io::ProbeReads(*device, context_.read_queues, context_.clock, bytes,
                       static_cast<size_t>(depth), context_.stop, seed));
    return profile.peak_reads_per_second;
  }

  absl::Status MeasureProcessor() {
    HEARTH_ASSIGN_OR_RETURN(profile_.memory_seconds_per_byte,
                            ProbeMemory(context_.clock));
    profile_.checksum_seconds_per_byte = ProbeChecksum(context_.clock);
    const double narrow = ProbeRowCopy(context_.clock, {.dim = kNarrow});
    const double wide = ProbeRowCopy(context_.clock, {.dim = kWide});
    const auto bytes = [](int64_t dim) {
      return static_cast<double>(store::RowFormat{.dim = dim}.row_bytes());
    };
    profile_.copy_seconds_per_byte =
        std::max(0.0, wide - narrow) / (bytes(kWide) - bytes(kNarrow));
    profile_.copy_seconds_per_row =
        std::max(0.0, narrow - profile_.copy_seconds_per_byte * bytes(kNarrow));
    return absl::OkStatus();
  }

  const ProbeContext& context_;
  const MeasuredDisk& disk_;
  const io::ScratchFile scratch_;
  const double deadline_;
  std::string path_;
  uint64_t next_seed_ = 1;
  DiskProfile profile_;
};

}  // namespace

DiskProfile DiskProfile::Assumed() {
  return {.measured = absl::UnixEpoch(),
          .pages = {{1, 1, 8e3}, {1, 16, 6e4}, {1, 64, 1e5}, {2, 64, 1.5e5}},
          .reads_of_16k = 6e4,
          .reads_of_128k = 1e4,
          .streams = {1.2e9, 1.5e9, 1.5e9},
          .write_bytes_per_second = 0.8e9,
          .seconds_per_read = 3e-6,
          .copy_seconds_per_byte = 0.3e-9,
          .copy_seconds_per_row = 5e-8,
          .checksum_seconds_per_byte = 0.1e-9,
          .memory_seconds_per_byte = 0.3e-9,
          .is_assumed = true};
}

double DiskProfile::ReadsPerSecond(int threads, int depth,
                                   uint64_t bytes) const {
  double rate = 0;
  for (const RandomReads& reads : pages) {
    if (reads.threads <= threads && reads.depth <= depth) {
      rate = std::max(rate, reads.per_second);
    }
  }
  if (bytes <= kPageBytes) return std::max(1.0, rate);
  // Larger reads are slower by what was measured at one depth, between sizes in
  // proportion to the logarithms; beyond, bytes decide.
  double of_pages = 1;
  for (const RandomReads& reads : pages) {
    if (reads.threads == 1 && reads.depth <= kDeepReads) {
      of_pages = std::max(of_pages, reads.per_second);
    }
  }
  const auto between = [&](uint64_t small, double at_small, uint64_t large,
                           double at_large) {
    const double share = std::log(static_cast<double>(bytes) / small) /
                         std::log(static_cast<double>(large) / small);
    return std::exp(std::log(at_small) +
                    share * (std::log(at_large) - std::log(at_small)));
  };
  double larger = 0;
  if (bytes <= kMiddleBytes) {
    larger = between(kPageBytes, of_pages, kMiddleBytes, reads_of_16k);
  } else if (bytes <= kLargeBytes) {
    larger = between(kMiddleBytes, reads_of_16k, kLargeBytes, reads_of_128k);
  } else {
    larger = reads_of_128k * static_cast<double>(kLargeBytes) /
             static_cast<double>(bytes);
  }
  return std::max(1.0, rate * std::min(1.0, larger / of_pages));
}

double DiskProfile::BytesPerSecond(int threads) const {
  double rate = 1;
  for (size_t i = 0; i < streams.size(); ++i) {
    if (1 << i <= threads) rate = std::max(rate, streams[i]);
  }
  return rate;
}

absl::StatusOr<DiskProfile> MeasureProfile(const ProbeContext& context,
                                           const MeasuredDisk& disk) {
  return Measuring(context, disk).Run();
}

std::string SerializeProfile(const DiskProfile& profile) {
  nlohmann::ordered_json pages = nlohmann::ordered_json::array();
  for (const RandomReads& reads : profile.pages) {
    pages.push_back({{"threads", reads.threads},
                     {"depth", reads.depth},
                     {"per_second", reads.per_second}});
  }
  return store::SealJson(
             {{"format", kFormat},
              {"measured", absl::ToUnixSeconds(profile.measured)},
              {"pages", pages},
              {"reads_of_16k", profile.reads_of_16k},
              {"reads_of_128k", profile.reads_of_128k},
              {"streams", profile.streams},
              {"write_bytes_per_second", profile.write_bytes_per_second},
              {"seconds_per_read", profile.seconds_per_read},
              {"copy_seconds_per_byte", profile.copy_seconds_per_byte},
              {"copy_seconds_per_row", profile.copy_seconds_per_row},
              {"checksum_seconds_per_byte", profile.checksum_seconds_per_byte},
              {"memory_seconds_per_byte", profile.memory_seconds_per_byte}}) +
         "\n";
}

absl::StatusOr<DiskProfile> ParseProfile(absl::string_view text) {
  if (!text.empty() && text.back() == '\n') text.remove_suffix(1);
  HEARTH_ASSIGN_OR_RETURN(const nlohmann::json json,
                          store::OpenSealedJson(text));
  DiskProfile profile;
  try {
    if (json.at("format") != kFormat) {
      return absl::InvalidArgumentError("is of another version");
    }
    profile.measured =
        absl::FromUnixSeconds(json.at("measured").get<int64_t>());
    for (const nlohmann::json& reads : json.at("pages")) {
      profile.pages.push_back({.threads = reads.at("threads").get<int>(),
                               .depth = reads.at("depth").get<int>(),
                               .per_second = reads.at("per_second")});
    }
    json.at("reads_of_16k").get_to(profile.reads_of_16k);
    json.at("reads_of_128k").get_to(profile.reads_of_128k);
    json.at("streams").get_to(profile.streams);
    json.at("write_bytes_per_second").get_to(profile.write_bytes_per_second);
    json.at("seconds_per_read").get_to(profile.seconds_per_read);
    json.at("copy_seconds_per_byte").get_to(profile.copy_seconds_per_byte);
    json.at("copy_seconds_per_row").get_to(profile.copy_seconds_per_row);
    json.at("checksum_seconds_per_byte")
        .get_to(profile.checksum_seconds_per_byte);
    json.at("memory_seconds_per_byte").get_to(profile.memory_seconds_per_byte);
  } catch (const nlohmann::json::exception& error) {
    return absl::InvalidArgumentError(error.what());
  }
  return profile;
}

std::string DiskProfiles::PathOf(uint64_t file_system) const {
  return io::JoinPath(folder_, absl::StrCat(major(file_system), "-",
                                            minor(file_system), ".json"));
}

std::optional<DiskProfile> DiskProfiles::Kept(const std::string& path) const {
  const auto text = io::ReadWholeFile(files_, path, kMostFileBytes);
  if (!text.ok()) return std::nullopt;
  auto parsed = ParseProfile(*text);
  if (!parsed.ok()) return std::nullopt;
  return *std::move(parsed);
}

void DiskProfiles::NoteScan(const std::string& file, double bytes_per_second) {
  const auto info = files_.Stat(file);
  if (!info.ok()) return;
  const std::string path = PathOf(info->file_system);
  absl::MutexLock lock(&mutex_);
  std::optional<DiskProfile> kept = Kept(path);
  if (!kept.has_value() || kept->BytesPerSecond(1) <= 0) return;
  const double factor = std::sqrt(bytes_per_second / kept->BytesPerSecond(1));
  for (double& rate : kept->streams) rate *= factor;
  // Without it, the next job's prices are as far off as this one's.
  io::WriteFileAtomically(files_, path, SerializeProfile(*kept)).IgnoreError();
}

absl::StatusOr<DiskProfile> DiskProfiles::Find(
    const MeasuredDisk& disk, const std::function<bool()>& may_measure,
    std::stop_token stop, absl::Duration fresh) {
  HEARTH_ASSIGN_OR_RETURN(const io::FileInfo info, files_.Stat(disk.file));
  const std::string path = PathOf(info.file_system);
  absl::MutexLock lock(&mutex_);
  const std::optional<DiskProfile> kept = Kept(path);
  const absl::Time now = clock_.Now();
  // A profile of the future is one of a clock that was set since.
  if (kept.has_value() && kept->measured <= now &&
      now - kept->measured < fresh) {
    return *kept;
  }
  if (!may_measure()) return kept.value_or(DiskProfile::Assumed());
  HEARTH_RETURN_IF_ERROR(files_.CreateDirectory(folder_));
  HEARTH_ASSIGN_OR_RETURN(DiskProfile measured,
                          MeasureProfile({.files = files_,
                                          .read_queues = read_queues_,
                                          .clock = clock_,
                                          .stop = std::move(stop)},
                                         disk));
  // Without it, the next job measures again.
  io::WriteFileAtomically(files_, path, SerializeProfile(measured))
      .IgnoreError();
  return measured;
}

}  // namespace hearth::machine
