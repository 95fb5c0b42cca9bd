#include "server/jobs/dataset_jobs.h"

#include <dirent.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <iterator>
#include <memory>
#include <optional>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/string_view.h"
#include "engine/base/status.h"
#include "engine/ingest/export/dataset_source.h"
#include "engine/ingest/export/write_format.h"
#include "engine/ingest/formats/formats.h"
#include "engine/ingest/generate/generated_graph.h"
#include "engine/ingest/inspect/statistics.h"
#include "engine/ingest/inspect/verify.h"
#include "engine/store/dataset.h"
#include "server/cluster/cluster.h"
#include "server/cluster/cluster_file.h"
#include "server/cluster/dataset_copy.h"
#include "server/mapping/dataset_spec_mapping.h"
#include "server/mapping/report_mapping.h"
#include "server/storage/data_dir.h"

namespace hearth::server {

namespace {

// Maximum depth of folders; far deeper than any format needs.
constexpr int kMaxDepth = 16;

// An open file descriptor, closed when destroyed.
class Descriptor {
 public:
  explicit Descriptor(int fd) : fd_(fd) {}
  ~Descriptor() {
    if (fd_ >= 0) close(fd_);
  }
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  bool ok() const { return fd_ >= 0; }
  int get() const { return fd_; }

 private:
  const int fd_;
};

// Opens `path`, relative to the folder `root`, without leaving it and without
// symbolic links; -1 with errno otherwise.
int OpenBeneath(int root, const char* path, uint64_t flags) {
  open_how how{};
  how.flags = flags | O_CLOEXEC;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
  return static_cast<int>(syscall(SYS_openat2, root, path, &how, sizeof(how)));
}

absl::Status NotASource(const std::string& path) {
  return absl::InvalidArgumentError(
      absl::StrCat(path, ": neither a folder nor a regular file"));
}

absl::Status CheckAnywhere(const std::string& path) {
  struct stat info {};
  if (stat(path.c_str(), &info) != 0) {
    const int error = errno;
    if (error == ENOENT && lstat(path.c_str(), &info) == 0) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": is a link to nothing"));
    }
    return ErrnoStatus(error, path, "stat");
  }
  if (S_ISDIR(info.st_mode) || S_ISREG(info.st_mode)) return absl::OkStatus();
  return NotASource(path);
}

// Part of the path below `root`; empty if `path` does not begin with it.
std::string Below(const std::string& path, absl::string_view root) {
  while (absl::EndsWith(root, "/")) root.remove_suffix(1);
  absl::string_view rest = path;
  if (!absl::StartsWith(rest, root)) return "";
  rest.remove_prefix(root.size());
  if (!rest.empty() && rest[0] != '/') return "";
  while (absl::StartsWith(rest, "/")) rest.remove_prefix(1);
  return rest.empty() ? "." : std::string(rest);
}

// Checks that every entry below `folder` can be opened without a symbolic link.
absl::Status CheckEntries(const Descriptor& folder, const std::string& path,
                          int depth, const std::stop_token& stop) {
  if (depth > kMaxDepth) {
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": more than ", kMaxDepth, " folders deep"));
  }
  const int copy = OpenBeneath(folder.get(), ".", O_RDONLY | O_DIRECTORY);
  DIR* entries = copy < 0 ? nullptr : fdopendir(copy);
  if (entries == nullptr) return ErrnoStatus(errno, path, "open");
  const std::unique_ptr<DIR, int (*)(DIR*)> closer(entries, closedir);
  while (const dirent* entry = readdir(entries)) {
    if (stop.stop_requested()) {
      return absl::CancelledError(absl::StrCat(path, ": stopped on request"));
    }
    const std::string name = entry->d_name;
    if (name == "." || name == "..") continue;
    const std::string inner = absl::StrCat(path, "/", name);
    const Descriptor file(OpenBeneath(folder.get(), entry->d_name, O_PATH));
    if (!file.ok()) {
      return absl::PermissionDeniedError(absl::StrCat(
          inner, ": symbolic links are not followed under import roots"));
    }
    struct stat info {};
    if (fstat(file.get(), &info) != 0) return ErrnoStatus(errno, inner, "stat");
    if (S_ISDIR(info.st_mode)) {
      HEARTH_RETURN_IF_ERROR(CheckEntries(file, inner, depth + 1, stop));
    }
  }
  return absl::OkStatus();
}

// OK for a regular file, and for a folder without symbolic links below.
absl::Status CheckBelow(const Descriptor& source, const std::string& path,
                        const std::stop_token& stop) {
  struct stat info {};
  if (fstat(source.get(), &info) != 0) return ErrnoStatus(errno, path, "stat");
  if (S_ISREG(info.st_mode)) return absl::OkStatus();
  if (S_ISDIR(info.st_mode)) return CheckEntries(source, path, 0, stop);
  return NotASource(path);
}

}  // namespace

absl::Status CheckImportSource(const std::string& path,
                               const std::vector<std::string>& roots,
                               std::stop_token stop) {
  if (roots.empty()) return CheckAnywhere(path);
  for (const std::string& root : roots) {
    const std::string below = Below(path, root);
    if (below.empty()) continue;
    const Descriptor base(open(root.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
    if (!base.ok()) return ErrnoStatus(errno, root, "open import root");
    const Descriptor source(OpenBeneath(base.get(), below.c_str(), O_PATH));
    if (source.ok()) return CheckBelow(source, path, stop);
    if (errno != EXDEV && errno != ELOOP) {
      return ErrnoStatus(errno, path, "open");
    }
  }
  return absl::PermissionDeniedError(
      absl::StrCat(path, ": imports may only read from ",
                   absl::StrJoin(roots, ", "), ", without symbolic links"));
}

namespace {

ingest::ImportProgress ProgressTo(job::Observer& observer) {
  return [&observer](absl::string_view phase, uint64_t done, uint64_t total) {
    job::Progress progress;
    progress.phase = std::string(phase);
    progress.done = done;
    progress.total = total;
    observer.OnProgress(progress);
  };
}

/// Options of a resumable job: it continues if an earlier run of it with the
/// same spec, apart from its memory, was interrupted.
template <typename Spec>
ingest::ImportOptions ResumableOptions(
    const DatasetJobDependencies& dependencies, const std::string& job_id,
    Spec spec, job::Observer& observer) {
  ingest::ImportOptions options =
      ToImportOptions(spec, dependencies.data_dir.DatasetPath(spec.name()));
  options.unfinished = dependencies.data_dir.UnfinishedDatasetPath(job_id);
  ingest::ImportResumption& resumption = options.resumption.emplace();
  spec.clear_memory_limit_bytes();
  resumption.key = spec.SerializeAsString();
  resumption.on_durable = [&observer] { observer.OnDurable(); };
  resumption.on_log = [&observer](const std::string& text) {
    observer.OnLog(job::Severity::kInfo, text);
  };
  return options;
}

/// Logs what was done to the source, and likely mistakes in it.
void LogImport(io::FileSystem& files, const store::Manifest& manifest,
               const std::string& folder, job::Observer& observer) {
  for (const std::string& transform : manifest.transforms) {
    observer.OnLog(job::Severity::kInfo, transform);
  }
  const absl::StatusOr<std::optional<ingest::DatasetStatistics>> statistics =
      ingest::LoadStatistics(files, folder);
  if (!statistics.ok() || !statistics->has_value()) return;
  for (const std::string& warning : (*statistics)->warnings) {
    observer.OnLog(job::Severity::kWarning, warning);
  }
}

/// Makes the dataset with the job's name by `make`. No other job may make a
/// dataset of this name, so an existing one was made by this job before it was
/// interrupted.
absl::StatusOr<v1::JobReport> MakeDataset(
    const DatasetJobDependencies& dependencies, const std::string& folder,
    job::Observer& observer,
    absl::FunctionRef<absl::StatusOr<ingest::ImportResult>()> make) {
  v1::JobReport report;
  if (dependencies.files.Stat(folder).ok()) {
    HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<store::Dataset> dataset,
                            store::Dataset::Open(dependencies.files, folder));
    observer.OnRunning();
    *report.mutable_import() =
        ToImportReport(dataset->manifest(), dataset->manifest().SizeBytes(), 0);
    return report;
  }
  const double start = dependencies.clock.SteadySeconds();
  HEARTH_ASSIGN_OR_RETURN(const ingest::ImportResult result, make());
  LogImport(dependencies.files, result.manifest, folder, observer);
  *report.mutable_import() =
      ToImportReport(result.manifest, result.bytes_written,
                     dependencies.clock.SteadySeconds() - start);
  return report;
}

/// The share that a valid ImportSpec.share means.
std::optional<DatasetShare> ShareOf(const std::string& share,
                                    const ClusterFile& file) {
  if (share.empty()) return std::nullopt;
  if (const std::optional<SharePart> part = ParseShare(share)) {
    return DatasetShare{.index = part->number - 1, .count = part->of};
  }
  DatasetShare own = {.count = std::ssize(file.members)};
  while (file.members[static_cast<size_t>(own.index)].name != file.name) {
    ++own.index;
  }
  return own;
}

v1::JobReport ExportedTo(const std::string& destination) {
  v1::JobReport report;
  report.mutable_export_()->set_path(destination);
  return report;
}

}  // namespace

absl::StatusOr<v1::JobReport> RunImport(
    const DatasetJobDependencies& dependencies, const std::string& job_id,
    const v1::ImportSpec& spec, const std::vector<std::string>& import_roots,
    job::Observer& observer, std::stop_token stop) {
  const std::string folder = dependencies.data_dir.DatasetPath(spec.name());
  const auto import = [&]() -> absl::StatusOr<ingest::ImportResult> {
    HEARTH_RETURN_IF_ERROR(CheckImportSource(spec.path(), import_roots, stop));
    observer.OnRunning();
    return ingest::ImportDataset(
        dependencies.files, {ToFormat(spec.format()), ToFormatOptions(spec)},
        ResumableOptions(dependencies, job_id, spec, observer),
        ProgressTo(observer), stop);
  };
  return MakeDataset(dependencies, folder, observer, import);
}

absl::StatusOr<v1::JobReport> RunCopy(
    const DatasetJobDependencies& dependencies, Cluster* cluster,
    const std::string& job_id, const v1::ImportSpec& spec,
    job::Observer& observer, std::stop_token stop) {
  if (cluster == nullptr) {
    return absl::FailedPreconditionError(
        "from_member: this daemon has no cluster (hearthd --cluster)");
  }
  HEARTH_ASSIGN_OR_RETURN(const ClusterFile members, cluster->Read());
  const ClusterMember* const member = members.Find(spec.from_member());
  if (member == nullptr) {
    return absl::NotFoundError(absl::StrCat(
        "from_member: the cluster has no member \"", spec.from_member(), "\""));
  }
  if (member->name == cluster->name()) {
    return absl::InvalidArgumentError(
        absl::StrCat("from_member: ", member->name, " is this daemon itself"));
  }
  HEARTH_ASSIGN_OR_RETURN(auto channel, cluster->ChannelTo(*member));
  const std::unique_ptr<DatasetSource> source =
      NewPeerDatasets(std::move(channel), member->name, stop);
  const DatasetCopyOptions options = {
      .name = spec.name(),
      .share = ShareOf(spec.share(), members),
      .unfinished = dependencies.data_dir.UnfinishedDatasetPath(job_id),
      .destination = dependencies.data_dir.DatasetPath(spec.name()),
      .on_progress = ProgressTo(observer),
      .on_durable = [&observer] { observer.OnDurable(); },
      .on_log =
          [&observer](const std::string& text) {
            observer.OnLog(job::Severity::kInfo, text);
          }};
  const auto copy = [&]() -> absl::StatusOr<ingest::ImportResult> {
    observer.OnRunning();
    ingest::ImportResult result;
    HEARTH_ASSIGN_OR_RETURN(
        result.manifest,
        CopyDataset(dependencies.files, *source, options, stop));
    result.bytes_written = result.manifest.SizeBytes();
    return result;
  };
  return MakeDataset(dependencies, options.destination, observer, copy);
}

absl::StatusOr<v1::JobReport> RunGenerate(
    const DatasetJobDependencies& dependencies, const std::string& job_id,
    const v1::GenerateSpec& spec, job::Observer& observer,
    std::stop_token stop) {
  const ingest::GenerateOptions options = ToGenerateOptions(spec);
  const auto open = [&](ingest::ImportContext& context) {
    return ingest::OpenGenerated(context, options);
  };
  if (spec.destination().empty()) {
    const std::string folder = dependencies.data_dir.DatasetPath(spec.name());
    return MakeDataset(dependencies, folder, observer, [&] {
      observer.OnRunning();
      return ingest::ImportGraph(
          dependencies.files,
          ResumableOptions(dependencies, job_id, spec, observer), open,
          ProgressTo(observer), stop);
    });
  }
  HEARTH_RETURN_IF_ERROR(CheckOutside(
      dependencies.files, dependencies.data_dir.path(), spec.destination()));
  observer.OnRunning();
  HEARTH_RETURN_IF_ERROR(ingest::WriteFormat(
      dependencies.files,
      {spec.destination(), ToFormat(spec.format()), spec.memory_limit_bytes()},
      open, ProgressTo(observer), std::move(stop)));
  return ExportedTo(spec.destination());
}

absl::StatusOr<v1::JobReport> RunVerify(
    const DatasetJobDependencies& dependencies, const v1::VerifySpec& spec,
    job::Observer& observer, std::stop_token stop) {
  HEARTH_ASSIGN_OR_RETURN(
      const std::unique_ptr<store::Dataset> dataset,
      store::Dataset::Open(dependencies.files,
                           dependencies.data_dir.DatasetPath(spec.dataset())));
  observer.OnRunning();
  const double start = dependencies.clock.SteadySeconds();
  HEARTH_ASSIGN_OR_RETURN(
      const ingest::VerifyResult result,
      ingest::VerifyDataset(
          dependencies.files, *dataset,
          [progress = ProgressTo(observer)](uint64_t done, uint64_t total) {
            progress("verifying", done, total);
          },
          std::move(stop)));
  v1::JobReport report;
  v1::VerifyReport& verify = *report.mutable_verify();
  verify.set_files(static_cast<uint64_t>(result.files));
  verify.set_blocks(static_cast<uint64_t>(result.blocks));
  verify.set_bytes(static_cast<uint64_t>(result.bytes));
  verify.set_seconds(dependencies.clock.SteadySeconds() - start);
  return report;
}

absl::StatusOr<v1::JobReport> RunExportDataset(
    const DatasetJobDependencies& dependencies,
    const v1::ExportDatasetSpec& spec, uint64_t memory_limit_bytes,
    job::Observer& observer, std::stop_token stop) {
  HEARTH_RETURN_IF_ERROR(CheckOutside(
      dependencies.files, dependencies.data_dir.path(), spec.destination()));
  HEARTH_ASSIGN_OR_RETURN(
      const std::unique_ptr<store::Dataset> dataset,
      store::Dataset::Open(dependencies.files,
                           dependencies.data_dir.DatasetPath(spec.dataset())));
  observer.OnRunning();
  const auto open = [&](ingest::ImportContext& context) {
    return ingest::OpenDatasetAsSource(context.files(), *dataset);
  };
  HEARTH_RETURN_IF_ERROR(ingest::WriteFormat(
      dependencies.files,
      {spec.destination(), ToFormat(spec.format()), memory_limit_bytes}, open,
      ProgressTo(observer), std::move(stop)));
  return ExportedTo(spec.destination());
}

}  // namespace hearth::server
