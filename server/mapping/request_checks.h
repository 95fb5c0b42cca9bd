#ifndef HEARTH_SERVER_MAPPING_REQUEST_CHECKS_H_
#define HEARTH_SERVER_MAPPING_REQUEST_CHECKS_H_

#include <google/protobuf/message.h>

#include "absl/status/status.h"

namespace hearth::server {

/// Checks what holds for every request: it has no fields and no values of enums
/// that this hearthd does not know, for they would be asked for in vain; no
/// element of a repeated enum is its "unspecified"; no text has control
/// characters, for texts are shown and logged. INVALID_ARGUMENT naming each
/// field at fault as FillAndValidate does: those of a job's spec begin with its
/// kind ("train.data.dataset").
absl::Status CheckRequest(const google::protobuf::Message& request);

}  // namespace hearth::server

#endif  // HEARTH_SERVER_MAPPING_REQUEST_CHECKS_H_
