#ifndef HEARTH_SERVER_MAPPING_FIELD_VIOLATIONS_H_
#define HEARTH_SERVER_MAPPING_FIELD_VIOLATIONS_H_

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"

namespace hearth::server {

/// Type URL of the status payload that ToStatus adds, a serialized
/// google.rpc.BadRequest.
inline constexpr char kBadRequestTypeUrl[] =
    "type.googleapis.com/google.rpc.BadRequest";

/// Collects what is wrong with the fields of a request. Thread-compatible.
class FieldViolations {
 public:
  /// `field` is a path such as "train.data.neighbor.fanouts[2]". More than
  /// kMaxViolations are not kept, so that the status fits a reply's headers.
  void Add(std::string field, std::string description);
  static constexpr size_t kMaxViolations = 8;

  bool empty() const { return violations_.empty(); }

  /// OK if there are none; otherwise a status with `code` whose message is
  /// "field: description; field: ..." and whose payload says the same in
  /// google.rpc.BadRequest's form.
  absl::Status ToStatus(
      absl::StatusCode code = absl::StatusCode::kInvalidArgument) const;

 private:
  std::vector<std::pair<std::string, std::string>> violations_;
};

}  // namespace hearth::server

#endif  // HEARTH_SERVER_MAPPING_FIELD_VIOLATIONS_H_
