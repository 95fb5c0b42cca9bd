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

/// Files of a finished plan: checks of their sizes, and the store's own
/// records.

namespace hearth::plan {

/// Checks the files of a finished plan, given by their names in `folder` and
/// their sizes in bytes. DATA_LOSS naming the file that is missing or has
/// another size.
absl::Status CheckFileSizes(
    io::FileSystem& files, const std::string& folder,
    absl::Span<const std::pair<const char*, uint64_t>> expected);

/// Properties of a plan, as (name, value), for people to read.
using PlanProperties = std::vector<std::pair<std::string, std::string>>;

/// Value of the property `name`; empty if there is none.
std::string ValueOf(const PlanProperties& properties, absl::string_view name);

/// Records that a PlanStore keeps in a plan's folder next to the strategy's
/// files, each written atomically:
///
///   about.json  written last: when the plan was made, and its properties
///   last_use    when a job took the plan last
///   damaged     the message of a reader that found damage
class PlanRecords {
 public:
  struct About {
    absl::Time created;
    PlanProperties properties;
  };

  PlanRecords(io::FileSystem& files, std::string folder)
      : files_(files), folder_(std::move(folder)) {}

  absl::Status WriteAbout(const About& about) const;
  /// NOT_FOUND if there is no record; DATA_LOSS or INVALID_ARGUMENT, naming the
  /// file, if it is damaged.
  absl::StatusOr<About> ReadAbout() const;

  absl::Status WriteUse(absl::Time time) const;
  /// Time of the last use; InfinitePast if it is not known.
  absl::Time ReadUse() const;

  absl::Status WriteDamage(absl::string_view message) const;
  /// Message of WriteDamage; NOT_FOUND if there is none.
  absl::StatusOr<std::string> ReadDamage() const;
  /// DATA_LOSS with that message, if there is one; errors of reading it.
  absl::Status CheckUndamaged() const;

 private:
  std::string Path(const char* file) const;

  io::FileSystem& files_;
  const std::string folder_;
};

}  // namespace hearth::plan

#endif  // HEARTH_ENGINE_PLAN_PLAN_RECORDS_H_
