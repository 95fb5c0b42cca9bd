#ifndef HEARTH_CLIENT_CLI_VIEWS_JOB_VIEW_H_
#define HEARTH_CLIENT_CLI_VIEWS_JOB_VIEW_H_

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "hearth/v1/jobs.pb.h"
#include "hearth/v1/plans.pb.h"
#include "hearth/v1/report.pb.h"

namespace hearth::cli {

/// A line for each plan.
void PrintPlanList(const std::vector<v1::Plan>& plans, std::ostream& out);

/// Everything about one plan.
void PrintPlan(const v1::Plan& plan, std::ostream& out);

/// A plan that a job found or made: what it cost, and why it is as it is.
void PrintPreparation(const v1::PreparationReport& preparation,
                      std::ostream& out);

/// Prints the embeddings that a job keeps, and what that is measured against.
void PrintHistory(const v1::HistoryChoice& history, std::ostream& out);

/// Prints what a job has less of than asked: "cpu-cache: 512.0 MiB instead of
/// 1.0 GiB, to fit the memory limit of 2.8 GiB".
void PrintCuts(const google::protobuf::RepeatedPtrField<v1::BudgetCut>& cuts,
               uint64_t memory_limit_bytes, std::ostream& out);

/// Prints the forecast of a job: reads, time, disk and memory.
void PrintExplanation(const v1::ExplainReport& report, std::ostream& out);

/// The dataset or job that a job works on, in a word; "-" for none.
std::string SubjectOf(const v1::JobSpec& spec);

/// One line per job.
void PrintJobList(const std::vector<v1::Job>& jobs, std::ostream& out);

/// Prints the options of a job and what it did so far.
void PrintJob(const v1::Job& job, std::ostream& out);

/// How a job ended: its result, or why there is none.
void PrintOutcome(const v1::Job& job, std::ostream& out);

}  // namespace hearth::cli

#endif  // HEARTH_CLIENT_CLI_VIEWS_JOB_VIEW_H_
