#include "server/services/peers_service.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/cleanup/cleanup.h"
#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "engine/base/sha256.h"
#include "engine/base/status.h"
#include "engine/base/version.h"
#include "hearth/v1/peers.grpc.pb.h"
#include "server/access/access_control.h"
#include "server/access/endpoints.h"
#include "server/cluster/cluster.h"
#include "server/cluster/dataset_copy.h"
#include "server/cluster/rank_session.h"
#include "server/cluster/row_exchange.h"
#include "server/jobs/admission.h"
#include "server/log.h"
#include "server/mapping/request_checks.h"
#include "server/services/call_guard.h"
#include "server/storage/data_dir.h"
#include "server/storage/dataset_catalog.h"
#include "server/storage/job_state.h"
#include "server/storage/job_store.h"

namespace hearth::server {
namespace {

// Time that the rank of an older attempt has to end, before a newer one is
// refused for now.
constexpr absl::Duration kOlderPatience = absl::Seconds(4);
constexpr absl::Duration kPoll = absl::Milliseconds(20);

class PeersService final : public v1::Peers::Service {
 public:
  using Stream = grpc::ServerReaderWriter<v1::RankMessage, v1::LeaderMessage>;

  explicit PeersService(const PeersDependencies& deps)
      : deps_(deps), guard_(deps.access) {}

  grpc::Status Describe(grpc::ServerContext* context,
                        const v1::DescribeRequest* request,
                        v1::MemberState* response) override {
    return guard_.Run(
        *context, *request, response, [&](const Caller&) -> absl::Status {
          HEARTH_ASSIGN_OR_RETURN(*response, OwnMemberState(deps_));
          return absl::OkStatus();
        });
  }

  grpc::Status Enroll(grpc::ServerContext* context,
                      const v1::EnrollRequest* request,
                      v1::Enrolled* response) override {
    return guard_.Run(
        *context, *request, response,
        [&](const Caller& caller) -> absl::Status {
          const std::string& first =
              deps_.cluster.at_start().members.front().name;
          if (deps_.cluster.name() != first) {
            return absl::FailedPreconditionError(
                absl::StrCat("members enroll at ", first, ", the first one"));
          }
          HEARTH_ASSIGN_OR_RETURN(
              *response, deps_.cluster.enrollments().Take(
                             std::string(absl::StripPrefix(
                                 caller.name, AccessControl::kMemberCaller)),
                             *request));
          return absl::OkStatus();
        });
  }

  grpc::Status Run(grpc::ServerContext* context, Stream* stream) override {
    const absl::StatusOr<Caller> caller =
        deps_.access.Identify(CredentialsOf(*context));
    if (!caller.ok()) return ToGrpcStatus(caller.status());
    v1::LeaderMessage message;
    if (!stream->Read(&message) || !message.has_start()) {
      return ToGrpcStatus(
          absl::InvalidArgumentError("the first message must be a start"));
    }
    const absl::Status status =
        TakePart(message.start(), *caller, *context, *stream);
    deps_.access.audit().Write(*caller, "Peers/Run",
                               message.start().rank().job_id(), status.code());
    return ToGrpcStatus(status);
  }

  grpc::Status ReadDataset(
      grpc::ServerContext* context, const v1::ReadDatasetRequest* request,
      grpc::ServerWriter<v1::DatasetPiece>* writer) override {
    absl::Status status = guard_.CheckOf(*context, *request)();
    if (status.ok()) status = SendDataset(*request, *writer);
    return ToGrpcStatus(status);
  }

  grpc::Status ReadRows(
      grpc::ServerContext* context,
      grpc::ServerReaderWriter<v1::RowsPiece, v1::ReadRowsRequest>* stream)
      override {
    const absl::StatusOr<Caller> caller =
        deps_.access.Identify(CredentialsOf(*context));
    if (!caller.ok()) return ToGrpcStatus(caller.status());
    v1::ReadRowsRequest first;
    if (!stream->Read(&first)) return grpc::Status::OK;
    absl::Status status = guard_.CheckOf(*context, first)();
    if (status.ok()) status = SendRows(first, *caller, *stream);
    return ToGrpcStatus(status);
  }

 private:
  absl::Status SendRows(
      const v1::ReadRowsRequest& first, const Caller& caller,
      grpc::ServerReaderWriter<v1::RowsPiece, v1::ReadRowsRequest>& stream)
      const {
    HEARTH_ASSIGN_OR_RETURN(const NameClaims::Claim claim,
                            deps_.admission.HoldDataset(first.name()));
    HEARTH_ASSIGN_OR_RETURN(
        OfferedRows rows,
        OfferedRows::Open(deps_.files, deps_.data_dir.DatasetPath(first.name()),
                          first));
    const std::string member(
        absl::StripPrefix(caller.name, AccessControl::kMemberCaller));
    const auto send = [&](const v1::RowsPiece& piece) {
      deps_.cluster.traffic_metrics().AddRows(member, piece.data().size(),
                                              /*received=*/0);
      return stream.Write(piece);
    };
    v1::ReadRowsRequest request = first;
    do {
      HEARTH_RETURN_IF_ERROR(rows.Send(request, send));
    } while (stream.Read(&request));
    return absl::OkStatus();
  }

  absl::Status SendDataset(const v1::ReadDatasetRequest& request,
                           grpc::ServerWriter<v1::DatasetPiece>& writer) const {
    HEARTH_ASSIGN_OR_RETURN(const NameClaims::Claim claim,
                            deps_.admission.HoldDataset(request.name()));
    HEARTH_ASSIGN_OR_RETURN(
        const OfferedDataset dataset,
        OfferedDataset::Open(deps_.files,
                             deps_.data_dir.DatasetPath(request.name())));
    return dataset.Send(request, [&](const v1::DatasetPiece& piece) {
      return writer.Write(piece);
    });
  }

  absl::Status Check(const v1::RankStart& start, const Caller& caller) const {
    const v1::RankSpec& rank = start.rank();
    if (caller.name !=
        absl::StrCat(AccessControl::kMemberCaller, rank.leader())) {
      return absl::PermissionDeniedError(absl::StrCat(
          caller.name, " cannot lead in the name of ", rank.leader()));
    }
    if (rank.rank() == 0 ||
        rank.ranks_size() <= static_cast<int>(rank.rank()) ||
        rank.ranks_size() != start.addresses_size() ||
        rank.ranks(static_cast<int>(rank.rank())) != deps_.cluster.name() ||
        rank.ranks(0) != rank.leader() || rank.attempt() == 0 ||
        !IsValidName(rank.job_id()) || !IsValidName(rank.nonce())) {
      return absl::InvalidArgumentError(
          absl::StrCat("a start that is not for ", deps_.cluster.name()));
    }
    if (start.version() != kVersion ||
        start.arithmetic() != deps_.cluster.arithmetic()) {
      return absl::FailedPreconditionError(
          absl::StrCat("machines of one job need one version and arithmetic: ",
                       rank.leader(), " has hearthd ", start.version(), " (",
                       start.arithmetic(), "), ", deps_.cluster.name(), " has ",
                       kVersion, " (", deps_.cluster.arithmetic(), ")"));
    }
    const std::string& name = rank.train().data().dataset();
    const absl::StatusOr<v1::Dataset> dataset = deps_.datasets.Get(name);
    if (absl::IsNotFound(dataset.status()) && rank.train().fetch_missing()) {
      return FetchDataset(start, caller);
    }
    HEARTH_RETURN_IF_ERROR(dataset.status());
    if (dataset->fingerprint() != start.fingerprint()) {
      return absl::FailedPreconditionError(
          absl::StrCat("dataset \"", name, "\" is another one than ",
                       rank.leader(), "'s: its fingerprint is ",
                       dataset->fingerprint(), ", not ", start.fingerprint()));
    }
    return absl::OkStatus();
  }

  // Sees to it that a job makes the dataset that a rank lacks: one that does
  // already, or a copy from the leader, which goes on whatever becomes of the
  // leader's job. UNAVAILABLE, telling how far it is: the leader asks again.
  // FAILED_PRECONDITION if the copy has failed or was cancelled.
  absl::Status FetchDataset(const v1::RankStart& start,
                            const Caller& caller) const {
    const std::string& name = start.rank().train().data().dataset();
    HEARTH_ASSIGN_OR_RETURN(const std::string maker,
                            deps_.store.FindUser(DatasetUse(name)));
    absl::StatusOr<v1::Job> job =
        maker.empty() ? SubmitCopy(start, caller) : deps_.store.Get(maker);
    // Another call has been faster.
    if (absl::IsAlreadyExists(job.status()) ||
        absl::IsFailedPrecondition(job.status())) {
      return absl::UnavailableError(job.status().message());
    }
    HEARTH_RETURN_IF_ERROR(job.status());
    const std::string what =
        absl::StrCat(job->id(), ", which makes dataset \"", name, "\" here, ");
    if (job->state() == v1::FAILED || job->state() == v1::CANCELLED) {
      return absl::FailedPreconditionError(absl::StrCat(
          what,
          job->state() == v1::FAILED
              ? absl::StrCat("has failed: ", job->error().message())
              : "was cancelled",
          "; it goes on by `hearth job resume ", job->id(), "` at ",
          deps_.cluster.name()));
    }
    return absl::UnavailableError(absl::StrCat(what, StageOf(*job)));
  }

  // The job that copies the leader's dataset for the leader's job: the same one
  // for all attempts, unless the dataset was deleted in between.
  absl::StatusOr<v1::Job> SubmitCopy(const v1::RankStart& start,
                                     const Caller& caller) const {
    const v1::RankSpec& rank = start.rank();
    v1::SubmitJobRequest request;
    v1::ImportSpec& spec = *request.mutable_spec()->mutable_import();
    spec.set_name(rank.train().data().dataset());
    spec.set_from_member(rank.leader());
    std::string predecessor;
    while (true) {
      Sha256 digest;
      digest.AddField(rank.leader());
      digest.AddField(rank.job_id());
      digest.AddField(spec.name());
      digest.AddField(start.fingerprint());
      digest.AddField(predecessor);
      request.set_request_id(absl::StrCat("fetch-", digest.HexDigest()));
      HEARTH_ASSIGN_OR_RETURN(
          v1::Job job,
          deps_.admission.Submit(
              request, {.owner = caller.name, .trace_id = caller.trace_id}));
      if (job.state() != v1::SUCCEEDED) return job;
      predecessor = job.id();
    }
  }

  // How far a job is that has not ended, in words.
  std::string StageOf(const v1::Job& job) const {
    if (job.state() == v1::WAITING) {
      return absl::StrCat("waits for ", job.waiting_reason());
    }
    const auto last = deps_.store.ReadEvents(job.id(), job.last_sequence(), 1);
    if (last.ok() && last->events.size() == 1 &&
        last->events[0].progress().total() > 0) {
      const v1::Progress& progress = last->events[0].progress();
      return absl::StrCat("is at ", 100 * progress.done() / progress.total(),
                          "% of ", progress.phase());
    }
    return "has begun";
  }

  // Ends the rank of the attempt that was the newest, and forgets its job.
  absl::Status EndOlder(const v1::RankSpec& rank, const Attempt& known) {
    if (rank.attempt() <= known.number) return absl::OkStatus();
    return EndRank(rank.leader(), rank.job_id(), known,
                   absl::StrCat("attempt ", rank.attempt(), " has begun"));
  }

  absl::Status EndRank(const std::string& leader, const std::string& job_id,
                       const Attempt& known, const std::string& why) {
    if (known.rank_job.empty()) return absl::OkStatus();
    deps_.cluster.sessions().EndAll(leader, job_id, absl::CancelledError(why));
    const absl::Status cancelled = deps_.admission.Cancel(known.rank_job);
    if (absl::IsNotFound(cancelled)) return absl::OkStatus();
    HEARTH_RETURN_IF_ERROR(cancelled);
    const absl::Time until = absl::Now() + kOlderPatience;
    while (true) {
      HEARTH_ASSIGN_OR_RETURN(const v1::Job job,
                              deps_.store.Get(known.rank_job));
      if (HasEnded(job.state())) break;
      if (absl::Now() > until) {
        return absl::UnavailableError(
            absl::StrCat(known.rank_job, ", of an older attempt, still ends"));
      }
      absl::SleepFor(kPoll);
    }
    v1::DeleteJobRequest forget;
    forget.set_id(known.rank_job);
    return deps_.admission.DeleteJob(forget);
  }

  // Forgets the parts of jobs that their leader has deleted, but for those that
  // another job goes on from.
  void ForgetDeleted(const v1::RankStart& start) {
    const std::string& leader = start.rank().leader();
    for (const std::string& job : start.deleted_jobs()) {
      const absl::Status status = ForgetOne(leader, job);
      if (status.ok()) continue;
      LogWarning("the part of ", leader, "'s ", job, ", which was deleted, ",
                 "stays: ", status.ToString());
    }
  }
  absl::Status ForgetOne(const std::string& leader, const std::string& job) {
    if (!IsValidName(job)) return absl::InvalidArgumentError("no job's id");
    Attempts& attempts = deps_.cluster.attempts();
    HEARTH_ASSIGN_OR_RETURN(const Attempt known, attempts.Find(leader, job));
    if (known.number == 0 || !known.adopter.empty()) return absl::OkStatus();
    HEARTH_RETURN_IF_ERROR(EndRank(leader, job, known, "the job was deleted"));
    return attempts.Forget(leader, job);
  }

  // The rank's job, which is queued before all others.
  absl::StatusOr<v1::Job> Submit(const v1::RankSpec& rank,
                                 const Caller& caller) {
    v1::SubmitJobRequest request;
    *request.mutable_spec()->mutable_rank() = rank;
    request.set_priority(Admission::kMostPriority);
    HEARTH_ASSIGN_OR_RETURN(
        v1::Job job,
        deps_.admission.Submit(
            request, {.owner = caller.name, .trace_id = caller.trace_id}));
    HEARTH_RETURN_IF_ERROR(deps_.cluster.attempts().SetRankJob(
        rank.leader(), rank.job_id(), job.id()));
    return job;
  }

  absl::Status TakePart(const v1::RankStart& start, const Caller& caller,
                        grpc::ServerContext& context, Stream& stream) {
    HEARTH_RETURN_IF_ERROR(Check(start, caller));
    ForgetDeleted(start);
    const v1::RankSpec& rank = start.rank();
    Attempts& attempts = deps_.cluster.attempts();
    if (rank.train().has_adopted()) {
      const v1::AdoptedJob& adopted = rank.train().adopted();
      HEARTH_RETURN_IF_ERROR(attempts.NoteAdopted(
          adopted.leader(), adopted.job_id(), rank.leader(), rank.job_id()));
    }
    const Attempt attempt = {.number = rank.attempt(), .nonce = rank.nonce()};
    HEARTH_RETURN_IF_ERROR(
        attempts.Check(rank.leader(), rank.job_id(), attempt));
    HEARTH_ASSIGN_OR_RETURN(const Attempt known,
                            attempts.Find(rank.leader(), rank.job_id()));
    HEARTH_RETURN_IF_ERROR(EndOlder(rank, known));
    HEARTH_RETURN_IF_ERROR(
        attempts.Note(rank.leader(), rank.job_id(), attempt));
    const auto session = std::make_shared<RankSession>(
        start, deps_.cluster.times(), deps_.clock,
        [&](const v1::RankMessage& message) { return stream.Write(message); },
        [&] { context.TryCancel(); },
        [&sessions = deps_.cluster.sessions()](const std::string& other) {
          sessions.GiveUp(other);
        });
    deps_.cluster.sessions().Add(session);
    const absl::Cleanup forget = [&] {
      deps_.cluster.sessions().Remove(*session);
      session->Close();
    };
    HEARTH_ASSIGN_OR_RETURN(const v1::Job job, Submit(rank, caller));
    v1::LeaderMessage message;
    while (stream.Read(&message)) session->Take(message);
    session->SetOver(WaitForPeerError(
        absl::StrCat(rank.leader(), ", which leads, has gone")));
    if (session->has_ended()) return absl::OkStatus();
    const absl::Status cancelled = deps_.admission.Cancel(job.id());
    if (!cancelled.ok() && !absl::IsNotFound(cancelled)) {
      LogWarning(job.id(), ": not cancelled: ", cancelled.ToString());
    }
    return absl::OkStatus();
  }

  const PeersDependencies deps_;
  const CallGuard guard_;
};

}  // namespace

std::unique_ptr<grpc::Service> NewPeersService(const PeersDependencies& deps) {
  return std::make_unique<PeersService>(deps);
}

absl::StatusOr<v1::MemberState> OwnMemberState(const PeersDependencies& deps) {
  v1::MemberState state;
  state.set_version(kVersion);
  state.set_arithmetic(deps.cluster.arithmetic());
  *state.mutable_time() = TimestampOf(absl::ToUnixNanos(deps.clock.Now()));
  using Counts = std::map<v1::JobState, int64_t>;
  HEARTH_ASSIGN_OR_RETURN(const Counts counts, deps.store.CountByState());
  state.set_jobs_running(
      static_cast<uint32_t>(counts.at(v1::PREPARING) + counts.at(v1::RUNNING)));
  state.set_max_running_jobs(static_cast<uint32_t>(deps.max_running_jobs));
  HEARTH_ASSIGN_OR_RETURN(const std::vector<v1::Dataset> datasets,
                          deps.datasets.List());
  for (const v1::Dataset& dataset : datasets) {
    v1::MemberDataset& one = *state.add_datasets();
    one.set_name(dataset.name());
    one.set_fingerprint(dataset.fingerprint());
    const auto& types = dataset.node_types();
    if (std::none_of(types.begin(), types.end(), [](const v1::NodeType& type) {
          return type.has_feature_rows();
        })) {
      continue;
    }
    for (const v1::NodeType& type : types) {
      *one.add_feature_rows() = type.feature_rows();
    }
  }
  return state;
}

}  // namespace hearth::server
