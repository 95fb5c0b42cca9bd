#include "engine/strategy/diskgnn/forecast/forecast_notes.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/base/byte_size.h"

namespace hearth::strategy {
namespace {

std::string RateText(double bytes_per_second) {
  return absl::StrCat(FormatByteSize(static_cast<uint64_t>(bytes_per_second)),
                      " a second");
}

std::string BasisNote(const ForecastFacts& facts) {
  if (facts.plan_exists) {
    return "The plan exists: figures of rows, bytes and disk are taken from "
           "it.";
  }
  if (facts.sampled_batches == facts.total_batches) {
    return absl::StrCat("All ", facts.total_batches,
                        " batches were sampled: figures of rows, bytes and "
                        "disk are exact.");
  }
  return absl::StrCat(facts.sampled_batches, " of ", facts.total_batches,
                      " batches were sampled, spread evenly: figures of rows, "
                      "bytes and disk are estimates.");
}

std::string LevelsNote(const LayoutForecast& layout) {
  const double all = std::max(1.0, layout.epoch.rows);
  return absl::StrFormat(
      "With %d rows in memory and %d in the disk cache, an epoch finds %.1f%% "
      "of its rows in memory, %.1f%% in the disk cache and %.1f%% in packs.",
      layout.memory_rows, layout.disk_cache_rows,
      100 * layout.epoch.cpu_rows / all, 100 * layout.epoch.disk_rows / all,
      100 * layout.epoch.packed_rows / all);
}

}  // namespace

std::vector<std::string> NotesOf(const ForecastFacts& facts) {
  std::vector<std::string> notes = {
      BasisNote(facts),
      absl::StrCat("The layout ", facts.plan_exists ? "has " : "would have ",
                   facts.layout.reason, "."),
      LevelsNote(facts.layout)};
  if (!facts.plan_exists &&
      facts.layout.segment_size > static_cast<int64_t>(facts.sampled_batches)) {
    notes.push_back(
        "Segments would have more batches than were sampled: how many pages of "
        "the disk cache a batch reads is extrapolated, and less sure.");
  }
  notes.push_back(absl::StrFormat(
      "The epoch is bound by the %s: the disk reads %s, a training step takes "
      "%.4f s.",
      facts.epoch.bound, RateText(facts.rates.pass_bytes_per_second),
      facts.train_seconds));
  if (!facts.plan_exists) {
    notes.push_back(absl::StrFormat(
        "Preparing takes %.1f s to sample, %.1f s to plan and %.1f s to pack; "
        "the disk writes %s.",
        facts.preparation.sampling, facts.preparation.planning,
        facts.preparation.packing,
        RateText(facts.rates.write_bytes_per_second)));
  }
  notes.push_back(
      "Times follow from short measurements on the machine as busy as it was; "
      "packing, which takes memory that was not used before, may take longer.");
  return notes;
}

}  // namespace hearth::strategy
