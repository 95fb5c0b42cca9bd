#ifndef HEARTH_CLIENT_CLI_JOB_VIEW_H_
#define HEARTH_CLIENT_CLI_JOB_VIEW_H_

#include <ostream>
#include <vector>

#include "hearth/v1/jobs.pb.h"

namespace hearth::cli {

/// One line per job.
void PrintJobList(const std::vector<v1::Job>& jobs, std::ostream& out);

/// Prints the options of a job and what it did so far.
void PrintJob(const v1::Job& job, std::ostream& out);

/// How a job ended: its result, or why there is none.
void PrintOutcome(const v1::Job& job, std::ostream& out);

}  // namespace hearth::cli

#endif  // HEARTH_CLIENT_CLI_JOB_VIEW_H_
