#ifndef HEARTH_SERVER_MAPPING_REQUEST_CHECKS_H_
#define HEARTH_SERVER_MAPPING_REQUEST_CHECKS_H_

#include <google/protobuf/message.h>

#include <cstddef>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "hearth/v1/spec.pb.h"

/// Checks of requests and specs, and the violations that they report.

namespace hearth::server {

/// Whether `name` may name a dataset, and so a folder: letters, digits, '.',
/// '_' and '-', starting with a letter or digit, 1 to 128 characters, not
/// ending in ".tmp".
bool IsValidName(absl::string_view name);

/// Type URL of the status payload of ToStatus, a serialized
/// google.rpc.BadRequest.
inline constexpr char kBadRequestTypeUrl[] =
    "type.googleapis.com/google.rpc.BadRequest";

/// Collects faults of the fields of a request. Thread-compatible.
class FieldViolations {
 public:
  /// `field` is a path such as "train.data.neighbor.fanouts[2]". Only the first
  /// kMaxViolations are kept, so that the status fits a reply's headers.
  void Add(std::string field, std::string description);
  static constexpr size_t kMaxViolations = 8;

  bool empty() const { return violations_.empty(); }

  /// OK if there are no violations; otherwise a status with `code`, the message
  /// "field: description; field: ..." and a google.rpc.BadRequest payload with
  /// the same contents.
  absl::Status ToStatus(
      absl::StatusCode code = absl::StatusCode::kInvalidArgument) const;

 private:
  std::vector<std::pair<std::string, std::string>> violations_;
};

/// Fills in the defaults that the descriptions of the options in `spec` name,
/// and adds violations for options that are missing, out of bounds, or set
/// though they do not apply to the chosen alternatives. Options of repeated
/// messages without elements are skipped. Field names begin with `prefix`,
/// which may be empty: "train.data.batch_size".
void FillAndCheckOptions(const std::string& prefix,
                         google::protobuf::Message& spec,
                         FieldViolations& violations);

/// Checks requirements of every request: no fields or enum values that this
/// hearthd does not know, since it could not do what they ask; no "unspecified"
/// elements in repeated enums; no control characters in texts, since texts are
/// shown and logged. INVALID_ARGUMENT, naming each field at fault as
/// FillAndValidate does: fields of a job's spec begin with its kind
/// ("train.data.dataset").
absl::Status CheckRequest(const google::protobuf::Message& request);

/// OK if a job of `spec` may continue with `next`: both have defaults filled
/// in, and differ only in options that change no result. INVALID_ARGUMENT,
/// naming the fields at fault.
absl::Status CheckChangesNoResult(const v1::JobSpec& spec,
                                  const v1::JobSpec& next);

}  // namespace hearth::server

#endif  // HEARTH_SERVER_MAPPING_REQUEST_CHECKS_H_
