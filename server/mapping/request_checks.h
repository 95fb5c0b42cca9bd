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

namespace hearth::server {

/// Whether `name` may name a dataset, and so a folder: letters, digits, '.',
/// '_' and '-', starting with a letter or digit, 1 to 128 characters, not
/// ending in ".tmp".
bool IsValidName(absl::string_view name);

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

/// Fills in the defaults that the descriptions of the options in `spec` name,
/// and notes what is missing, out of bounds, or set though it does not apply to
/// what is chosen. Messages that repeat must be there, or are left out. Fields
/// are named below `prefix`: "train.data.batch_size"; it may be empty.
void FillAndCheckOptions(const std::string& prefix,
                         google::protobuf::Message& spec,
                         FieldViolations& violations);

/// Checks what holds for every request: it has no fields and no values of enums
/// that this hearthd does not know, for they would be asked for in vain; no
/// element of a repeated enum is its "unspecified"; no text has control
/// characters, for texts are shown and logged. INVALID_ARGUMENT naming each
/// field at fault as FillAndValidate does: those of a job's spec begin with its
/// kind ("train.data.dataset").
absl::Status CheckRequest(const google::protobuf::Message& request);

/// Whether a job of `spec` may go on with `next`: both with defaults filled in,
/// and different at most in options that change no result. INVALID_ARGUMENT
/// naming the fields at fault.
absl::Status CheckChangesNoResult(const v1::JobSpec& spec,
                                  const v1::JobSpec& next);

}  // namespace hearth::server

#endif  // HEARTH_SERVER_MAPPING_REQUEST_CHECKS_H_
