#ifndef HEARTH_ENGINE_JOB_INTERFACE_PASS_BOARD_H_
#define HEARTH_ENGINE_JOB_INTERFACE_PASS_BOARD_H_

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "engine/train/rank_group.h"

/// How jobs that share their passes on one machine do so on several: rank 0
/// tells the other ranks which pass comes next (PassTurn), through the board of
/// each job (PassBoard).

namespace hearth::job {

struct JobEnvironment;

/// What the runs of all ranks do next.
struct PassTurn {
  enum class Kind {
    /// No pass: jobs are attached.
    kNone,
    kTraining,
    kValidation,
    kTest,
  };
  struct Job {
    /// PassBoard::attempt.
    std::string attempt;
    /// BatchOptions::first_epoch_key.
    int64_t first_epoch_key = 0;
  };

  /// From 1, without gaps.
  uint64_t number = 0;
  Kind kind = Kind::kNone;
  /// kTraining: the epoch (BatchOptions::EpochOfBatches).
  int64_t epoch = 0;
  /// All jobs that are attached, and the attempts of those that take part in
  /// the pass, in the order in which they are called.
  std::vector<Job> jobs = {};
  std::vector<std::string> in_pass = {};
};

/// A job's own way from rank 0 to its other ranks. Thread-safe.
class PassBoard {
 public:
  virtual ~PassBoard() = default;

  /// Name of the job's attempt, equal on all ranks and for no other job.
  virtual const std::string& attempt() const = 0;

  /// Rank 0: tells the turn to all other ranks, after those before it, and does
  /// not wait until they have heard it. A rank that cannot be told is lost, and
  /// the job's calls fail.
  virtual void Post(const PassTurn& turn) = 0;

  /// Other ranks: `listener` is called with each turn that was and will be
  /// posted, in order, on any thread; null: not any more, once Listen returns.
  virtual void Listen(std::function<void(const PassTurn&)> listener) = 0;

  /// Other ranks: another job, which this rank lacks, will not take part here.
  /// Its attempt ends on all ranks.
  virtual void GiveUp(const std::string& attempt) = 0;
};

/// A job's place among machines that train it together; outlives the job.
struct Ranks {
  train::RankGroup& group;
  PassBoard& board;
  /// What jobs of this machine alone use, and the source of batches that
  /// several jobs share, which must not call the other ranks. Outlives all
  /// jobs.
  const JobEnvironment& process;

  bool leads() const { return group.rank() == 0; }
};

}  // namespace hearth::job

#endif  // HEARTH_ENGINE_JOB_INTERFACE_PASS_BOARD_H_
