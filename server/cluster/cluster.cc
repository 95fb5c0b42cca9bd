#include "server/cluster/cluster.h"

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/sha256.h"
#include "engine/base/status.h"
#include "engine/io/whole_file.h"
#include "hearth/v1/peers.grpc.pb.h"
#include "server/cluster/rank_session.h"

namespace hearth::server {

namespace {

constexpr uint64_t kMostPemBytes = 1 << 20;
constexpr size_t kBootIdBytes = 16;
constexpr int kMaxMessageBytes = 4 << 20;

std::vector<std::string> NamesOf(const std::vector<ClusterMember>& members) {
  std::vector<std::string> names;
  for (const ClusterMember& member : members) names.push_back(member.name);
  return names;
}

}  // namespace

absl::StatusOr<std::unique_ptr<Cluster>> Cluster::Open(
    const Options& options, io::FileSystem& files, const Clock& clock,
    metrics::Registry& registry) {
  HEARTH_ASSIGN_OR_RETURN(ClusterFile file,
                          ReadClusterFile(files, options.path));
  HEARTH_RETURN_IF_ERROR(CheckTlsFiles(file.tls, clock.Now()));
  HEARTH_ASSIGN_OR_RETURN(std::string boot_id, RandomHex(kBootIdBytes));
  return std::unique_ptr<Cluster>(new Cluster(
      options, std::move(file), std::move(boot_id), files, clock, registry));
}

Cluster::Cluster(const Options& options, ClusterFile file, std::string boot_id,
                 io::FileSystem& files, const Clock& clock,
                 metrics::Registry& registry)
    : options_(options),
      boot_id_(std::move(boot_id)),
      first_(std::move(file)),
      files_(files),
      clock_(clock),
      links_(clock),
      attempts_(files, options.folder),
      sessions_(std::make_unique<RankSessions>()),
      enrollments_(NamesOf(first_.members), clock),
      traffic_metrics_(registry) {}

Cluster::~Cluster() = default;

absl::StatusOr<ClusterFile> Cluster::Read() const {
  HEARTH_ASSIGN_OR_RETURN(ClusterFile file,
                          ReadClusterFile(files_, options_.path));
  if (file.name != first_.name || file.listen != first_.listen) {
    return absl::FailedPreconditionError(absl::StrCat(
        options_.path, ": name and listen cannot change while hearthd runs"));
  }
  for (ClusterMember& member : file.members) {
    if (!member.address.empty()) continue;
    member.address = enrollments_.AddressOf(member.name);
  }
  return file;
}

absl::Status Cluster::CheckMember(const std::string& member) const {
  HEARTH_ASSIGN_OR_RETURN(const ClusterFile file, Read());
  if (file.Find(member) != nullptr) return absl::OkStatus();
  return absl::PermissionDeniedError(
      absl::StrCat(options_.path, " names no member \"", member, "\""));
}

absl::StatusOr<std::shared_ptr<grpc::Channel>> Cluster::ChannelTo(
    const ClusterMember& member) const {
  if (member.address.empty()) {
    return WaitForPeerError(
        absl::StrCat(member.name, ": has not told yet where it is reached"));
  }
  grpc::SslCredentialsOptions tls;
  for (const auto& [text, path] :
       {std::pair{&tls.pem_root_certs, &first_.tls.client_ca},
        std::pair{&tls.pem_private_key, &first_.tls.key},
        std::pair{&tls.pem_cert_chain, &first_.tls.certificate}}) {
    HEARTH_ASSIGN_OR_RETURN(*text,
                            io::ReadWholeFile(files_, *path, kMostPemBytes));
  }
  grpc::ChannelArguments arguments;
  // Certificates of members are for their names, wherever they are.
  arguments.SetSslTargetNameOverride(member.name);
  // Each attempt connects anew: a member may have come back.
  arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
  arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
  arguments.SetMaxReceiveMessageSize(kMaxMessageBytes);
  return grpc::CreateCustomChannel(member.address, grpc::SslCredentials(tls),
                                   arguments);
}

void Cluster::Ask(v1::Member& member, absl::Duration patience) const {
  const auto channel =
      ChannelTo({.name = member.name(), .address = member.address()});
  if (!channel.ok()) {
    member.set_error(std::string(channel.status().message()));
    return;
  }
  const auto stub = v1::Peers::NewStub(*channel);
  grpc::ClientContext context;
  context.set_deadline(std::chrono::system_clock::now() +
                       absl::ToChronoMilliseconds(patience));
  const double begin = clock_.SteadySeconds();
  const grpc::Status status =
      stub->Describe(&context, v1::DescribeRequest(), member.mutable_state());
  member.set_round_trip_seconds(clock_.SteadySeconds() - begin);
  if (status.ok()) return;
  member.clear_state();
  member.set_error(status.error_message());
}

std::vector<v1::Member> Cluster::AskAll(
    const std::vector<ClusterMember>& members, absl::Duration patience) const {
  std::vector<v1::Member> asked;
  for (const ClusterMember& one : members) {
    if (one.name == name()) continue;
    asked.emplace_back().set_name(one.name);
    asked.back().set_address(one.address);
  }
  std::vector<std::thread> threads;
  for (v1::Member& member : asked) {
    threads.emplace_back([&] { Ask(member, patience); });
  }
  for (std::thread& thread : threads) thread.join();
  return asked;
}

absl::StatusOr<std::vector<v1::Member>> Cluster::AskMembers(
    absl::Duration patience) const {
  HEARTH_ASSIGN_OR_RETURN(const ClusterFile file, Read());
  return AskAll(file.members, patience);
}

std::vector<ClusterMember> Cluster::WhoIsThere(
    const std::vector<ClusterMember>& members, absl::Duration patience) const {
  const std::vector<v1::Member> asked = AskAll(members, patience);
  std::vector<ClusterMember> there = members;
  std::erase_if(there, [&](const ClusterMember& member) {
    return std::any_of(asked.begin(), asked.end(), [&](const v1::Member& one) {
      return one.name() == member.name && !one.has_state();
    });
  });
  return there;
}

absl::StatusOr<std::unique_ptr<LinkGroup>> Cluster::ConnectRanks(
    const v1::RankSpec& spec, const std::vector<std::string>& addresses,
    std::function<void()> on_leave) {
  HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<TlsClient> tls,
                          TlsClient::Make(first_.tls, clock_.Now()));
  const double deadline =
      clock_.SteadySeconds() + absl::ToDoubleSeconds(times().connect);
  const size_t own = spec.rank();
  std::vector<std::unique_ptr<Link>> links(addresses.size());
  for (size_t rank = 0; rank < links.size(); ++rank) {
    if (rank == own) continue;
    const std::string& member = spec.ranks(static_cast<int>(rank));
    LinkName name = {.leader = spec.leader(),
                     .job = spec.job_id(),
                     .attempt = spec.attempt(),
                     .nonce = spec.nonce(),
                     .from = std::min(rank, own),
                     .to = std::max(rank, own)};
    if (own < rank) {
      HEARTH_ASSIGN_OR_RETURN(
          links[rank],
          DialLink(name, {.member = member, .address = addresses[rank]}, *tls,
                   clock_, deadline));
    } else {
      HEARTH_ASSIGN_OR_RETURN(links[rank],
                              links_.Await(name, member, deadline));
    }
  }
  return LinkGroup::Make({.rank = static_cast<int>(own),
                          .silence = times().silence,
                          .on_leave = std::move(on_leave)},
                         std::move(links), clock_);
}

void Cluster::NoteMissing(const std::string& job) {
  absl::MutexLock lock(&mutex_);
  missing_since_.try_emplace(job, clock_.SteadySeconds());
}

void Cluster::NoteComplete(const std::string& job) {
  absl::MutexLock lock(&mutex_);
  missing_since_.erase(job);
}

absl::Duration Cluster::MissingFor(const std::string& job) const {
  absl::MutexLock lock(&mutex_);
  const auto found = missing_since_.find(job);
  if (found == missing_since_.end()) return absl::ZeroDuration();
  return absl::Seconds(clock_.SteadySeconds() - found->second);
}

absl::Status Cluster::NoteProcess(const std::string& job,
                                  const std::string& member,
                                  const std::string& boot_id) {
  absl::MutexLock lock(&mutex_);
  Process& process = processes_[job][member];
  const bool has_died = !process.boot_id.empty() && process.boot_id != boot_id;
  process.boot_id = boot_id;
  process.deaths = has_died ? process.deaths + 1 : 0;
  if (process.deaths < options_.retries) return absl::OkStatus();
  return absl::AbortedError(absl::StrCat(
      member, ": hearthd died ", process.deaths,
      " times in a row there while it trained this job, without a checkpoint "
      "in between; `hearth job resume ",
      job, "` tries again"));
}

void Cluster::ForgetDeaths(const std::string& job) {
  absl::MutexLock lock(&mutex_);
  const auto found = processes_.find(job);
  if (found == processes_.end()) return;
  for (auto& [member, process] : found->second) process.deaths = 0;
}

void Cluster::SetMachines(const std::string& job,
                          std::vector<v1::MachineState> machines) {
  absl::MutexLock lock(&mutex_);
  machines_[job] = std::move(machines);
}

void Cluster::ForgetMachines(const std::string& job) {
  absl::MutexLock lock(&mutex_);
  machines_.erase(job);
}

void Cluster::AddMachines(v1::Job& job) const {
  absl::MutexLock lock(&mutex_);
  const auto found = machines_.find(job.id());
  if (found == machines_.end()) return;
  job.mutable_machines()->Assign(found->second.begin(), found->second.end());
}

}  // namespace hearth::server
