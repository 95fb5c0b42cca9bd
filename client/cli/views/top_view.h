#ifndef HEARTH_CLIENT_CLI_VIEWS_TOP_VIEW_H_
#define HEARTH_CLIENT_CLI_VIEWS_TOP_VIEW_H_

#include <cstdint>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "client/cli/views/progress.h"
#include "hearth/v1/admin.pb.h"
#include "hearth/v1/jobs.pb.h"

namespace hearth::cli {

/// The picture of `hearth top`: a daemon and its jobs that have not ended, of
/// which it is told again and again. The phase of a job is that of its newest
/// event; the shares of its stages, its hits and rows are of its last whole
/// epoch. Single-owner.
class TopView {
 public:
  /// Takes the daemon's answers; `seconds` on a steady clock. Another process
  /// than before is a restart.
  void Add(const v1::Status& status, std::vector<v1::Job> jobs, double seconds);

  /// Takes the newest progress of a job.
  void Add(const std::string& job, const v1::JobEvent& event);

  /// The daemon could not be reached.
  void Lose(const absl::Status& why, double seconds);

  /// All of it in `rows` lines of `columns`; 0 = as many as there are.
  std::string Text(int columns, int rows) const;
  nlohmann::ordered_json Json() const;

 private:
  // Progress of a job that runs.
  struct Doing {
    v1::Progress progress;
    ProgressEstimate estimate;
  };

  std::vector<std::string> Head() const;
  std::string JobTable() const;

  v1::Status status_;
  std::vector<v1::Job> jobs_;
  std::map<std::string, Doing> doing_;
  // Rates between the last two answers of one process.
  std::optional<double> reads_per_second_;
  std::optional<double> bytes_per_second_;
  double answered_ = 0;
  // Since when, and why, it does not answer; OK while it does.
  absl::Status fault_;
  double silent_seconds_ = 0;
  int restarts_ = 0;
};

}  // namespace hearth::cli

#endif  // HEARTH_CLIENT_CLI_VIEWS_TOP_VIEW_H_
