#ifndef HEARTH_SERVER_MAPPING_OPTION_CHECKS_H_
#define HEARTH_SERVER_MAPPING_OPTION_CHECKS_H_

#include <google/protobuf/message.h>

#include <string>

#include "server/mapping/field_violations.h"

namespace hearth::server {

/// Fills in the defaults that the descriptions of the options in `spec` name,
/// and notes what is missing, out of bounds, or set though it does not apply to
/// what is chosen. Messages that repeat must be there, or are left out. Fields
/// are named below `prefix`: "train.data.batch_size"; it may be empty.
void FillAndCheckOptions(const std::string& prefix,
                         google::protobuf::Message& spec,
                         FieldViolations& violations);

}  // namespace hearth::server

#endif  // HEARTH_SERVER_MAPPING_OPTION_CHECKS_H_
