#ifndef HEARTH_CLIENT_CLI_VIEWS_JOB_VIEW_H_
#define HEARTH_CLIENT_CLI_VIEWS_JOB_VIEW_H_

#include <cstdint>
#include <ostream>
#include <string>
#include <vector>

#include "hearth/v1/jobs.pb.h"
#include "hearth/v1/plans.pb.h"
#include "hearth/v1/report.pb.h"

/// Jobs, their reports, forecasts and plans, as text.

namespace hearth::cli {

/// Prints a line for each plan.
void PrintPlanList(const std::vector<v1::Plan>& plans, std::ostream& out);

/// Prints all about one plan.
void PrintPlan(const v1::Plan& plan, std::ostream& out);

/// Prints the plan that a job found or made: its cost and the choices in it.
void PrintPreparation(const v1::PreparationReport& preparation,
                      std::ostream& out);

/// Prints the history of embeddings that a job keeps, and how many rows each
/// seed takes without a history.
void PrintHistory(const v1::HistoryChoice& history, std::ostream& out);

/// Prints the budgets that were cut: "cpu-cache: 512.0 MiB instead of 1.0 GiB,
/// to fit the memory limit of 2.8 GiB".
void PrintCuts(const google::protobuf::RepeatedPtrField<v1::BudgetCut>& cuts,
               uint64_t memory_limit_bytes, std::ostream& out);

/// Prints the forecast of a job: reads, time, disk and memory.
void PrintExplanation(const v1::ExplainReport& report, std::ostream& out);

/// Name of the dataset, or id of the job, that a job works on; "-" for none.
std::string SubjectOf(const v1::JobSpec& spec);

/// Prints a line for each job.
void PrintJobList(const std::vector<v1::Job>& jobs, std::ostream& out);

/// Prints a job's options, its state, and its report so far.
void PrintJob(const v1::Job& job, std::ostream& out);

/// Prints what the machines of a running job do, if it has several: those that
/// have waited least are waited for.
void PrintLiveMachines(const v1::Job& job, std::ostream& out);

/// Prints the result of a job that has ended, or why there is none.
void PrintOutcome(const v1::Job& job, std::ostream& out);

}  // namespace hearth::cli

#endif  // HEARTH_CLIENT_CLI_VIEWS_JOB_VIEW_H_
