#ifndef HEARTH_ENGINE_JOB_DATA_ROW_COPY_H_
#define HEARTH_ENGINE_JOB_DATA_ROW_COPY_H_

#include <memory>
#include <optional>
#include <stop_token>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/job/interface/job_environment.h"
#include "engine/job/interface/observer.h"
#include "engine/plan/plan_store.h"
#include "engine/store/array_type.h"
#include "engine/store/dataset.h"
#include "engine/strategy/memory_budget.h"

namespace hearth::job {

/// The copy of a dataset's features in rows of fewer bytes
/// (store/converted_rows.h): a plan, which every job with these rows reads in
/// place of the features, whatever its strategy.
struct RowCopy {
  store::DType dtype = store::DType::kBFloat16;
  plan::PlanLease lease;
  /// Memory that was reserved to make the copy; empty if it was found.
  strategy::MemoryEstimate making_memory = {};
};

/// Puts the dataset with rows of `dtype` in the place of `dataset`: finds the
/// copy in the plan store or makes it there, with a memory reservation for that
/// time. A damaged copy is made again; an unfinished one is removed. Absent,
/// and `dataset` stays, if its own rows take no more bytes. The target type is
/// to be chosen afterwards. Errors as FindOrMakePlan, store::WriteConverted and
/// MemoryLedger::Reserve; RESOURCE_EXHAUSTED of cause kDiskSpace, before
/// anything is written, where the disk has too little space.
absl::StatusOr<std::optional<RowCopy>> ConvertRows(
    const JobEnvironment& environment, store::DType dtype,
    std::unique_ptr<store::Dataset>& dataset, Observer& observer,
    const std::stop_token& stop);

/// If `status` is an error of reading the copy, marks it as damaged, so that
/// the next job makes it again.
void NoteDamage(const RowCopy& copy, const absl::Status& status);

}  // namespace hearth::job

#endif  // HEARTH_ENGINE_JOB_DATA_ROW_COPY_H_
