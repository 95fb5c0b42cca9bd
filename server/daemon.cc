// Steps of a start:
//   1. lock the data directory, which removes leftovers;
//   2. open the job store, which makes its database and the folders of jobs
//      agree; interrupted jobs go back to QUEUED;
//   3. listen for metrics, then for gRPC: an address in use shows before any
//      job runs;
//   4. write the address file; run jobs.
// Stop reverses them.
#include "server/daemon.h"

#include <grp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <optional>
#include <set>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "engine/base/byte_size.h"
#include "engine/base/clock.h"
#include "engine/base/process.h"
#include "engine/base/status.h"
#include "engine/cuda/device.h"
#include "engine/io/file_system.h"
#include "engine/io/read_metrics.h"
#include "engine/io/read_queue.h"
#include "engine/io/rooted_file_system.h"
#include "engine/io/whole_file.h"
#include "engine/job/interface/job_environment.h"
#include "engine/job/memory/batch_measurement.h"
#include "engine/job/memory/memory_ledger.h"
#include "engine/job/memory/warm_strategies.h"
#include "engine/job/run/shared_pass.h"
#include "engine/machine/disk_profile.h"
#include "engine/metrics/registry.h"
#include "engine/plan/plan_store.h"
#include "engine/store/block_checksums.h"
#include "engine/strategy/strategy.h"
#include "engine/train/model_options.h"
#include "engine/train/train_step.h"
#include "server/access/access_control.h"
#include "server/access/endpoints.h"
#include "server/access/tls.h"
#include "server/cluster/cluster.h"
#include "server/config.h"
#include "server/feeds/feed_socket.h"
#include "server/feeds/feeds.h"
#include "server/grpc_server.h"
#include "server/jobs/admission.h"
#include "server/jobs/event_hub.h"
#include "server/jobs/job_runner.h"
#include "server/jobs/node_files.h"
#include "server/jobs/scheduler.h"
#include "server/log.h"
#include "server/mapping/report_mapping.h"
#include "server/mapping/spec_mapping.h"
#include "server/page/http_server.h"
#include "server/page/metrics_port.h"
#include "server/services/feed_service.h"
#include "server/services/feed_stream.h"
#include "server/services/job_services.h"
#include "server/services/peers_service.h"
#include "server/services/resource_services.h"
#include "server/services/transfers.h"
#include "server/storage/data_dir.h"
#include "server/storage/dataset_catalog.h"
#include "server/storage/disk_space.h"
#include "server/storage/job_recovery.h"
#include "server/storage/job_store.h"
#include "server/storage/sweep_store.h"
#include "server/storage/token_store.h"
#include "server/storage/upload_staging.h"
#include "server/sweeps/sweep_manager.h"

namespace hearth::server {
namespace {

class DaemonImpl final : public Daemon {
 public:
  DaemonImpl(const Config& config, ModelSource models, io::FileSystem& files,
             std::unique_ptr<io::ReadQueues> read_queues)
      : config_(config),
        files_(files),
        models_(std::move(models)),
        read_queues_(std::move(read_queues)),
        memory_(config.memory_limit_bytes > 0 ? config.memory_limit_bytes
                                              : job::DefaultMemoryLimit()),
        start_time_(clock_.Now()),
        registry_(metrics::NewRegistry()),
        retired_series_(*registry_, clock_) {}

  ~DaemonImpl() override {
    static_cast<void>(Stop(absl::InfiniteDuration()));
    uploads_heard_ = nullptr;
  }

  absl::Status Run() {
    HEARTH_RETURN_IF_ERROR(OpenData());
    HEARTH_RETURN_IF_ERROR(MakeComponents());
    HEARTH_RETURN_IF_ERROR(ServeMetrics());
    HEARTH_RETURN_IF_ERROR(ServeGrpc());
    HEARTH_RETURN_IF_ERROR(WriteAddressFile());
    scheduler_->Start();
    feeds_->Start();
    return absl::OkStatus();
  }

  const std::string& grpc_address() const override {
    return grpc_address_.empty() ? socket_address_ : grpc_address_;
  }
  const std::string& socket_address() const override { return socket_address_; }
  const std::string& metrics_address() const override {
    return metrics_address_;
  }

  void CheckAlive() override { scheduler_->LongestQueueSeconds(); }

  absl::Status Stop(absl::Duration patience) override {
    // Refuse new work.
    if (admission_ != nullptr) admission_->Close();
    if (server_ != nullptr) server_->RefuseWork();
    // Stop jobs at a checkpoint. Watchers still see them go.
    if (sweeps_ != nullptr) sweeps_->Close();
    absl::Status status;
    if (scheduler_ != nullptr) status = scheduler_->Stop(patience);
    // Stop gRPC: first the streams that do not end by themselves.
    hub_.Stop();
    transfers_.hub().Stop();
    feed_streams_.hub().Stop();
    if (server_ != nullptr) server_->Stop();
    feed_socket_ = nullptr;
    if (feeds_ != nullptr) feeds_->Stop();
    if (tokens_ != nullptr) {
      const absl::Status saved = tokens_->SaveUses(/*now=*/true);
      if (!saved.ok()) LogWarning("last uses of tokens: ", saved.ToString());
    }
    // Metrics are served until the end.
    return status;
  }

 private:
  absl::Status OpenData() {
    HEARTH_RETURN_IF_ERROR(FindSocketGroup());
    HEARTH_ASSIGN_OR_RETURN(
        data_dir_, DataDir::Open(files_, config_.data_dir, socket_group_));
    HEARTH_RETURN_IF_ERROR(OpenRoots());
    job_folders_ = std::make_unique<JobFolders>(files_, data_dir_->path());
    reserve_ =
        std::make_unique<DiskReserve>(files_, clock_, data_dir_->ReservePath());
    HEARTH_ASSIGN_OR_RETURN(
        store_,
        JobStore::Open(files_, data_dir_->DatabasePath(), clock_,
                       [this](const std::string& id) { OnJobEvent(id); },
                       {.folders = job_folders_.get(),
                        .reserve = reserve_.get(),
                        .max_unended = config_.max_queued_jobs,
                        .max_unended_of_owner = MaxQueuedJobsPerUser(config_),
                        .vfs = config_.database_vfs}));
    if (const absl::Status status = reserve_->Fill(); !status.ok()) {
      LogWarning("no space is reserved: ", status.ToString());
    }
    // Make the directory entry of the database file durable.
    HEARTH_RETURN_IF_ERROR(files_.SyncDirectory(data_dir_->path()));
    return store_->RecoverInterrupted(config_.retries);
  }

  absl::Status MakeComponents() {
    datasets_ = std::make_unique<DatasetCatalog>(files_, *data_dir_);
    OpenGpus();
    plans_ = std::make_unique<plan::PlanStore>(
        files_, clock_,
        plan::PlanStore::Options{.folder = data_dir_->PlansPath(),
                                 .space_bytes = config_.plan_space_bytes});
    HEARTH_ASSIGN_OR_RETURN(
        data_disks_, DataDisks::Open(files_, clock_, config_.data_disks));
    for (const std::string& warning : data_disks_->warnings()) {
      LogWarning(warning);
    }
    all_plans_ =
        std::make_unique<plan::PlanStores>(*plans_, data_disks_->stores());
    warm_strategies_ = std::make_unique<job::WarmStrategies>(
        files_, memory_, data_dir_->ScratchPath());
    batch_measurement_ = std::make_unique<job::BatchMeasurement>(
        files_, clock_, data_dir_->PlansPath());
    disk_profiles_ = std::make_unique<machine::DiskProfiles>(
        files_, *read_queues_, clock_, data_dir_->DevicesPath());
    shared_passes_ = std::make_unique<job::SharedPassGroups>(
        job::SharedPassOptions{
            .max_jobs = config_.convoy_members,
            .processors = UsableProcessors(),
            .may_train_alone =
                [this](const std::string& job) {
                  return scheduler_->GivePlace(job);
                },
            .report = [this](absl::Span<job::JobEpoch> e) { Report(e); }},
        registry_.get());
    feeds_ = std::make_unique<Feeds>(
        *store_, clock_,
        Feeds::Options{.patience = config_.feed_patience,
                       .cancel =
                           [this](const std::string& id) {
                             HEARTH_RETURN_IF_ERROR(admission_->Cancel(id));
                             LogInfo(
                                 id, ": no client has come for ",
                                 absl::FormatDuration(config_.feed_patience));
                             return absl::OkStatus();
                           },
                       .wake = [this] { scheduler_->Wake(); },
                       .registry = registry_.get()});
    node_files_ = std::make_unique<NodeFiles>(
        NodeFiles::Dependencies{.files = files_,
                                .data_dir = *data_dir_,
                                .store = *store_,
                                .memory = memory_,
                                .have_come = [this] { scheduler_->Wake(); }});
    HEARTH_RETURN_IF_ERROR(OpenCluster());
    runner_ = NewJobRunner(
        {.environment = {.files = files_,
                         .read_queues = *read_queues_,
                         .clock = clock_,
                         .running_jobs = running_jobs_,
                         .memory = memory_,
                         .warm_strategies = *warm_strategies_,
                         .batch_measurement = *batch_measurement_,
                         .plans = *plans_,
                         .data_disks = data_disks_->stores(),
                         .new_train_step =
                             [this](const train::TrainOptions& options,
                                    const train::ModelShape& shape) {
                               return NewStep(options, shape);
                             },
                         .gpu = gpu_,
                         .gpus = gpus_,
                         .verified = &verified_,
                         .shared_passes = shared_passes_.get(),
                         .disks = disk_profiles_.get()},
         .data_dir = *data_dir_,
         .store = *store_,
         .registry = *registry_,
         .retired_series = retired_series_,
         .import_files = import_files_.get(),
         .export_files = export_files_.get(),
         .upload_source =
             [this](const std::string& id) { return uploads_->SourceOf(id); },
         .feed_channels =
             [this](const std::string& id, uint32_t trainers) {
               return feeds_->ChannelsOf(id, trainers);
             },
         .node_files = node_files_.get(),
         .cluster = cluster_.get(),
         .new_ranked_step = models_.new_ranked_step,
         .throw_away =
             [this](const std::string& path) { return trash_->Throw(path); }},
        config_.import_roots);
    scheduler_ = std::make_unique<Scheduler>(
        *store_, *runner_, memory_, *plans_, clock_,
        SchedulerOptions{
            .max_running_jobs = config_.max_running_jobs,
            .max_short_jobs = config_.max_short_jobs,
            .shared_passes = shared_passes_.get(),
            .client_waits =
                [this](const std::string& id) {
                  return feeds_->ClientWaits(id) && !node_files_->Awaits(id);
                },
            .prepares_ahead = config_.prepares_ahead,
            .wait = {.first_pause_seconds =
                         absl::ToDoubleSeconds(config_.first_wait_pause),
                     .limit_seconds =
                         absl::ToDoubleSeconds(config_.wait_limit)},
            .retry_interval = config_.first_wait_pause});
    sweep_store_ = std::make_unique<SweepStore>(
        *store_, clock_, [this](const std::string& id) { hub_.Notify(id); });
    trash_ = std::make_unique<Trash>(files_, data_dir_->TrashPath(), [this] {
      scheduler_->RetryNow(WaitCause::kDiskSpace);
    });
    HEARTH_RETURN_IF_ERROR(OpenUploads());
    admission_ = std::make_unique<Admission>(
        AdmissionDependencies{.files = files_,
                              .export_files = *export_files_,
                              .data_dir = *data_dir_,
                              .datasets = *datasets_,
                              .warm_strategies = *warm_strategies_,
                              .plans = *all_plans_,
                              .store = *store_,
                              .sweeps = *sweep_store_,
                              .uploads = *uploads_,
                              .scheduler = *scheduler_,
                              .trash = *trash_,
                              .cluster = cluster_.get()},
        SpecLimits{
            .processors = std::max(1u, std::thread::hardware_concurrency()),
            .usable_processors = static_cast<uint32_t>(UsableProcessors()),
            .gpus = static_cast<int>(gpus_.size()),
            .data_disks = static_cast<int>(config_.data_disks.size()),
            .has_cluster = cluster_ != nullptr,
            .trains_on_gpus = models_.gpu_training},
        config_.import_roots);
    HEARTH_ASSIGN_OR_RETURN(std::vector<v1::Job> unended, store_->Unended());
    HEARTH_RETURN_IF_ERROR(admission_->FailUnresumable(unended));
    HEARTH_RETURN_IF_ERROR(RemoveUnfinishedDatasets(unended));
    scheduler_->Load(unended);
    HEARTH_ASSIGN_OR_RETURN(sweeps_,
                            SweepManager::Make({.store = *store_,
                                                .sweeps = *sweep_store_,
                                                .datasets = *datasets_,
                                                .admission = *admission_,
                                                .scheduler = *scheduler_,
                                                .plans = *all_plans_,
                                                .registry = *registry_}));
    return absl::OkStatus();
  }

  absl::Status OpenCluster() {
    if (config_.cluster.empty()) return absl::OkStatus();
    HEARTH_ASSIGN_OR_RETURN(cluster_,
                            Cluster::Open({.path = config_.cluster,
                                           .folder = data_dir_->AttemptsPath(),
                                           .arithmetic = models_.arithmetic,
                                           .times = config_.cluster_times,
                                           .retries = config_.retries},
                                          files_, clock_, *registry_));
    LogInfo(cluster_->name(), " of a cluster of ",
            cluster_->at_start().members.size(), ", at ",
            cluster_->at_start().listen);
    return absl::OkStatus();
  }

  absl::Status RemoveUnfinishedDatasets(const std::vector<v1::Job>& unended) {
    std::set<std::string> ids;
    for (const v1::Job& job : unended) ids.insert(job.id());
    return data_dir_->RemoveUnfinishedDatasets(files_, ids);
  }

  void OnJobEvent(const std::string& id) {
    hub_.Notify(id);
    // Null before the store is open, and when the daemon stops.
    if (UploadStaging* uploads = uploads_heard_) uploads->OnJobEvent(id);
  }

  // Opens the uploads, whose files are reached through a folder that is held
  // open.
  absl::Status OpenUploads() {
    HEARTH_ASSIGN_OR_RETURN(
        upload_files_, io::OpenRooted(files_,
                                      {.free = "",
                                       .read = {data_dir_->UploadsPath()},
                                       .write = {data_dir_->UploadsPath()}},
                                      0077));
    HEARTH_ASSIGN_OR_RETURN(
        uploads_,
        UploadStaging::Open({.files = *upload_files_,
                             .clock = clock_,
                             .jobs = *store_,
                             .trash = *trash_},
                            {.folder = data_dir_->UploadsPath(),
                             .limit_bytes = config_.upload_limit_bytes,
                             .patience = config_.upload_patience}));
    uploads_heard_ = uploads_.get();
    return absl::OkStatus();
  }

  // Reports epochs that several jobs have ended together.
  void Report(absl::Span<job::JobEpoch> epochs) {
    std::vector<EpochOfJob> reports(epochs.size());
    for (size_t i = 0; i < epochs.size(); ++i) {
      reports[i].job.set_id(epochs[i].job);
      reports[i].report = ToProto(epochs[i].report);
    }
    scheduler_->Report(absl::MakeSpan(reports));
    for (size_t i = 0; i < epochs.size(); ++i) {
      epochs[i].status = reports[i].decision.status();
    }
  }

  void OpenGpus() {
    if (const absl::Status status = FindGpus(); !status.ok()) {
      LogInfo("no GPU: ", status.message());
      gpus_.clear();
      gpu_names_.clear();
      models_.gpu_training = status;
      return;
    }
    // The first GPU keeps rows.
    gpu_ = gpus_.front();
    if (!models_.gpu_training.ok()) {
      LogInfo("no model is trained on a GPU: ", models_.gpu_training.message());
    }
  }

  absl::Status FindGpus() {
    HEARTH_ASSIGN_OR_RETURN(gpu_plugin_,
                            cuda::Plugin::Load(cuda::Plugin::DefaultPath()));
    HEARTH_ASSIGN_OR_RETURN(gpus_, gpu_plugin_->Devices());
    for (const cuda::Device& gpu : gpus_) {
      HEARTH_ASSIGN_OR_RETURN(const cuda::DeviceMemory memory,
                              cuda::MemoryOf(gpu));
      const std::string device = train::DeviceName(gpu.number);
      const std::string name = gpu_plugin_->NameOf(gpu).value_or("GPU");
      LogInfo(device, " is ", name, ", ", FormatByteSize(memory.free_bytes),
              " of ", FormatByteSize(memory.total_bytes), " free");
      gpu_names_.push_back(
          absl::StrCat(device, " (", name,
                       models_.gpu_training.ok() ? ")" : ", rows only)"));
      memory_.AddGpu(gpu.number, memory.free_bytes / 10 * 9);
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::unique_ptr<train::TrainStep>> NewStep(
      const train::TrainOptions& options, const train::ModelShape& shape) {
    if (!options.gpu.has_value()) {
      return models_.new_train_step(options, shape);
    }
    // A job may be older than the loss of the GPU.
    HEARTH_RETURN_IF_ERROR(models_.gpu_training);
    const auto number = static_cast<size_t>(*options.gpu);
    if (number >= gpus_.size()) {
      return absl::FailedPreconditionError(
          absl::StrCat("device: there is no ", train::DeviceName(options.gpu)));
    }
    return models_.new_gpu_step(options, shape, gpus_[number]);
  }

  absl::Status ServeMetrics() {
    daemon_metrics_ = NewDaemonMetrics(
        {.registry = *registry_,
         .store = *store_,
         .longest_queue_seconds =
             [this] { return scheduler_->LongestQueueSeconds(); },
         .files = files_,
         .data_dir = *data_dir_,
         .memory = memory_,
         .plans = *plans_,
         .data_disks = *data_disks_},
        models_.torch_version);
    read_metrics_ = io::NewReadMetrics(*registry_, *read_queues_);
    if (config_.metrics_listen.empty()) return absl::OkStatus();
    state_ = NewDaemonState(
        {.store = *store_,
         .sweeps = *sweep_store_,
         .get_sweep =
             [this](const std::string& id) { return sweeps_->Get(id); },
         .add_machines =
             [this](v1::Job& job) {
               if (cluster_ != nullptr) cluster_->AddMachines(job);
             },
         .registry = *registry_,
         .clock = clock_});
    HEARTH_ASSIGN_OR_RETURN(
        http_, ServePage(config_.metrics_listen, *registry_, *state_));
    metrics_address_ = WithPort(config_.metrics_listen, http_->port());
    return absl::OkStatus();
  }

  absl::Status OpenRoots() {
    io::Roots roots = {.free = data_dir_->path(), .read = config_.import_roots};
    HEARTH_ASSIGN_OR_RETURN(import_files_,
                            io::OpenRooted(files_, roots, config_.export_mask));
    // Without export roots, exports may be anywhere, and are read there.
    if (config_.export_roots.empty()) roots.read.clear();
    roots.write = config_.export_roots;
    HEARTH_ASSIGN_OR_RETURN(export_files_,
                            io::OpenRooted(files_, roots, config_.export_mask));
    // Backups hold hashes of tokens.
    HEARTH_ASSIGN_OR_RETURN(backup_files_, io::OpenRooted(files_, roots, 0077));
    return absl::OkStatus();
  }

  absl::Status FindSocketGroup() {
    if (config_.socket_group.empty()) return absl::OkStatus();
    const group* found = getgrnam(config_.socket_group.c_str());
    if (found == nullptr) {
      return absl::NotFoundError(absl::StrCat(
          "--socket-group: there is no group \"", config_.socket_group, "\""));
    }
    socket_group_ = found->gr_gid;
    return absl::OkStatus();
  }

  absl::Status OpenAccess() {
    HEARTH_ASSIGN_OR_RETURN(
        tokens_, TokenStore::Open(*store_, files_,
                                  data_dir_->TokensMarkerPath(), clock_));
    HEARTH_ASSIGN_OR_RETURN(audit_,
                            AuditLog::Open(data_dir_->AuditLogPath(), clock_));
    access_ = std::make_unique<AccessControl>(
        AccessDependencies{.tokens = *tokens_,
                           .jobs = *store_,
                           .sweeps = *sweep_store_,
                           .uploads = *uploads_,
                           .audit = *audit_,
                           .has_import_roots = !config_.import_roots.empty(),
                           .has_export_roots = !config_.export_roots.empty()});
    return absl::OkStatus();
  }

  // Opens the Unix socket in the data directory.
  absl::Status OpenSocket() {
    HEARTH_ASSIGN_OR_RETURN(const std::string folder,
                            files_.RealPath(data_dir_->path()));
    const std::string path = io::JoinPath(
        folder, std::filesystem::path(data_dir_->SocketPath()).filename());
    absl::StatusOr<std::unique_ptr<SocketListener>> socket =
        SocketListener::Bind(path, socket_group_);
    if (socket.ok()) {
      socket_ = *std::move(socket);
      socket_address_ = absl::StrCat("unix:", path);
      return OpenFeedSocket(folder);
    }
    if (config_.listen.empty()) {
      return Annotate(socket.status(),
                      "choose a shorter or another --data-dir, or --listen on "
                      "127.0.0.1:7600");
    }
    LogWarning("no Unix socket: ", socket.status().message());
    return absl::OkStatus();
  }

  // Opens the socket of batches in the data directory, `folder`.
  absl::Status OpenFeedSocket(const std::string& folder) {
    const std::string path = io::JoinPath(
        folder, std::filesystem::path(data_dir_->FeedSocketPath()).filename());
    HEARTH_ASSIGN_OR_RETURN(
        std::unique_ptr<SocketListener> listener,
        SocketListener::Bind(path, socket_group_, SOCK_SEQPACKET));
    HEARTH_ASSIGN_OR_RETURN(
        feed_socket_, FeedSocket::Start(std::move(listener), *feeds_, clock_));
    return absl::OkStatus();
  }

  // OK if callers at the TCP address can identify themselves.
  absl::Status CheckTls() {
    if (config_.tls_certificate.empty()) return absl::OkStatus();
    if (config_.tls_client_ca.empty() && !tokens_->required()) {
      return absl::FailedPreconditionError(absl::StrCat(
          "refusing to listen on ", config_.listen,
          " with TLS before there is a token: start hearthd without "
          "--listen, make one with `hearth admin token create NAME`, and "
          "start it again; or ask for client certificates with "
          "--tls-client-ca"));
    }
    return absl::OkStatus();
  }

  // Addresses of the gRPC services, with their limits.
  absl::StatusOr<Acceptor::Options> Addresses() {
    Acceptor::Options options;
    options.socket = std::move(socket_);
    options.tcp_address = config_.listen;
    if (!config_.tls_certificate.empty()) {
      options.tls = TlsFiles{.certificate = config_.tls_certificate,
                             .key = config_.tls_key,
                             .client_ca = config_.tls_client_ca};
      HEARTH_RETURN_IF_ERROR(CheckTlsFiles(*options.tls, clock_.Now()));
    }
    HEARTH_RETURN_IF_ERROR(CheckTls());
    if (cluster_ != nullptr) {
      HEARTH_ASSIGN_OR_RETURN(std::string address,
                              ParseListenAddress(cluster_->at_start().listen));
      options.peers = {
          .address = std::move(address),
          .tls = cluster_->at_start().tls,
          .check_member =
              [this](const std::string& member) {
                return cluster_->CheckMember(member);
              },
          .take_link =
              [this](const std::string& member, io::Descriptor socket) {
                cluster_->links().Add(member, std::move(socket));
              }};
    }
    HEARTH_ASSIGN_OR_RETURN(const ConnectionLimits limits,
                            ConnectionLimitsOf(config_));
    options.limits.connections = limits.connections;
    options.limits.connections_per_address = limits.per_address;
    return options;
  }

  absl::Status ServeGrpc() {
    HEARTH_RETURN_IF_ERROR(OpenAccess());
    HEARTH_RETURN_IF_ERROR(OpenSocket());
    GrpcServer::Services services;
    services.push_back(NewJobsService({.access = *access_,
                                       .admission = *admission_,
                                       .store = *store_,
                                       .files = files_,
                                       .data_dir = *data_dir_,
                                       .hub = hub_,
                                       .transfers = transfers_,
                                       .feeds = *feeds_,
                                       .cluster = cluster_.get()}));
    std::optional<PeersDependencies> peers;
    if (cluster_ != nullptr) {
      peers.emplace(
          PeersDependencies{.access = *access_,
                            .admission = *admission_,
                            .files = files_,
                            .data_dir = *data_dir_,
                            .datasets = *datasets_,
                            .store = *store_,
                            .clock = clock_,
                            .cluster = *cluster_,
                            .max_running_jobs = config_.max_running_jobs});
      services.push_back(NewPeersService(*peers));
    }
    services.push_back(
        NewSweepsService(*access_, *sweeps_, *sweep_store_, hub_));
    services.push_back(NewDatasetsService({.access = *access_,
                                           .admission = *admission_,
                                           .datasets = *datasets_,
                                           .plans = *plans_,
                                           .uploads = *uploads_,
                                           .transfers = transfers_}));
    services.push_back(
        NewPlansService(*access_, *admission_, *all_plans_, *datasets_));
    services.push_back(
        NewAdminService({.metrics_address = metrics_address_,
                         .max_running_jobs = config_.max_running_jobs,
                         .max_short_jobs = config_.max_short_jobs,
                         .start_time = start_time_,
                         .gpus = gpu_names_},
                        {.files = files_,
                         .clock = clock_,
                         .backup_files = *backup_files_,
                         .access = *access_,
                         .read_queues = *read_queues_,
                         .memory = memory_,
                         .plans = *plans_,
                         .data_disks = *data_disks_,
                         .admission = *admission_,
                         .datasets = *datasets_,
                         .data_dir = *data_dir_,
                         .store = *store_,
                         .feeds = *feeds_,
                         .peers = peers}));
    services.push_back(
        NewFeedsService(*access_, *feeds_, feed_streams_,
                        feed_socket_ == nullptr ? "" : feed_socket_->path(),
                        *node_files_, transfers_));
    HEARTH_ASSIGN_OR_RETURN(Acceptor::Options addresses, Addresses());
    absl::StatusOr<std::unique_ptr<GrpcServer>> server = GrpcServer::Start(
        std::move(addresses), std::move(services), *access_, clock_);
    if (absl::IsUnavailable(server.status())) {
      return absl::UnavailableError(absl::StrCat(
          "cannot listen on ", config_.listen,
          ": is the address in use? Another hearthd may be running; choose "
          "another --listen (",
          server.status().message(), ")"));
    }
    HEARTH_RETURN_IF_ERROR(server.status());
    server_ = *std::move(server);
    if (!config_.listen.empty()) {
      grpc_address_ = WithPort(config_.listen, server_->port());
    }
    return absl::OkStatus();
  }

  absl::Status WriteAddressFile() {
    if (config_.address_file.empty()) return absl::OkStatus();
    return reserve_->Write([this] {
      return io::WriteFileAtomically(
          files_, config_.address_file,
          absl::StrCat("{\"grpc\": \"", grpc_address(), "\", \"socket\": \"",
                       socket_address_, "\", \"metrics\": \"", metrics_address_,
                       "\", \"pid\": ", getpid(), "}\n"));
    });
  }

  const Config config_;
  io::FileSystem& files_;
  // Not const: gpu_training is set when the daemon starts.
  ModelSource models_;
  const Clock& clock_ = Clock::Real();
  job::RunningJobs running_jobs_;
  // Kept warm from one job to the next.
  const std::unique_ptr<io::ReadQueues> read_queues_;
  job::MemoryLedger memory_;
  store::VerificationRecord verified_;
  const absl::Time start_time_;
  // Addresses in use; empty = none.
  std::string grpc_address_;
  std::string socket_address_;
  std::optional<gid_t> socket_group_;
  std::string metrics_address_;
  // From here on, each object uses only objects above it.
  const std::unique_ptr<metrics::Registry> registry_;
  RetiredSeries retired_series_;
  EventHub hub_;
  // Hub and threads of downloads and uploads.
  Transfers transfers_{config_.transfer_patience};
  FeedStreams feed_streams_{config_.transfer_patience};
  std::unique_ptr<DataDir> data_dir_;
  // File systems outside of the data directory that jobs may read and write.
  std::unique_ptr<io::FileSystem> import_files_;
  std::unique_ptr<io::FileSystem> export_files_;
  std::unique_ptr<io::FileSystem> backup_files_;
  std::unique_ptr<io::FileSystem> upload_files_;
  std::unique_ptr<DiskReserve> reserve_;
  std::unique_ptr<JobFolders> job_folders_;
  std::unique_ptr<JobStore> store_;
  // Destroyed after open plans, which may hold GPU memory.
  std::unique_ptr<cuda::Plugin> gpu_plugin_;
  strategy::Gpu gpu_;
  // GPUs of the plug-in; empty = none.
  std::vector<cuda::Device> gpus_;
  // Names such as "cuda:0 (NVIDIA H100)", "cuda:0 (NVIDIA H100, rows only)".
  std::vector<std::string> gpu_names_;
  std::unique_ptr<plan::PlanStore> plans_;
  std::unique_ptr<DataDisks> data_disks_;
  std::unique_ptr<plan::PlanStores> all_plans_;
  std::unique_ptr<DatasetCatalog> datasets_;
  std::unique_ptr<job::WarmStrategies> warm_strategies_;
  std::unique_ptr<job::BatchMeasurement> batch_measurement_;
  std::unique_ptr<machine::DiskProfiles> disk_profiles_;
  std::unique_ptr<job::SharedPassGroups> shared_passes_;
  std::unique_ptr<Feeds> feeds_;
  std::unique_ptr<NodeFiles> node_files_;
  // Null = there is none.
  std::unique_ptr<Cluster> cluster_;
  std::unique_ptr<JobRunner> runner_;
  std::unique_ptr<Scheduler> scheduler_;
  std::unique_ptr<DaemonMetrics> daemon_metrics_;
  std::unique_ptr<io::ReadMetrics> read_metrics_;
  std::unique_ptr<Trash> trash_;
  std::unique_ptr<UploadStaging> uploads_;
  // uploads_ while it gets events of jobs, else null.
  std::atomic<UploadStaging*> uploads_heard_ = nullptr;
  std::unique_ptr<SweepStore> sweep_store_;
  std::unique_ptr<Admission> admission_;
  std::unique_ptr<SweepManager> sweeps_;
  std::unique_ptr<DaemonState> state_;
  std::unique_ptr<HttpServer> http_;
  std::unique_ptr<TokenStore> tokens_;
  std::unique_ptr<AuditLog> audit_;
  std::unique_ptr<AccessControl> access_;
  std::unique_ptr<SocketListener> socket_;
  std::unique_ptr<FeedSocket> feed_socket_;
  std::unique_ptr<GrpcServer> server_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<Daemon>> Daemon::Start(const Config& config,
                                                      ModelSource models,
                                                      io::FileSystem& files) {
  HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<io::ReadQueues> read_queues,
                          io::ReadQueues::Create());
  auto daemon = std::make_unique<DaemonImpl>(config, std::move(models), files,
                                             std::move(read_queues));
  HEARTH_RETURN_IF_ERROR(daemon->Run());
  return daemon;
}

}  // namespace hearth::server
