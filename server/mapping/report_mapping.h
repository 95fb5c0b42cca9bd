#ifndef HEARTH_SERVER_MAPPING_REPORT_MAPPING_H_
#define HEARTH_SERVER_MAPPING_REPORT_MAPPING_H_

#include <cstdint>

#include "engine/feed/channel.h"
#include "engine/ingest/inspect/statistics.h"
#include "engine/job/interface/observer.h"
#include "engine/job/interface/report.h"
#include "engine/plan/plan_store.h"
#include "engine/store/manifest.h"
#include "hearth/v1/datasets.pb.h"
#include "hearth/v1/jobs.pb.h"
#include "hearth/v1/plans.pb.h"
#include "hearth/v1/report.pb.h"

namespace hearth::server {

/// Message of a plan, without the names of datasets.
v1::Plan ToProto(const plan::PlanInfo& info);

/// Messages of the engine's reports, field by field.

v1::EpochReport ToProto(const job::EpochReport& report);
v1::TrainReport ToProto(const job::TrainReport& report);
v1::PrepareReport ToProto(const job::PrepareReport& report);

/// Report of a run that has only tested.
v1::EvaluateReport ToEvaluateReport(const job::TrainReport& report);
/// Sets what clients of a feed have had so far; the passes are those of the
/// first of them.
void SetUse(absl::Span<const std::shared_ptr<feed::Channel>> channels,
            v1::FeedReport& proto);
/// Report of a feed, with SetUse.
v1::FeedReport ToFeedReport(
    const job::TrainReport& report,
    absl::Span<const std::shared_ptr<feed::Channel>> channels);

v1::ExplainReport ToProto(const job::ExplainReport& report);
v1::Progress ToProto(const job::Progress& progress);
v1::LogLine::Severity ToProto(job::Severity severity);

/// Report of an import that took `seconds`.
v1::ImportReport ToImportReport(const store::Manifest& manifest,
                                uint64_t bytes_written, double seconds);

/// Dataset that a manifest describes.
v1::Dataset ToDataset(const store::Manifest& manifest);

/// Adds statistics and warnings to the types of a dataset, by name. A number
/// that could not be counted is 0, with a warning.
void AddStatistics(const ingest::DatasetStatistics& statistics,
                   v1::Dataset& dataset);

}  // namespace hearth::server

#endif  // HEARTH_SERVER_MAPPING_REPORT_MAPPING_H_
