#include "server/mapping/report_mapping.h"

#include "absl/time/time.h"
#include "absl/types/span.h"
#include "engine/pipeline/pipeline.h"
#include "engine/store/array_type.h"
#include "engine/store/labels.h"
#include "engine/strategy/memory_budget.h"
#include "engine/strategy/strategy.h"
#include "engine/train/metric.h"

namespace hearth::server {

namespace {

v1::Plan::State ToProto(plan::PlanInfo::State state) {
  switch (state) {
    case plan::PlanInfo::State::kWhole:
      return v1::Plan::WHOLE;
    case plan::PlanInfo::State::kUnfinished:
      return v1::Plan::UNFINISHED;
    case plan::PlanInfo::State::kDamaged:
      return v1::Plan::DAMAGED;
  }
  return v1::Plan::STATE_UNSPECIFIED;
}

}  // namespace

v1::Plan ToProto(const plan::PlanInfo& info) {
  v1::Plan proto;
  proto.set_name(info.name);
  proto.set_strategy(info.strategy());
  proto.set_fingerprint(info.fingerprint());
  proto.set_state(ToProto(info.state));
  proto.set_in_use(info.in_use);
  proto.set_size_bytes(info.size_bytes);
  if (info.created != absl::InfinitePast()) {
    proto.mutable_create_time()->set_seconds(absl::ToUnixSeconds(info.created));
  }
  if (info.used != absl::InfinitePast()) {
    proto.mutable_use_time()->set_seconds(absl::ToUnixSeconds(info.used));
  }
  for (const auto& [name, value] : info.properties) {
    v1::PlanProperty& property = *proto.add_properties();
    property.set_name(name);
    property.set_value(value);
  }
  return proto;
}

namespace {

v1::StageReport ToProto(const pipeline::StageStats& stage) {
  v1::StageReport proto;
  proto.set_name(stage.name);
  proto.set_threads(static_cast<uint32_t>(stage.threads));
  proto.set_busy_seconds(stage.busy_seconds);
  proto.set_starved_seconds(stage.starved_seconds);
  proto.set_blocked_seconds(stage.blocked_seconds);
  return proto;
}

v1::ReadOverlap ToProto(const strategy::ReadOverlap& overlap) {
  v1::ReadOverlap proto;
  proto.set_storage_path(overlap.storage_path);
  proto.set_target_reads(static_cast<uint64_t>(overlap.target_reads));
  proto.set_depth(static_cast<uint64_t>(overlap.depth));
  if (overlap.batches > 0) {
    proto.set_mean_merged(static_cast<double>(overlap.merged) /
                          static_cast<double>(overlap.batches));
  }
  proto.set_held_by_merge_max(static_cast<uint64_t>(overlap.held_by_merge_max));
  proto.set_held_by_staging(static_cast<uint64_t>(overlap.held_by_staging));
  proto.set_bypassed_rows(static_cast<uint64_t>(overlap.bypassed));
  return proto;
}

template <typename Message>
void AddPhases(const std::vector<strategy::PhaseSeconds>& phases,
               Message& message) {
  for (const strategy::PhaseSeconds& phase : phases) {
    v1::PhaseSeconds& seconds = *message.add_phases();
    seconds.set_name(phase.name);
    seconds.set_seconds(phase.seconds);
  }
}

template <typename Message>
void AddMemory(const strategy::MemoryEstimate& estimate, Message& message) {
  for (const strategy::MemoryShare& share : estimate.shares) {
    v1::MemoryShare& memory = *message.add_memory();
    memory.set_owner(share.owner);
    memory.set_bytes(share.bytes);
    if (share.place.gpu.has_value()) {
      memory.set_device(train::DeviceName(share.place.gpu));
    }
  }
}

template <typename Message>
void AddCuts(absl::Span<const strategy::BudgetCut> cuts, Message& message) {
  for (const strategy::BudgetCut& cut : cuts) {
    v1::BudgetCut& proto = *message.add_cuts();
    proto.set_option(cut.option);
    proto.set_asked(cut.asked);
    proto.set_chosen(cut.chosen);
    proto.set_unit(std::string(strategy::Name(cut.unit)));
  }
}

// Adds the budgets that were cut, and the limit, to a report.
template <typename Report, typename Message>
void AddCuts(const Report& report, Message& message) {
  AddCuts(absl::MakeConstSpan(report.cuts), message);
  message.set_memory_limit_bytes(report.memory_limit_bytes);
}

v1::AutoChoice ToProto(const job::AutoChoice& choice) {
  v1::AutoChoice proto;
  proto.set_strategy(choice.strategy);
  proto.set_reason(choice.reason);
  proto.set_before(choice.before);
  for (const job::AutoCandidate& candidate : choice.candidates) {
    v1::AutoCandidate& one = *proto.add_candidates();
    one.set_strategy(candidate.strategy);
    one.set_refusal(candidate.refusal);
    one.set_seconds(candidate.seconds);
    one.set_prepare_seconds(candidate.prepare_seconds);
    one.set_first_epoch_seconds(candidate.first_epoch_seconds);
    one.set_epoch_seconds(candidate.epoch_seconds);
    one.set_bytes_read(candidate.bytes_read);
    one.set_disk_bytes(candidate.disk_bytes);
    one.set_plan_exists(candidate.plan_exists);
    one.set_memory_bytes(candidate.memory_bytes);
    one.set_cpu_cache_bytes(candidate.cpu_cache_bytes);
    one.set_io_depth(static_cast<uint32_t>(candidate.io_depth));
    one.set_first_epochs(candidate.first_epochs);
    AddCuts(absl::MakeConstSpan(candidate.cuts), one);
  }
  if (choice.processors == 0) return proto;
  v1::AutoRates& rates = *proto.mutable_rates();
  rates.set_read_bytes_per_second(choice.read_bytes_per_second);
  rates.set_write_bytes_per_second(choice.write_bytes_per_second);
  rates.set_reads_per_second(choice.reads_per_second);
  rates.set_sample_seconds(choice.sample_seconds);
  rates.set_step_seconds(choice.step_seconds);
  rates.set_processors(static_cast<uint32_t>(choice.processors));
  rates.set_sampled_batches(static_cast<uint64_t>(choice.sampled_batches));
  return proto;
}

// Adds the choice of the strategy, if there was one.
template <typename Report, typename Message>
void AddAutomatic(const Report& report, Message& message) {
  if (!report.automatic.has_value()) return;
  *message.mutable_auto_() = ToProto(*report.automatic);
}

// Fields that EpochReport and PassReport have in common.
template <typename Message>
void SetPass(const strategy::PassReport& pass, Message& message) {
  message.set_seconds(pass.seconds);
  message.set_batches(static_cast<uint64_t>(pass.batches));
  message.set_rows_needed(static_cast<uint64_t>(pass.rows_needed));
  if (pass.seeds > 0) {
    message.set_redundancy_ratio(static_cast<double>(pass.rows_needed) /
                                 static_cast<double>(pass.seeds));
  }
  if (pass.pulled + pass.pushed > 0) {
    v1::HistoryUse& history = *message.mutable_history();
    history.set_pulled(static_cast<uint64_t>(pass.pulled));
    history.set_pushed(static_cast<uint64_t>(pass.pushed));
    if (pass.pulled > 0) {
      history.set_mean_age(static_cast<double>(pass.sum_of_ages) /
                           static_cast<double>(pass.pulled));
    }
  }
  message.set_bytes_needed(static_cast<uint64_t>(pass.bytes_needed));
  if (pass.bytes_read.has_value()) {
    message.set_bytes_read(static_cast<uint64_t>(*pass.bytes_read));
  }
  if (pass.read_ops.has_value()) {
    message.set_read_ops(static_cast<uint64_t>(*pass.read_ops));
  }
  if (pass.io_wait_seconds.has_value()) {
    message.set_io_wait_seconds(*pass.io_wait_seconds);
  }
  if (pass.rows_read.has_value()) {
    message.set_rows_read(static_cast<uint64_t>(*pass.rows_read));
  }
  for (const strategy::LevelHits& hits : pass.hits) {
    v1::LevelHits& level = *message.add_hits();
    level.set_level(hits.level);
    level.set_rows(static_cast<uint64_t>(hits.rows));
  }
  for (const strategy::ListHits& hits : pass.list_hits) {
    v1::ListHits& level = *message.add_list_hits();
    level.set_level(hits.level);
    level.set_lists(static_cast<uint64_t>(hits.lists));
  }
  if (pass.lists_read.has_value()) {
    message.set_lists_read(static_cast<uint64_t>(*pass.lists_read));
  }
  if (pass.overlap.has_value()) {
    *message.mutable_overlap() = ToProto(*pass.overlap);
  }
  AddPhases(pass.phases, message);
  for (const pipeline::StageStats& stage : pass.stages) {
    *message.add_stages() = ToProto(stage);
  }
}

v1::LocalityChoice ToProto(const job::LocalityChoice& choice) {
  v1::LocalityChoice proto;
  proto.set_parts(static_cast<uint64_t>(choice.parts));
  proto.set_macro_batch_parts(static_cast<uint64_t>(choice.macro_batch_parts));
  proto.set_label_distance(choice.label_distance);
  proto.set_shuffled_label_distance(choice.shuffled_label_distance);
  proto.set_reverted(choice.reverted);
  if (!choice.valid_metric.has_value()) return proto;
  proto.set_valid_metric(*choice.valid_metric);
  proto.set_shuffled_valid_metric(choice.shuffled_valid_metric.value_or(0));
  proto.set_rows_needed(static_cast<uint64_t>(choice.rows_needed));
  proto.set_shuffled_rows_needed(
      static_cast<uint64_t>(choice.shuffled_rows_needed));
  return proto;
}

v1::HistoryChoice ToProto(const job::HistoryChoice& choice) {
  v1::HistoryChoice proto;
  proto.set_embeddings(static_cast<uint64_t>(choice.embeddings));
  proto.set_bytes(choice.bytes);
  proto.set_staleness(static_cast<uint64_t>(choice.staleness));
  if (choice.share.has_value()) proto.set_share(*choice.share);
  proto.set_sample_weight(choice.sample_weight);
  proto.set_redundancy_ratio(choice.redundancy);
  proto.set_shuffled_redundancy_ratio(choice.shuffled_redundancy);
  proto.set_profile(choice.profile);
  return proto;
}

uint64_t Rows(const store::ArrayFile& array) {
  return array.shape.empty() ? 0 : static_cast<uint64_t>(array.shape[0]);
}

uint64_t FeatureDim(const store::NodeTypeEntry& nodes) {
  return nodes.features.shape.size() < 2
             ? 0
             : static_cast<uint64_t>(nodes.features.shape[1]);
}

v1::LabelKind ToProto(store::LabelKind kind) {
  switch (kind) {
    case store::LabelKind::kClasses:
      return v1::CLASSES;
    case store::LabelKind::kMultiLabel:
      return v1::MULTI_LABEL;
    case store::LabelKind::kTargets:
      return v1::TARGETS;
  }
  return v1::LABEL_KIND_UNSPECIFIED;
}

v1::NodeType ToProto(const store::NodeTypeEntry& nodes) {
  v1::NodeType proto;
  proto.set_name(nodes.name);
  proto.set_num_nodes(static_cast<uint64_t>(nodes.num_nodes));
  if (!nodes.features.path.empty()) {
    proto.set_feature_dim(FeatureDim(nodes));
    proto.set_feature_dtype(store::Name(nodes.features.dtype));
    if (nodes.features.in_place) proto.set_feature_path(nodes.features.path);
    if (nodes.features.rows.has_value()) {
      v1::RowRange& rows = *proto.mutable_feature_rows();
      rows.set_first(static_cast<uint64_t>(nodes.features.rows->first));
      rows.set_end(static_cast<uint64_t>(nodes.features.rows->end));
      rows.set_all(static_cast<uint64_t>(nodes.num_nodes));
    }
  }
  if (nodes.label_width > 0) proto.set_label_kind(ToProto(nodes.label_kind));
  proto.set_label_width(static_cast<uint64_t>(nodes.label_width));
  proto.set_num_train(Rows(nodes.train));
  proto.set_num_valid(Rows(nodes.valid));
  proto.set_num_test(Rows(nodes.test));
  return proto;
}

v1::EdgeType ToProto(const store::EdgeTypeEntry& edges) {
  v1::EdgeType proto;
  proto.set_name(edges.name);
  proto.set_source_type(edges.source_type);
  proto.set_destination_type(edges.destination_type);
  proto.set_num_edges(static_cast<uint64_t>(edges.num_edges));
  return proto;
}

v1::FeatureStatistics ToProto(const ingest::FeatureStatistics& features) {
  v1::FeatureStatistics proto;
  proto.set_min(features.min);
  proto.set_max(features.max);
  proto.set_mean(features.mean);
  proto.set_standard_deviation(features.standard_deviation);
  proto.set_num_non_finite(features.num_non_finite);
  proto.set_num_zeros(features.num_zeros);
  proto.mutable_constant_columns()->Add(features.constant_columns.begin(),
                                        features.constant_columns.end());
  proto.set_num_zero_rows(features.num_zero_rows);
  return proto;
}

v1::NodeStatistics ToProto(const ingest::NodeStatistics& nodes) {
  v1::NodeStatistics proto;
  proto.set_num_isolated(nodes.num_isolated.value_or(0));
  proto.set_num_unlabeled(nodes.num_unlabeled);
  proto.mutable_class_counts()->Add(nodes.class_counts.begin(),
                                    nodes.class_counts.end());
  if (nodes.features.has_value()) {
    *proto.mutable_features() = ToProto(*nodes.features);
  }
  return proto;
}

v1::EdgeStatistics ToProto(const ingest::EdgeStatistics& edges) {
  v1::EdgeStatistics proto;
  proto.set_mean_in_degree(edges.mean_in_degree);
  proto.set_median_in_degree(edges.median_in_degree);
  proto.set_percentile_99_in_degree(edges.percentile_99_in_degree);
  proto.set_max_in_degree(edges.max_in_degree);
  proto.set_num_without_in_edges(edges.num_without_in_edges);
  proto.set_num_without_out_edges(edges.num_without_out_edges.value_or(0));
  proto.set_num_self_loops(edges.num_self_loops);
  if (edges.homophily.has_value()) proto.set_homophily(*edges.homophily);
  return proto;
}

v1::ExactEpoch ToProto(const job::ExactEpoch& epoch) {
  v1::ExactEpoch proto;
  proto.set_loss(epoch.loss);
  if (epoch.valid_metric.has_value()) {
    proto.set_valid_metric(*epoch.valid_metric);
  }
  proto.set_seconds(epoch.seconds);
  proto.set_rows_needed(static_cast<uint64_t>(epoch.rows_needed));
  return proto;
}

v1::PreparationReport ToProto(const strategy::PreparationReport& report) {
  v1::PreparationReport proto;
  proto.set_plan(report.plan);
  proto.set_reused(report.reused);
  proto.set_seconds(report.seconds);
  AddPhases(report.phases, proto);
  proto.set_disk_bytes(report.disk_bytes);
  proto.set_reason(report.reason);
  if (report.to_make.has_value()) {
    v1::PiecesToMake& to_make = *proto.mutable_to_make();
    to_make.set_plan(report.to_make->plan);
    to_make.set_pieces(static_cast<uint32_t>(report.to_make->pieces));
    to_make.set_missing(static_cast<uint32_t>(report.to_make->missing));
    to_make.set_fault(report.to_make->fault);
  }
  return proto;
}

v1::Company ToProto(const job::Peers& peers) {
  v1::Company proto;
  proto.mutable_jobs()->Assign(peers.jobs.begin(), peers.jobs.end());
  proto.set_bytes_alone(static_cast<uint64_t>(peers.bytes_alone));
  proto.set_bytes_charged(static_cast<uint64_t>(peers.bytes_charged));
  return proto;
}

template <typename Message>
void AddPreparations(const job::TrainReport& report, Message& message) {
  for (const job::PeriodPreparation& period : report.preparations) {
    v1::PreparationReport& preparation = *message.add_preparations();
    preparation = ToProto(period.preparation);
    preparation.set_first_epoch(period.first_epoch);
  }
}

}  // namespace

v1::EpochReport ToProto(const job::EpochReport& report) {
  v1::EpochReport proto;
  proto.set_epoch(report.epoch);
  proto.set_loss(report.loss);
  proto.set_metric(train::Name(report.metric));
  if (report.valid_metric.has_value()) {
    proto.set_valid_metric(*report.valid_metric);
  }
  SetPass(report.training, proto);
  SetPass(report.validation, *proto.mutable_validation());
  if (report.exact.has_value()) {
    *proto.mutable_without_history() = ToProto(*report.exact);
  }
  return proto;
}

v1::TrainReport ToProto(const job::TrainReport& report) {
  v1::TrainReport proto;
  proto.set_metric(train::Name(report.metric));
  if (report.test_metric.has_value())
    proto.set_test_metric(*report.test_metric);
  SetPass(report.test, *proto.mutable_test());
  proto.set_peak_memory_bytes(report.peak_memory_bytes);
  proto.set_loss_digest(report.loss_digest);
  proto.set_kept_epoch(report.kept_epoch);
  proto.set_model_path(report.model_path);
  proto.set_resumes(report.resumes);
  proto.set_memory_bound_bytes(report.memory_bound_bytes);
  AddMemory(report.memory, proto);
  AddCuts(report, proto);
  if (report.first_batch_seconds.has_value()) {
    proto.set_first_batch_seconds(*report.first_batch_seconds);
  }
  proto.set_warm_start(report.warm_start);
  for (const std::string& part : report.verified_once) {
    proto.add_verified_once(part);
  }
  AddPreparations(report, proto);
  if (report.partition.has_value()) {
    *proto.mutable_partition() = ToProto(*report.partition);
  }
  for (const job::MachineChange& change : report.machine_changes) {
    v1::MachineChange& one = *proto.add_machine_changes();
    one.set_epoch(static_cast<uint32_t>(change.epoch + 1));
    one.set_batch(static_cast<uint64_t>(change.batch));
    one.set_machines(static_cast<uint32_t>(change.machines));
  }
  proto.set_exact(report.exact);
  proto.set_row_dtype(report.row_dtype);
  proto.set_precision(std::string(train::Name(report.precision)));
  proto.set_device(train::DeviceName(report.gpu));
  if (!report.peers.jobs.empty()) {
    *proto.mutable_company() = ToProto(report.peers);
  }
  if (report.history.has_value()) {
    *proto.mutable_history() = ToProto(*report.history);
  }
  if (report.locality.has_value()) {
    *proto.mutable_locality() = ToProto(*report.locality);
  }
  AddAutomatic(report, proto);
  return proto;
}

v1::EvaluateReport ToEvaluateReport(const job::TrainReport& report) {
  v1::EvaluateReport proto;
  proto.set_metric(train::Name(report.metric));
  if (report.test_metric.has_value()) {
    proto.set_test_metric(*report.test_metric);
  }
  SetPass(report.test, *proto.mutable_test());
  proto.set_kept_epoch(report.kept_epoch);
  proto.set_peak_memory_bytes(report.peak_memory_bytes);
  proto.set_memory_bound_bytes(report.memory_bound_bytes);
  AddMemory(report.memory, proto);
  AddCuts(report, proto);
  proto.set_warm_start(report.warm_start);
  if (!report.peers.jobs.empty()) {
    *proto.mutable_company() = ToProto(report.peers);
  }
  return proto;
}

void SetUse(absl::Span<const std::shared_ptr<feed::Channel>> channels,
            v1::FeedReport& proto) {
  const auto set = [&](feed::Split split, v1::FeedReport::Passes& passes) {
    const feed::PassSum sum = channels.front()->passes(split);
    passes.set_passes(static_cast<uint64_t>(sum.passes));
    SetPass(sum.sum, *passes.mutable_sum());
  };
  set(feed::Split::kTrain, *proto.mutable_train());
  set(feed::Split::kValid, *proto.mutable_valid());
  set(feed::Split::kTest, *proto.mutable_test());
  feed::ClientSeconds sum;
  for (const std::shared_ptr<feed::Channel>& channel : channels) {
    const feed::ClientSeconds seconds = channel->seconds();
    sum.wait += seconds.wait;
    sum.script += seconds.script;
    sum.copies += seconds.copies;
  }
  proto.set_wait_seconds(sum.wait);
  proto.set_script_seconds(sum.script);
  proto.set_copied_batches(static_cast<uint64_t>(sum.copies));
}

v1::FeedReport ToFeedReport(
    const job::TrainReport& report,
    absl::Span<const std::shared_ptr<feed::Channel>> channels) {
  v1::FeedReport proto;
  SetUse(channels, proto);
  proto.set_peak_memory_bytes(report.peak_memory_bytes);
  proto.set_memory_bound_bytes(report.memory_bound_bytes);
  AddMemory(report.memory, proto);
  AddCuts(report, proto);
  proto.set_warm_start(report.warm_start);
  AddPreparations(report, proto);
  AddAutomatic(report, proto);
  if (!report.peers.jobs.empty()) {
    *proto.mutable_company() = ToProto(report.peers);
  }
  return proto;
}

v1::PrepareReport ToProto(const job::PrepareReport& report) {
  v1::PrepareReport proto;
  if (report.preparation.has_value()) {
    *proto.mutable_preparation() = ToProto(*report.preparation);
    proto.mutable_preparation()->set_first_epoch(1);
  }
  if (report.partition.has_value()) {
    *proto.mutable_partition() = ToProto(*report.partition);
  }
  proto.set_peak_memory_bytes(report.peak_memory_bytes);
  proto.set_memory_bound_bytes(report.memory_bound_bytes);
  AddMemory(report.memory, proto);
  AddCuts(report, proto);
  return proto;
}

v1::ExplainReport ToProto(const job::ExplainReport& report) {
  v1::ExplainReport proto;
  AddMemory(report.memory, proto);
  AddCuts(report, proto);
  proto.set_memory_bytes(report.memory_bytes);
  proto.set_batches(report.batches);
  proto.set_rows_needed(report.rows_needed);
  proto.set_bytes_needed(report.bytes_needed);
  for (const strategy::LevelForecast& level : report.levels) {
    v1::LevelForecast& forecast = *proto.add_levels();
    forecast.set_level(level.level);
    forecast.set_rows(level.rows);
    forecast.set_bytes(level.bytes);
  }
  if (report.bytes_read) proto.set_bytes_read(*report.bytes_read);
  if (report.read_ops) proto.set_read_ops(*report.read_ops);
  if (report.disk_bytes) proto.set_disk_bytes(*report.disk_bytes);
  if (report.prepare_seconds) {
    proto.set_prepare_seconds(*report.prepare_seconds);
  }
  if (report.epoch_seconds) proto.set_epoch_seconds(*report.epoch_seconds);
  proto.set_plan(report.plan);
  proto.set_plan_exists(report.plan_exists);
  proto.set_sampled_batches(report.sampled_batches);
  proto.set_total_batches(report.total_batches);
  proto.mutable_notes()->Add(report.notes.begin(), report.notes.end());
  if (report.history.has_value()) {
    *proto.mutable_history() = ToProto(*report.history);
  }
  if (report.locality.has_value()) {
    *proto.mutable_locality() = ToProto(*report.locality);
  }
  if (report.first_epoch_seconds) {
    proto.set_first_epoch_seconds(*report.first_epoch_seconds);
  }
  AddAutomatic(report, proto);
  return proto;
}

v1::Progress ToProto(const job::Progress& progress) {
  v1::Progress proto;
  proto.set_phase(progress.phase);
  proto.set_done(progress.done);
  proto.set_total(progress.total);
  proto.set_epoch(progress.epoch);
  proto.set_epochs(progress.epochs);
  if (progress.loss.has_value()) proto.set_loss(*progress.loss);
  return proto;
}

v1::LogLine::Severity ToProto(job::Severity severity) {
  switch (severity) {
    case job::Severity::kInfo:
      return v1::LogLine::INFO;
    case job::Severity::kWarning:
      return v1::LogLine::WARNING;
    case job::Severity::kError:
      return v1::LogLine::ERROR;
  }
  return v1::LogLine::SEVERITY_UNSPECIFIED;
}

v1::ImportReport ToImportReport(const store::Manifest& manifest,
                                uint64_t bytes_written, double seconds) {
  v1::ImportReport proto;
  for (const store::NodeTypeEntry& nodes : manifest.node_types) {
    proto.set_num_nodes(proto.num_nodes() +
                        static_cast<uint64_t>(nodes.num_nodes));
    proto.set_feature_dim(FeatureDim(nodes));
    if (nodes.label_width == 0) continue;
    proto.set_label_kind(ToProto(nodes.label_kind));
    proto.set_label_width(static_cast<uint64_t>(nodes.label_width));
  }
  for (const store::EdgeTypeEntry& edges : manifest.edge_types) {
    proto.set_num_edges(proto.num_edges() +
                        static_cast<uint64_t>(edges.num_edges));
  }
  proto.set_bytes_written(bytes_written);
  proto.set_seconds(seconds);
  return proto;
}

v1::Dataset ToDataset(const store::Manifest& manifest) {
  v1::Dataset proto;
  proto.set_name(manifest.name);
  proto.set_fingerprint(manifest.fingerprint);
  for (const store::NodeTypeEntry& nodes : manifest.node_types) {
    *proto.add_node_types() = ToProto(nodes);
  }
  for (const store::EdgeTypeEntry& edges : manifest.edge_types) {
    *proto.add_edge_types() = ToProto(edges);
  }
  proto.mutable_create_time()->set_seconds(manifest.created_unix_seconds);
  proto.set_size_bytes(manifest.SizeBytes());
  proto.mutable_transforms()->Add(manifest.transforms.begin(),
                                  manifest.transforms.end());
  return proto;
}

void AddStatistics(const ingest::DatasetStatistics& statistics,
                   v1::Dataset& dataset) {
  for (v1::NodeType& nodes : *dataset.mutable_node_types()) {
    for (const ingest::NodeStatistics& known : statistics.nodes) {
      if (known.type == nodes.name()) {
        *nodes.mutable_statistics() = ToProto(known);
      }
    }
  }
  for (v1::EdgeType& edges : *dataset.mutable_edge_types()) {
    for (const ingest::EdgeStatistics& known : statistics.edges) {
      if (known.type == edges.name()) {
        *edges.mutable_statistics() = ToProto(known);
      }
    }
  }
  dataset.mutable_warnings()->Add(statistics.warnings.begin(),
                                  statistics.warnings.end());
  dataset.mutable_warnings()->Add(statistics.notes.begin(),
                                  statistics.notes.end());
}

}  // namespace hearth::server
