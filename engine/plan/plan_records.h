#ifndef HEARTH_ENGINE_PLAN_PLAN_RECORDS_H_
#define HEARTH_ENGINE_PLAN_PLAN_RECORDS_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "engine/io/file_system.h"

namespace hearth::plan {

/// Checks the files of a finished plan, each given by its name in `folder` and
/// its size in bytes. DATA_LOSS naming the file if one is missing or has
/// another size.
absl::Status CheckFileSizes(
    io::FileSystem& files, const std::string& folder,
    absl::Span<const std::pair<const char*, uint64_t>> expected);

/// Facts about a plan, as (name, value), for people.
using PlanProperties = std::vector<std::pair<std::string, std::string>>;

/// The value of a property; empty if there is none of the name.
std::string ValueOf(const PlanProperties& properties, absl::string_view name);

/// The records that a PlanStore keeps in a plan's folder beside the strategy's
/// files:
///
///   about.json  written last: when it was made, and facts about it
///   last_use    when a job took it last
///   damaged     what somebody said who read damage
///
/// Written atomically.
class PlanRecords {
 public:
  struct About {
    absl::Time created;
    PlanProperties properties;
  };

  PlanRecords(io::FileSystem& files, std::string folder)
      : files_(files), folder_(std::move(folder)) {}

  absl::Status WriteAbout(const About& about) const;
  /// NOT_FOUND if there is none; DATA_LOSS or INVALID_ARGUMENT, naming the
  /// file, if it is damaged.
  absl::StatusOr<About> ReadAbout() const;

  absl::Status WriteUse(absl::Time time) const;
  /// InfinitePast if that is not known.
  absl::Time ReadUse() const;

  absl::Status WriteDamage(absl::string_view message) const;
  /// NOT_FOUND if there is none.
  absl::StatusOr<std::string> ReadDamage() const;

 private:
  std::string Path(const char* file) const;

  io::FileSystem& files_;
  const std::string folder_;
};

}  // namespace hearth::plan

#endif  // HEARTH_ENGINE_PLAN_PLAN_RECORDS_H_
