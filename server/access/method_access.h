#ifndef HEARTH_SERVER_ACCESS_METHOD_ACCESS_H_
#define HEARTH_SERVER_ACCESS_METHOD_ACCESS_H_

#include <google/protobuf/descriptor.h>

#include <optional>
#include <string>

#include "absl/strings/string_view.h"
#include "hearth/v1/access.pb.h"

namespace hearth::server {

/// Access that the method at `path` ("/hearth.v1.Jobs/SubmitJob") asks of its
/// caller, by its option in the contract; of gRPC's own services for health and
/// reflection, the least role. Nullopt for any other method: nobody may call
/// it.
std::optional<v1::Access> AccessOf(absl::string_view path);

/// The method of the contract that takes `request`, which only one does; null
/// if none does.
const google::protobuf::MethodDescriptor* MethodOf(
    const google::protobuf::Descriptor& request);

/// "Jobs/SubmitJob", or what `path` holds if it names no method of the
/// contract.
std::string MethodName(absl::string_view path);

}  // namespace hearth::server

#endif  // HEARTH_SERVER_ACCESS_METHOD_ACCESS_H_
