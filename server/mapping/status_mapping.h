#ifndef HEARTH_SERVER_MAPPING_STATUS_MAPPING_H_
#define HEARTH_SERVER_MAPPING_STATUS_MAPPING_H_

#include <grpcpp/support/status.h>

#include "absl/status/status.h"

namespace hearth::server {

/// The gRPC status for `status`: the same canonical code and message, and the
/// payloads (see field_violations.h) as details of a google.rpc.Status.
/// Messages longer than kMaxMessageLength are cut, since they travel in headers
/// of limited size.
grpc::Status ToGrpcStatus(const absl::Status& status);

inline constexpr size_t kMaxMessageLength = 1024;

}  // namespace hearth::server

#endif  // HEARTH_SERVER_MAPPING_STATUS_MAPPING_H_
