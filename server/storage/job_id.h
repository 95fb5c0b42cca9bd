#ifndef HEARTH_SERVER_STORAGE_JOB_ID_H_
#define HEARTH_SERVER_STORAGE_JOB_ID_H_

#include <cstdint>
#include <string>

namespace hearth::server {

/// "train-7" of "train" and 7.
std::string MakeJobId(const std::string& kind, int64_t number);

/// The number in "train-7"; 0, which no job has, for anything else.
int64_t JobNumber(const std::string& id);

}  // namespace hearth::server

#endif  // HEARTH_SERVER_STORAGE_JOB_ID_H_
