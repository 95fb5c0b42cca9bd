// A job of order locality, step by step:
//   1. Choose the order, and write order.json.
//   2. Train the pilot in the folder "pilot" (exact_epochs.h).
//   3. Train the first epochs in the chosen order, as a job of that order does
//      (the caller).
//   4. Compare the last of them, whose results are in its checkpoint, with the
//      pilot's, and write the decision to order.json.
//   5. Train the other epochs from that checkpoint, in the order decided on
//      (the caller).
// A later run repeats each step that has not left its file. If the decision is
// lost, but a checkpoint is of a later epoch, whose results do not tell it, the
// job starts over. A job that falls back on a checkpoint before the decision
// keeps the decision, and trains the epochs before it in the chosen order.
#include "engine/job/run/locality_guard.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "engine/base/status.h"
#include "engine/io/file_system.h"
#include "engine/io/whole_file.h"
#include "engine/job/checkpoint/checkpoint.h"
#include "engine/job/checkpoint/report_json.h"
#include "engine/job/interface/observer.h"
#include "engine/store/dataset.h"
#include "engine/store/strict_json.h"
#include "engine/train/metric.h"

namespace hearth::job {
namespace {

// Version of order.json.
constexpr int kFormat = 1;
constexpr uint64_t kMaxFileBytes = 64 << 10;
constexpr double kMostBelow = 0.005;

std::string PathIn(const std::string& directory) {
  return io::JoinPath(directory, "order.json");
}

LocalityChoice ChoiceFromJson(const nlohmann::json& value) {
  LocalityChoice choice;
  value.at("parts").get_to(choice.parts);
  value.at("macro_batch_parts").get_to(choice.macro_batch_parts);
  value.at("label_distance").get_to(choice.label_distance);
  value.at("shuffled_label_distance").get_to(choice.shuffled_label_distance);
  choice.valid_metric = OptionalFromJson<double>(value.at("valid_metric"));
  choice.shuffled_valid_metric =
      OptionalFromJson<double>(value.at("shuffled_valid_metric"));
  value.at("rows_needed").get_to(choice.rows_needed);
  value.at("shuffled_rows_needed").get_to(choice.shuffled_rows_needed);
  value.at("reverted").get_to(choice.reverted);
  return choice;
}

}  // namespace

bool IsBelowPilot(double metric, double pilot) {
  if (std::isnan(pilot)) return false;
  return std::isnan(metric) || metric < pilot - kMostBelow;
}

absl::StatusOr<LocalityGuard> LocalityGuard::Open(const Member::Job& job,
                                                  std::stop_token stop) {
  const TrainJobOptions& options = job.options;
  io::FileSystem& files = job.environment.files;
  HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<store::Dataset> dataset,
                          store::Dataset::Open(files, options.data.dataset_path,
                                               job.environment.verified));
  LocalityGuard guard(job, dataset->manifest().fingerprint);
  HEARTH_RETURN_IF_ERROR(guard.Read());
  if (!guard.is_chosen_) HEARTH_RETURN_IF_ERROR(guard.Choose(stop));
  if (options.part == TrainPart::kTest || options.data.epochs <= kEpochs) {
    return guard;
  }
  HEARTH_ASSIGN_OR_RETURN(
      const FoundCheckpoint found,
      FindCheckpoint(files, options.directory, guard.fingerprint_));
  int64_t epoch = found.checkpoint.has_value() ? found.checkpoint->epoch : 0;
  if (!guard.is_decided()) {
    if (epoch > kEpochs) {
      job.observer.OnLog(Severity::kWarning,
                         "the decision about the order is lost: training from "
                         "the start");
      HEARTH_RETURN_IF_ERROR(RemoveCheckpoints(files, options.directory));
      epoch = 0;
    }
    HEARTH_ASSIGN_OR_RETURN(guard.pilot_,
                            TrainShuffledPilot(job, kEpochs, std::move(stop)));
  }
  guard.is_watching_ = epoch < kEpochs;
  if (!guard.is_watching_) HEARTH_RETURN_IF_ERROR(guard.Decide());
  return guard;
}

// Reads the choice of an earlier run, and what that has decided. A file of
// another dataset, or a damaged one, is treated as absent.
absl::Status LocalityGuard::Read() {
  const absl::Status read = store::ReadSealedJson(
      job_.environment.files, PathIn(job_.options.directory), kMaxFileBytes,
      kFormat, [&](const nlohmann::json& json) {
        if (json.at("fingerprint") != fingerprint_) return true;
        choice_ = ChoiceFromJson(json);
        is_chosen_ = true;
        return true;
      });
  if (absl::IsNotFound(read)) return absl::OkStatus();
  if (!absl::IsDataLoss(read)) return read;
  job_.observer.OnLog(
      Severity::kWarning,
      absl::StrCat(read.message(), "; the order is chosen again"));
  return absl::OkStatus();
}

absl::Status LocalityGuard::Write() const {
  return io::WriteFileAtomically(
      job_.environment.files, PathIn(job_.options.directory),
      store::SealJson(
          {{"format", kFormat},
           {"fingerprint", fingerprint_},
           {"parts", choice_.parts},
           {"macro_batch_parts", choice_.macro_batch_parts},
           {"label_distance", choice_.label_distance},
           {"shuffled_label_distance", choice_.shuffled_label_distance},
           {"valid_metric", ToJson(choice_.valid_metric)},
           {"shuffled_valid_metric", ToJson(choice_.shuffled_valid_metric)},
           {"rows_needed", choice_.rows_needed},
           {"shuffled_rows_needed", choice_.shuffled_rows_needed},
           {"reverted", choice_.reverted}}));
}

absl::Status LocalityGuard::Choose(const std::stop_token& stop) {
  HEARTH_ASSIGN_OR_RETURN(
      chosen_, ChooseLocality(job_.environment, job_.options.data,
                              job_.options.pipeline, job_.observer, stop));
  choice_ = chosen_->choice;
  is_chosen_ = true;
  return job_.options.part == TrainPart::kTest ? absl::OkStatus() : Write();
}

TrainJobOptions LocalityGuard::Options() const {
  TrainJobOptions options = job_.options;
  options.data = InChosenOrder(std::move(options.data), choice_,
                               choice_.reverted && !is_watching_);
  return options;
}

absl::Status LocalityGuard::Decide() {
  is_watching_ = false;
  if (is_decided()) return absl::OkStatus();
  HEARTH_ASSIGN_OR_RETURN(const FoundCheckpoint found,
                          FindCheckpoint(job_.environment.files,
                                         job_.options.directory, fingerprint_));
  if (!found.checkpoint.has_value() || found.checkpoint->epoch != kEpochs) {
    return absl::DataLossError(absl::StrCat(
        job_.options.directory, " has no checkpoint of the end of epoch ",
        kEpochs, ", which was written"));
  }
  const EpochReport& epoch = *found.checkpoint->last_epoch;
  const ExactEpoch& pilot = pilot_.epochs.back();
  choice_.valid_metric = epoch.valid_metric;
  choice_.shuffled_valid_metric = pilot.valid_metric;
  choice_.rows_needed = epoch.training.rows_needed;
  choice_.shuffled_rows_needed = pilot.rows_needed;
  choice_.reverted = IsBelowPilot(*epoch.valid_metric, *pilot.valid_metric);
  HEARTH_RETURN_IF_ERROR(Write());
  job_.observer.OnLog(
      Severity::kInfo,
      absl::StrFormat("order locality: validation %s after epoch %d is %.4f, "
                      "in shuffled order %.4f: %s",
                      train::Name(epoch.metric), kEpochs, *epoch.valid_metric,
                      *pilot.valid_metric,
                      choice_.reverted ? "seeds are shuffled from now on"
                                       : "the order stays"));
  return absl::OkStatus();
}

void LocalityGuard::AddTo(TrainReport& report) const {
  report.locality = choice_;
  pilot_.AddTo(report);
  if (!chosen_.has_value()) return;
  report.partition = chosen_->partition;
  report.memory_bound_bytes =
      std::max(report.memory_bound_bytes, chosen_->memory_bytes);
}

}  // namespace hearth::job
