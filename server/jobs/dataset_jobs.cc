#include "server/jobs/dataset_jobs.h"

#include <memory>
#include <optional>
#include <utility>

#include "absl/functional/function_ref.h"
#include "absl/strings/string_view.h"
#include "engine/base/status_macros.h"
#include "engine/ingest/export/dataset_source.h"
#include "engine/ingest/export/write_format.h"
#include "engine/ingest/formats/import_dataset.h"
#include "engine/ingest/generate/open_generated.h"
#include "engine/ingest/inspect/statistics.h"
#include "engine/ingest/inspect/verify.h"
#include "engine/store/dataset.h"
#include "server/jobs/import_source.h"
#include "server/mapping/dataset_spec_mapping.h"
#include "server/mapping/report_mapping.h"
#include "server/storage/outside.h"

namespace hearth::server {
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

/// The options for a job that may go on, where an earlier run of it with an
/// equal spec, but for its memory, was interrupted.
template <typename Spec>
ingest::ImportOptions ResumableOptions(const DatasetJobParts& parts,
                                       const std::string& job_id, Spec spec,
                                       job::Observer& observer) {
  ingest::ImportOptions options =
      ToImportOptions(spec, parts.data_dir.DatasetPath(spec.name()));
  options.unfinished = parts.data_dir.UnfinishedDatasetPath(job_id);
  ingest::ImportResumption& resumption = options.resumption.emplace();
  spec.clear_memory_limit_bytes();
  resumption.key = spec.SerializeAsString();
  resumption.on_durable = [&observer] { observer.OnDurable(); };
  resumption.on_log = [&observer](const std::string& text) {
    observer.OnLog(job::Severity::kInfo, text);
  };
  return options;
}

/// Logs what was done to the source, and what looks like a mistake in it.
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

/// Makes the dataset of job's name by `make`. No other job may make one of this
/// name, so what is there is what this job made before it was interrupted.
absl::StatusOr<v1::JobReport> MakeDataset(
    const DatasetJobParts& parts, const std::string& folder,
    job::Observer& observer,
    absl::FunctionRef<absl::StatusOr<ingest::ImportResult>()> make) {
  v1::JobReport report;
  if (parts.files.Stat(folder).ok()) {
    HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<store::Dataset> dataset,
                            store::Dataset::Open(parts.files, folder));
    observer.OnRunning();
    *report.mutable_import() =
        ToImportReport(dataset->manifest(), dataset->manifest().SizeBytes(), 0);
    return report;
  }
  const double start = parts.clock.SteadySeconds();
  HEARTH_ASSIGN_OR_RETURN(const ingest::ImportResult result, make());
  LogImport(parts.files, result.manifest, folder, observer);
  *report.mutable_import() =
      ToImportReport(result.manifest, result.bytes_written,
                     parts.clock.SteadySeconds() - start);
  return report;
}

v1::JobReport ExportedTo(const std::string& destination) {
  v1::JobReport report;
  report.mutable_export_()->set_path(destination);
  return report;
}

}  // namespace

absl::StatusOr<v1::JobReport> RunImport(
    const DatasetJobParts& parts, const std::string& job_id,
    const v1::ImportSpec& spec, const std::vector<std::string>& import_roots,
    job::Observer& observer, std::stop_token stop) {
  const std::string folder = parts.data_dir.DatasetPath(spec.name());
  const auto import = [&]() -> absl::StatusOr<ingest::ImportResult> {
    HEARTH_RETURN_IF_ERROR(CheckImportSource(spec.path(), import_roots, stop));
    observer.OnRunning();
    return ingest::ImportDataset(
        parts.files, {ToFormat(spec.format()), ToFormatOptions(spec)},
        ResumableOptions(parts, job_id, spec, observer), ProgressTo(observer),
        stop);
  };
  return MakeDataset(parts, folder, observer, import);
}

absl::StatusOr<v1::JobReport> RunGenerate(const DatasetJobParts& parts,
                                          const std::string& job_id,
                                          const v1::GenerateSpec& spec,
                                          job::Observer& observer,
                                          std::stop_token stop) {
  const ingest::GenerateOptions options = ToGenerateOptions(spec);
  const auto open = [&](ingest::ImportContext& context) {
    return ingest::OpenGenerated(context, options);
  };
  if (spec.destination().empty()) {
    const std::string folder = parts.data_dir.DatasetPath(spec.name());
    return MakeDataset(parts, folder, observer, [&] {
      observer.OnRunning();
      return ingest::ImportGraph(
          parts.files, ResumableOptions(parts, job_id, spec, observer), open,
          ProgressTo(observer), stop);
    });
  }
  HEARTH_RETURN_IF_ERROR(
      CheckOutside(parts.files, parts.data_dir.path(), spec.destination()));
  observer.OnRunning();
  HEARTH_RETURN_IF_ERROR(ingest::WriteFormat(
      parts.files,
      {spec.destination(), ToFormat(spec.format()), spec.memory_limit_bytes()},
      open, ProgressTo(observer), std::move(stop)));
  return ExportedTo(spec.destination());
}

absl::StatusOr<v1::JobReport> RunVerify(const DatasetJobParts& parts,
                                        const v1::VerifySpec& spec,
                                        job::Observer& observer,
                                        std::stop_token stop) {
  HEARTH_ASSIGN_OR_RETURN(
      const std::unique_ptr<store::Dataset> dataset,
      store::Dataset::Open(parts.files,
                           parts.data_dir.DatasetPath(spec.dataset())));
  observer.OnRunning();
  const double start = parts.clock.SteadySeconds();
  HEARTH_ASSIGN_OR_RETURN(
      const ingest::VerifyResult result,
      ingest::VerifyDataset(
          parts.files, *dataset,
          [progress = ProgressTo(observer)](uint64_t done, uint64_t total) {
            progress("verifying", done, total);
          },
          std::move(stop)));
  v1::JobReport report;
  v1::VerifyReport& verify = *report.mutable_verify();
  verify.set_files(static_cast<uint64_t>(result.files));
  verify.set_blocks(static_cast<uint64_t>(result.blocks));
  verify.set_bytes(static_cast<uint64_t>(result.bytes));
  verify.set_seconds(parts.clock.SteadySeconds() - start);
  return report;
}

absl::StatusOr<v1::JobReport> RunExportDataset(
    const DatasetJobParts& parts, const v1::ExportDatasetSpec& spec,
    uint64_t memory_limit_bytes, job::Observer& observer,
    std::stop_token stop) {
  HEARTH_RETURN_IF_ERROR(
      CheckOutside(parts.files, parts.data_dir.path(), spec.destination()));
  HEARTH_ASSIGN_OR_RETURN(
      const std::unique_ptr<store::Dataset> dataset,
      store::Dataset::Open(parts.files,
                           parts.data_dir.DatasetPath(spec.dataset())));
  observer.OnRunning();
  const auto open = [&](ingest::ImportContext& context) {
    return ingest::OpenDatasetAsSource(context.files(), *dataset);
  };
  HEARTH_RETURN_IF_ERROR(ingest::WriteFormat(
      parts.files,
      {spec.destination(), ToFormat(spec.format()), memory_limit_bytes}, open,
      ProgressTo(observer), std::move(stop)));
  return ExportedTo(spec.destination());
}

}  // namespace hearth::server
