#ifndef HEARTH_SERVER_JOBS_NODE_FILES_H_
#define HEARTH_SERVER_JOBS_NODE_FILES_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <set>
#include <string>
#include <utility>

#include "absl/base/thread_annotations.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/types/span.h"
#include "engine/io/file_system.h"
#include "engine/job/data/nodes_file.h"
#include "engine/job/memory/memory_ledger.h"
#include "hearth/v1/jobs.pb.h"
#include "server/storage/data_dir.h"
#include "server/storage/job_store.h"

namespace hearth::server {

/// The nodes that clients of feed jobs send (FeedSpec.nodes), as files in the
/// jobs' folders, and the jobs that wait for them. Thread-safe.
class NodeFiles {
 public:
  struct Dependencies {
    io::FileSystem& files;
    const DataDir& data_dir;
    JobStore& store;
    job::MemoryLedger& memory;
    /// Called when a job has got nodes.
    std::function<void()> have_come = nullptr;
  };

  /// All dependencies outlive this.
  explicit NodeFiles(Dependencies dependencies)
      : dependencies_(std::move(dependencies)) {}

  /// Nodes that come from a client. Single-owner.
  class Incoming {
   public:
    /// See job::NodesFileWriter.
    absl::Status Append(absl::Span<const std::byte> ids) {
      return writer_->Append(ids);
    }
    /// All have come. FAILED_PRECONDITION if the job has ended meanwhile;
    /// errors as job::NodesFileWriter::Finish. Waits for the disk.
    absl::Status Finish();

   private:
    friend class NodeFiles;
    Incoming(NodeFiles& owner, std::string id)
        : owner_(owner), id_(std::move(id)) {}

    NodeFiles& owner_;
    const std::string id_;
    job::MemoryLedger::Reservation memory_;
    std::unique_ptr<job::NodesFileWriter> writer_;
  };

  /// Begins to take the nodes of the digest `sha256` for a job; null if the job
  /// has them. NOT_FOUND for an unknown job; FAILED_PRECONDITION if it is no
  /// feed, has ended, or asks for no such nodes; RESOURCE_EXHAUSTED if there is
  /// no memory or space.
  absl::StatusOr<std::unique_ptr<Incoming>> Begin(const std::string& id,
                                                  const std::string& sha256)
      ABSL_LOCKS_EXCLUDED(mutex_);

  /// Whether a feed job has all of its nodes. If not, Awaits(id) is true until
  /// some come.
  absl::StatusOr<bool> HasAll(const v1::Job& job) ABSL_LOCKS_EXCLUDED(mutex_);
  bool Awaits(const std::string& id) const ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  // The file of these nodes.
  absl::StatusOr<job::NodesFile> FileOf(const v1::Job& job,
                                        const std::string& sha256) const;
  // The job, which goes on.
  absl::StatusOr<v1::Job> GetUnended(const std::string& id) const;

  // Forgets jobs that do not wait any more.
  void ForgetEnded() ABSL_LOCKS_EXCLUDED(mutex_);

  const Dependencies dependencies_;
  mutable absl::Mutex mutex_;
  std::set<std::string> awaiting_ ABSL_GUARDED_BY(mutex_);
  // For names of temporary files.
  uint64_t next_number_ ABSL_GUARDED_BY(mutex_) = 0;
};

}  // namespace hearth::server

#endif  // HEARTH_SERVER_JOBS_NODE_FILES_H_
