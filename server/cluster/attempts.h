#ifndef HEARTH_SERVER_CLUSTER_ATTEMPTS_H_
#define HEARTH_SERVER_CLUSTER_ATTEMPTS_H_

#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "engine/io/file_system.h"

/// Attempts at jobs of several machines, as each machine remembers them.

namespace hearth::server {

/// An attempt at a job: a number, and a random text that tells attempts of one
/// number apart, as a copied disk would make them.
struct Attempt {
  /// From 1; 0 = none.
  uint64_t number = 0;
  std::string nonce;
  /// Job of this machine's rank in it; empty at the leader.
  std::string rank_job = {};
  /// At the leader: the members that have been asked to take part in attempts
  /// at the job.
  std::set<std::string> members = {};
  /// The member that goes on with the job in its leader's place, and its job
  /// there, once it has one; empty if nobody does.
  std::string adopter = {};
  std::string adopter_job = {};
};

/// The newest attempts that this machine knows. Durable: one that was noted is
/// known after any crash. Thread-safe.
class Attempts {
 public:
  /// `folder` is made when the first attempt is noted. `files` outlives this.
  Attempts(io::FileSystem& files, std::string folder)
      : files_(files), folder_(std::move(folder)) {}

  /// The newest attempt at `job` of the member `leader`. DATA_LOSS, naming the
  /// file, if it is damaged.
  absl::StatusOr<Attempt> Find(const std::string& leader,
                               const std::string& job)
      ABSL_LOCKS_EXCLUDED(mutex_);

  /// OK if the attempt could be noted. Errors as Note's.
  absl::Status Check(const std::string& leader, const std::string& job,
                     const Attempt& attempt) ABSL_LOCKS_EXCLUDED(mutex_);

  /// Notes a newer attempt. ABORTED, telling the known one, if it is not;
  /// FAILED_PRECONDITION if the job was adopted.
  absl::Status Note(const std::string& leader, const std::string& job,
                    const Attempt& attempt) ABSL_LOCKS_EXCLUDED(mutex_);

  /// Notes that the member `adopter` goes on with the job, as its `adopter_job`
  /// (empty: not known yet). FAILED_PRECONDITION if another member does.
  absl::Status NoteAdopted(const std::string& leader, const std::string& job,
                           const std::string& adopter,
                           const std::string& adopter_job)
      ABSL_LOCKS_EXCLUDED(mutex_);

  /// The job of this machine, which led it, was deleted: its attempts are
  /// forgotten, once the members that took part have been told.
  absl::Status NoteDeleted(const std::string& leader, const std::string& job)
      ABSL_LOCKS_EXCLUDED(mutex_);
  /// Deleted jobs of this machine of which `member` has not been told.
  absl::StatusOr<std::vector<std::string>> DeletedJobs(
      const std::string& leader, const std::string& member)
      ABSL_LOCKS_EXCLUDED(mutex_);
  /// `member` was told that the jobs were deleted.
  absl::Status NoteTold(const std::string& leader,
                        const std::vector<std::string>& jobs,
                        const std::string& member) ABSL_LOCKS_EXCLUDED(mutex_);
  /// Forgets the attempts at a job.
  absl::Status Forget(const std::string& leader, const std::string& job)
      ABSL_LOCKS_EXCLUDED(mutex_);

  /// Sets the job of this machine's rank in the known attempt.
  absl::Status SetRankJob(const std::string& leader, const std::string& job,
                          const std::string& rank_job)
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  std::string PathOf(const std::string& leader, const std::string& job) const;
  // The file of a deleted job.
  std::string DeletedPathOf(const std::string& leader,
                            const std::string& job) const;
  absl::StatusOr<Attempt> Read(const std::string& path)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);
  static absl::Status CheckAgainst(const Attempt& known,
                                   const std::string& leader,
                                   const std::string& job,
                                   const Attempt& attempt);
  absl::Status Write(const std::string& path, const Attempt& attempt)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  io::FileSystem& files_;
  const std::string folder_;
  absl::Mutex mutex_;
};

}  // namespace hearth::server

#endif  // HEARTH_SERVER_CLUSTER_ATTEMPTS_H_
