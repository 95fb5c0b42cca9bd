#ifndef HEARTH_CLIENT_CLI_JOB_VIEW_H_
#define HEARTH_CLIENT_CLI_JOB_VIEW_H_

#include <ostream>
#include <string>
#include <vector>

#include "hearth/v1/jobs.pb.h"

namespace hearth::cli {

/// The dataset or job that a job works on, in a word; "-" for none.
std::string SubjectOf(const v1::JobSpec& spec);

/// One line per job.
void PrintJobList(const std::vector<v1::Job>& jobs, std::ostream& out);

/// Prints the options of a job and what it did so far.
void PrintJob(const v1::Job& job, std::ostream& out);

/// How a job ended: its result, or why there is none.
void PrintOutcome(const v1::Job& job, std::ostream& out);

}  // namespace hearth::cli

#endif  // HEARTH_CLIENT_CLI_JOB_VIEW_H_
