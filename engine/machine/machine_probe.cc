#include "engine/machine/machine_probe.h"

#include <algorithm>
#include <cstddef>
#include <memory>
#include <numeric>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "engine/base/crc32c.h"
#include "engine/base/random.h"
#include "engine/base/status.h"
#include "engine/cache/assemble.h"
#include "engine/io/aligned_memory.h"
#include "engine/io/row_reader.h"
#include "engine/io/whole_file.h"

namespace hearth::machine {
namespace {

constexpr uint64_t kMostRead = uint64_t{256} << 20;
constexpr uint64_t kMostWritten = uint64_t{64} << 20;
constexpr uint64_t kPieceBytes = uint64_t{8} << 20;
// 128 MiB in all: more than a processor's cache.
constexpr uint64_t kAtOncePieces = 16;
// About as many bytes as packing writes at a time.
constexpr uint64_t kWriteBytes = uint64_t{1} << 20;
constexpr uint64_t kPageBytes = 4096;
constexpr int64_t kMostPages = 4096;
// Bytes of each buffer of a row copy: more than a processor's cache.
constexpr uint64_t kCopyBytes = uint64_t{64} << 20;
// Keeps rates finite.
constexpr double kLeastSeconds = 1e-7;

absl::Status CheckStop(const ProbeContext& context) {
  if (!context.stop.stop_requested()) return absl::OkStatus();
  return absl::CancelledError("measuring the machine: stopped on request");
}

double Seconds(const Clock& clock, double start) {
  return std::max(kLeastSeconds, clock.SteadySeconds() - start);
}

// Reads pieces, `bytes` in all, spread over bytes [begin, begin + part) of a
// file: pieces read again and again would come from a cache. Ends at
// `deadline`; returns the bytes read.
absl::StatusOr<uint64_t> ReadPart(const ProbeContext& context,
                                  io::ReadableFile& file, uint64_t begin,
                                  uint64_t part, uint64_t bytes,
                                  absl::Span<std::byte> memory,
                                  double deadline) {
  uint64_t at = 0;
  for (; at < bytes; at += kPieceBytes) {
    HEARTH_RETURN_IF_ERROR(CheckStop(context));
    if (at > 0 && context.clock.SteadySeconds() >= deadline) return at;
    const auto gap = static_cast<uint64_t>(static_cast<double>(part - bytes) *
                                           static_cast<double>(at) /
                                           static_cast<double>(bytes));
    HEARTH_RETURN_IF_ERROR(file.Read(
        begin + at + gap / kPageBytes * kPageBytes,
        memory.subspan(at % memory.size(), std::min(kPieceBytes, bytes - at))));
  }
  return bytes;
}

}  // namespace

absl::StatusOr<double> ProbeReading(const ProbeContext& context,
                                    const std::string& path,
                                    const Streams& streams) {
  HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<io::ReadableFile> file,
                          context.files.OpenForScan(path));
  HEARTH_ASSIGN_OR_RETURN(const io::FileInfo info, file->Info());
  const auto count = static_cast<uint64_t>(streams.threads);
  const uint64_t pieces = streams.at_once ? kAtOncePieces : 1;
  HEARTH_ASSIGN_OR_RETURN(
      io::AlignedMemory memory,
      io::AlignedMemory::Allocate(count * pieces * kPieceBytes));
  // Pages are taken here, outside of the measured time.
  std::fill(memory.bytes().begin(), memory.bytes().end(), std::byte{0});
  const uint64_t part = info.size_bytes / count / kPageBytes * kPageBytes;
  const uint64_t bytes = std::min(
      part,
      std::max(kPieceBytes, kMostRead / count / kPieceBytes * kPieceBytes));
  std::vector<absl::StatusOr<uint64_t>> results(count, 0);
  const double start = context.clock.SteadySeconds();
  {
    std::vector<std::jthread> threads;
    for (uint64_t i = 0; i < count; ++i) {
      threads.emplace_back([&, i] {
        const absl::Status status = CatchExceptions([&] {
          results[i] = ReadPart(context, *file, i * part, part, bytes,
                                memory.bytes().subspan(i * pieces * kPieceBytes,
                                                       pieces * kPieceBytes),
                                start + streams.most_seconds);
          return results[i].status();
        });
        if (!status.ok()) results[i] = status;
      });
    }
  }
  const double seconds = Seconds(context.clock, start);
  uint64_t read = 0;
  for (const absl::StatusOr<uint64_t>& result : results) {
    HEARTH_RETURN_IF_ERROR(result.status());
    read += *result;
  }
  return static_cast<double>(std::max(kPageBytes, read)) / seconds;
}

absl::StatusOr<double> ProbeWriting(const ProbeContext& context,
                                    const std::string& folder,
                                    double most_seconds) {
  const io::ScratchFile removed(
      context.files,
      io::JoinPath(folder, absl::StrCat("probe", io::kTemporarySuffix)));
  HEARTH_ASSIGN_OR_RETURN(io::AlignedMemory memory,
                          io::AlignedMemory::Allocate(kWriteBytes));
  HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<io::WritableFile> file,
                          context.files.CreateUncached(removed.path()));
  const double start = context.clock.SteadySeconds();
  HEARTH_RETURN_IF_ERROR(file->Allocate(kMostWritten));
  uint64_t written = 0;
  for (; written < kMostWritten; written += kWriteBytes) {
    HEARTH_RETURN_IF_ERROR(CheckStop(context));
    if (written > 0 && context.clock.SteadySeconds() - start >= most_seconds) {
      break;
    }
    HEARTH_RETURN_IF_ERROR(file->Write(written, memory.bytes()));
  }
  HEARTH_RETURN_IF_ERROR(file->Sync());
  HEARTH_RETURN_IF_ERROR(file->Close());
  return static_cast<double>(written) / Seconds(context.clock, start);
}

absl::StatusOr<double> ProbePages(const ProbeContext& context,
                                  const std::string& path, int depth) {
  HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<io::BlockDevice> device,
                          context.files.OpenBlockDevice(path, {}));
  const io::RowLayout pages = {
      .first_offset = 0,
      .row_bytes = static_cast<uint32_t>(kPageBytes),
      .num_rows = static_cast<int64_t>(device->size_bytes() / kPageBytes)};
  if (pages.num_rows == 0) return 1 / kLeastSeconds;
  HEARTH_ASSIGN_OR_RETURN(const io::ReadQueues::Handle queue,
                          context.read_queues.Take(static_cast<size_t>(depth)));
  HEARTH_ASSIGN_OR_RETURN(
      const std::unique_ptr<io::RowReader> reader,
      io::RowReader::Create(
          *device, pages, *queue,
          {.staging_bytes = static_cast<uint64_t>(depth) * 2 * kPageBytes,
           .cost = {.request_bytes = 0, .max_request_bytes = kPageBytes},
           .clock = &context.clock}));
  RandomStream random(1, RandomPurpose::kGenerator);
  std::vector<int64_t> wanted(
      static_cast<size_t>(std::min(kMostPages, pages.num_rows)));
  for (int64_t& page : wanted) {
    page = static_cast<int64_t>(
        random.Below(static_cast<uint64_t>(pages.num_rows)));
  }
  io::ReadTally tally;
  const double start = context.clock.SteadySeconds();
  HEARTH_RETURN_IF_ERROR(reader->Read(
      wanted, [](size_t, const std::byte*) {}, context.stop, tally));
  return static_cast<double>(std::max<int64_t>(1, tally.requests)) /
         Seconds(context.clock, start);
}

double ProbeRowCopy(const Clock& clock, const store::RowFormat& format) {
  const auto row_bytes = static_cast<uint64_t>(format.row_bytes());
  const uint64_t out_bytes = static_cast<uint64_t>(format.dim) * sizeof(float);
  // Every other row, to scattered positions: an odd stride meets each position
  // of a power of two once.
  constexpr uint64_t kLeastRowBytes = 32;
  const uint64_t bytes = std::max({kLeastRowBytes, 2 * row_bytes, out_bytes});
  uint64_t count = 1;
  while (2 * count * bytes <= kCopyBytes) count *= 2;
  auto rows = io::AlignedMemory::Allocate(count * 2 * row_bytes);
  auto out = io::AlignedMemory::Allocate(count * out_bytes);
  if (!rows.ok() || !out.ok()) return 0;
  // Zeroed memory is one page until it is written.
  std::fill(rows->bytes().begin(), rows->bytes().end(), std::byte{0});
  std::fill(out->bytes().begin(), out->bytes().end(), std::byte{0});
  std::vector<int64_t> slots(count);
  std::vector<int32_t> positions(count);
  for (uint64_t i = 0; i < count; ++i) {
    slots[i] = static_cast<int64_t>(2 * i);
    positions[i] = static_cast<int32_t>(i * 2654435761u % count);
  }
  const double start = clock.SteadySeconds();
  cache::ScatterRows(
      {.data = rows->bytes().data(), .dtype = format.dtype, .dim = format.dim},
      slots, positions, reinterpret_cast<float*>(out->bytes().data()));
  return Seconds(clock, start) / static_cast<double>(count);
}

absl::StatusOr<double> ProbeMemory(const Clock& clock) {
  constexpr uint64_t kBytes = kAtOncePieces * kPieceBytes;
  const double start = clock.SteadySeconds();
  HEARTH_ASSIGN_OR_RETURN(io::AlignedMemory memory,
                          io::AlignedMemory::Allocate(kBytes));
  for (uint64_t at = 0; at < kBytes; at += kPageBytes) {
    memory.bytes()[at] = std::byte{1};
  }
  return Seconds(clock, start) / static_cast<double>(kBytes);
}

double ProbeChecksum(const Clock& clock) {
  const std::vector<std::byte> bytes(kPieceBytes, std::byte{7});
  const double start = clock.SteadySeconds();
  (void)Crc32c(bytes);
  return Seconds(clock, start) / static_cast<double>(kPieceBytes);
}

}  // namespace hearth::machine
