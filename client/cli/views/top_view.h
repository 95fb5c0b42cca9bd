#ifndef HEARTH_CLIENT_CLI_VIEWS_TOP_VIEW_H_
#define HEARTH_CLIENT_CLI_VIEWS_TOP_VIEW_H_

#include <cstdint>
#include <map>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "client/cli/views/progress.h"
#include "hearth/v1/admin.pb.h"
#include "hearth/v1/jobs.pb.h"

namespace hearth::cli {

/// The picture of `hearth top`: a daemon and its unfinished jobs, from repeated
/// answers of the daemon. A job's phase is the phase of its newest event;
/// shares of its stages, hits and rows are of its last whole epoch, or of a
/// feed's training passes.
/// Single-owner.
class TopView {
 public:
  /// Takes the daemon's answers; `seconds` on a steady clock. A changed process
  /// id counts as a restart.
  void Add(const v1::Status& status, std::vector<v1::Job> jobs, double seconds);

  /// Takes a progress event of the job with the id `job`.
  void Add(const std::string& job, const v1::JobEvent& event);

  /// To be called when the daemon could not be reached, with the reason.
  void Lose(const absl::Status& why, double seconds);

  /// The picture in at most `rows` lines of `columns` characters; 0 = no limit.
  std::string Text(int columns, int rows) const;
  nlohmann::ordered_json Json() const;

 private:
  // Progress of a running job.
  struct Doing {
    v1::Progress progress;
    ProgressEstimate estimate;
  };

  std::vector<std::string> Head() const;
  std::string JobTable() const;

  v1::Status status_;
  std::vector<v1::Job> jobs_;
  std::map<std::string, Doing> doing_;
  // Disk reads between the last two answers of one process.
  std::optional<double> reads_per_second_;
  std::optional<double> bytes_per_second_;
  double answered_ = 0;
  // Why the daemon does not answer, and since when; OK while it answers.
  absl::Status fault_;
  double silent_seconds_ = 0;
  int restarts_ = 0;
};

}  // namespace hearth::cli

#endif  // HEARTH_CLIENT_CLI_VIEWS_TOP_VIEW_H_
