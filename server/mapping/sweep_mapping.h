#ifndef HEARTH_SERVER_MAPPING_SWEEP_MAPPING_H_
#define HEARTH_SERVER_MAPPING_SWEEP_MAPPING_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "engine/sweep/search.h"
#include "engine/sweep/space.h"
#include "hearth/v1/sweeps.pb.h"
#include "server/mapping/spec_mapping.h"

/// Conversion of the contract's sweeps to the engine's: spaces of named
/// options, algorithms, results and states. The contract counts trials from 1,
/// the engine from 0.

namespace hearth::server {

/// Most trials of a sweep.
inline constexpr int64_t kMaxTrials = 10'000;

/// Fills in the defaults of the search, but not of the job, drops repeated
/// values, and checks every field and the spec of every trial to come.
/// INVALID_ARGUMENT, naming each field at fault, such as "space[1].name" or
/// "trials".
absl::Status FillAndValidate(const SpecLimits& limits, v1::SweepSpec& spec);

/// Search of a validated spec.
sweep::SearchOptions ToSearchOptions(const v1::SweepSpec& spec);

/// For each trial that a validated spec begins with, the number of the data
/// that it trains on; empty where all trials have the same data, or begin in
/// the order of their numbers.
std::vector<int64_t> DataOfTrials(const v1::SweepSpec& spec);

/// Point of trial `trial` among the trials that a validated spec begins with.
sweep::Point PointOf(const v1::SweepSpec& spec, int64_t trial);

/// Job of a trial at `point`, with the job's defaults. INVALID_ARGUMENT if the
/// values make no valid job. Options that do not apply to the alternatives that
/// the point chooses are left out. REQUIRES: a validated spec.
absl::StatusOr<v1::JobSpec> TrialJobSpec(const SpecLimits& limits,
                                         const v1::SweepSpec& spec,
                                         const sweep::Point& point,
                                         int64_t replica);

/// Bytes that decide the result of a trial at `point`: trials of a sweep with
/// equal keys have equal jobs, replica by replica. Empty where TrialJobSpec
/// fails.
std::string ResultKey(const SpecLimits& limits, const v1::SweepSpec& spec,
                      const sweep::Point& point);

/// Job that tests the model that the trial's job `trained` has trained. Errors
/// as TrialJobSpec.
absl::StatusOr<v1::JobSpec> TestJobSpec(const SpecLimits& limits,
                                        const v1::SweepSpec& spec,
                                        const sweep::Point& point,
                                        int64_t replica,
                                        const std::string& trained);

/// Point that a user asks for. INVALID_ARGUMENT, naming the parameter at fault.
absl::StatusOr<sweep::Point> ToPoint(const SpecLimits& limits,
                                     const v1::SweepSpec& spec,
                                     const v1::AddTrialRequest& request);

/// Name of the metric that epochs are compared by: "accuracy", "loss".
std::string MetricOf(const v1::SweepSpec& spec, const v1::EpochReport& epoch);

/// Score of a result for the search; greater is better.
double ScoreOf(const v1::EpochResult& result, const std::string& metric);

/// Value of the metric for a score.
double ValueOf(double score, const std::string& metric);

v1::TrialState ToProto(sweep::TrialState state);
v1::TrialDecision::Action ToProto(sweep::Action action);

}  // namespace hearth::server

#endif  // HEARTH_SERVER_MAPPING_SWEEP_MAPPING_H_
