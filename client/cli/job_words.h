#ifndef HEARTH_CLIENT_CLI_JOB_WORDS_H_
#define HEARTH_CLIENT_CLI_JOB_WORDS_H_

#include <optional>
#include <string>

#include "hearth/v1/jobs.pb.h"

namespace hearth::cli {

/// "queued", "running", ...
std::string StateWord(v1::JobState state);

/// The same with what the job waits for: "waiting: memory: ...", escaped.
std::string StateText(const v1::StateChange& change);

/// "train", "import", "export-dataset": as job ids begin.
std::string KindWord(const v1::JobSpec& spec);

/// "INVALID_ARGUMENT: node_label.npy: ...", escaped, with flags in place of the
/// fields that it names.
std::string ErrorText(const v1::JobError& error);

/// "epoch 3: loss 1.2345, valid accuracy 0.812, 4.2 s".
std::string EpochLine(const v1::EpochReport& epoch);

/// "warning: ...", escaped.
std::string LogText(const v1::LogLine& log);

/// The line of a job's log for an event: its own log line, or one for a state
/// or an epoch; absent for progress.
std::optional<v1::LogLine> LogLineOf(const v1::JobEvent& event);

}  // namespace hearth::cli

#endif  // HEARTH_CLIENT_CLI_JOB_WORDS_H_
