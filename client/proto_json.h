#ifndef HEARTH_CLIENT_PROTO_JSON_H_
#define HEARTH_CLIENT_PROTO_JSON_H_

#include <google/protobuf/message.h>

#include <nlohmann/json.hpp>

#include "hearth/v1/jobs.pb.h"

namespace hearth::client {

/// `message` as JSON for programs: fields in the order of their numbers, by
/// their snake_case names; all integers as numbers; enums by name; timestamps
/// as RFC 3339 in UTC; doubles with the fewest digits that read back equal
/// (null where not finite). Unset messages and unset `optional` fields are
/// null; all other fields are always there.
///
/// Protobuf's own mapping has 64-bit integers as strings, and camelCase.
nlohmann::ordered_json ToJson(const google::protobuf::Message& message);

/// A job as JSON, as `hearth job show` prints it: ToJson, except that `report`
/// is the report of the job's kind (report.loss_digest instead of
/// report.train.loss_digest).
nlohmann::ordered_json JobToJson(const v1::Job& job);

}  // namespace hearth::client

#endif  // HEARTH_CLIENT_PROTO_JSON_H_
