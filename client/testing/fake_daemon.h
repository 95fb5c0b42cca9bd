#ifndef HEARTH_CLIENT_TESTING_FAKE_DAEMON_H_
#define HEARTH_CLIENT_TESTING_FAKE_DAEMON_H_

#include <grpcpp/grpcpp.h>

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/synchronization/mutex.h"
#include "hearth/v1/admin.grpc.pb.h"
#include "hearth/v1/datasets.grpc.pb.h"
#include "hearth/v1/jobs.grpc.pb.h"
#include "hearth/v1/plans.grpc.pb.h"

namespace hearth::client {

/// A daemon of a few scripted answers on a loopback socket, for tests of the
/// client. Thread-safe.
class FakeDaemon final : public v1::Jobs::Service,
                         public v1::Datasets::Service,
                         public v1::Plans::Service,
                         public v1::Admin::Service {
 public:
  FakeDaemon();
  ~FakeDaemon() override;

  /// "127.0.0.1:port"; stays the same over Stop() and Start().
  const std::string& address() const { return address_; }

  /// Breaks all connections, as a daemon that dies does.
  void Stop();
  void Start();

  /// Makes `job` known with `events`, numbered from 1. Its watch breaks with
  /// UNAVAILABLE after each number in `breaks`, once each.
  void AddJob(const v1::Job& job, std::vector<v1::JobEvent> events,
              std::vector<uint64_t> breaks = {});
  void AddDataset(const v1::Dataset& dataset);
  void AddUpload(const v1::Upload& upload);
  void AddPlan(const v1::Plan& plan);
  /// Sets the behaviour of SubmitJob, which is given a job with its id and
  /// spec; by default the job ends at once as SUCCEEDED.
  void OnSubmit(std::function<grpc::Status(v1::Job*)> on_submit);
  /// The next `count` submissions are accepted, but the answer is lost.
  void LoseAnswers(int count);
  /// A watch waits where its events are at an end until its job has ended.
  /// Called with the job's id when that happens.
  void OnWaitingWatch(std::function<void(const std::string&)> on_waiting);

  /// Requests so far.
  std::vector<v1::SubmitJobRequest> submissions() const;
  /// The "traceparent" of each submission; empty = it had none.
  std::vector<std::string> trace_parents() const;
  std::vector<uint64_t> watches() const;
  std::vector<std::string> cancelled() const;
  std::vector<v1::ResumeJobRequest> resumptions() const;

  grpc::Status SubmitJob(grpc::ServerContext*, const v1::SubmitJobRequest*,
                         v1::Job*) override;
  grpc::Status GetJob(grpc::ServerContext*, const v1::GetJobRequest*,
                      v1::Job*) override;
  grpc::Status ListJobs(grpc::ServerContext*, const v1::ListJobsRequest*,
                        v1::ListJobsResponse*) override;
  grpc::Status WatchJob(grpc::ServerContext*, const v1::WatchJobRequest*,
                        grpc::ServerWriter<v1::JobEvent>*) override;
  grpc::Status CancelJob(grpc::ServerContext*, const v1::CancelJobRequest*,
                         v1::Job*) override;
  grpc::Status ResumeJob(grpc::ServerContext*, const v1::ResumeJobRequest*,
                         v1::Job*) override;
  grpc::Status DeleteJob(grpc::ServerContext*, const v1::DeleteJobRequest*,
                         google::protobuf::Empty*) override;
  grpc::Status ListDatasets(grpc::ServerContext*,
                            const v1::ListDatasetsRequest*,
                            v1::ListDatasetsResponse*) override;
  grpc::Status GetDataset(grpc::ServerContext*, const v1::GetDatasetRequest*,
                          v1::Dataset*) override;
  grpc::Status DeleteDataset(grpc::ServerContext*,
                             const v1::DeleteDatasetRequest*,
                             google::protobuf::Empty*) override;
  grpc::Status ListUploads(grpc::ServerContext*, const v1::ListUploadsRequest*,
                           v1::ListUploadsResponse*) override;
  grpc::Status DeleteUpload(grpc::ServerContext*,
                            const v1::DeleteUploadRequest*,
                            google::protobuf::Empty*) override;
  grpc::Status ListPlans(grpc::ServerContext*, const v1::ListPlansRequest*,
                         v1::ListPlansResponse*) override;
  grpc::Status GetPlan(grpc::ServerContext*, const v1::GetPlanRequest*,
                       v1::Plan*) override;
  grpc::Status DeletePlan(grpc::ServerContext*, const v1::DeletePlanRequest*,
                          google::protobuf::Empty*) override;
  grpc::Status GetStatus(grpc::ServerContext*, const v1::GetStatusRequest*,
                         v1::Status*) override;

 private:
  struct KnownJob {
    v1::Job job;
    std::vector<v1::JobEvent> events;
    std::vector<uint64_t> breaks;
  };

  grpc::Status Accept(const std::string& id, const v1::JobSpec& spec)
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_);

  std::string address_ = "127.0.0.1:0";
  std::unique_ptr<grpc::Server> server_;
  mutable absl::Mutex mutex_;
  std::map<std::string, KnownJob> jobs_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::string> ids_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, v1::Dataset> datasets_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, v1::Upload> uploads_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, v1::Plan> plans_ ABSL_GUARDED_BY(mutex_);
  std::vector<v1::SubmitJobRequest> submissions_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> trace_parents_ ABSL_GUARDED_BY(mutex_);
  std::vector<uint64_t> watches_ ABSL_GUARDED_BY(mutex_);
  std::vector<std::string> cancelled_ ABSL_GUARDED_BY(mutex_);
  std::vector<v1::ResumeJobRequest> resumptions_ ABSL_GUARDED_BY(mutex_);
  std::function<grpc::Status(v1::Job*)> on_submit_ ABSL_GUARDED_BY(mutex_);
  std::function<void(const std::string&)> on_waiting_ ABSL_GUARDED_BY(mutex_);
  int lost_answers_ ABSL_GUARDED_BY(mutex_) = 0;
};

/// Events for AddJob.
v1::JobEvent StateEvent(v1::JobState state);
v1::JobEvent LogEvent(const std::string& text);

}  // namespace hearth::client

#endif  // HEARTH_CLIENT_TESTING_FAKE_DAEMON_H_
