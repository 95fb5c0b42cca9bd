#include "engine/strategy/superbatch/runtime_files.h"

#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "engine/base/status.h"
#include "engine/sample/mini_batch.h"
#include "engine/store/topology.h"
#include "engine/strategy/sampling.h"

namespace hearth::strategy {

absl::StatusOr<SuperbatchData> SuperbatchData::Open(
    const store::Dataset& dataset,
    std::shared_ptr<const io::RowCheck> row_check,
    const std::stop_token& stop) {
  HEARTH_ASSIGN_OR_RETURN(store::Labels labels, dataset.LoadLabels());
  HEARTH_ASSIGN_OR_RETURN(store::StoredFeatures features,
                          dataset.OpenFeatures({}));
  HEARTH_ASSIGN_OR_RETURN(store::StoredTopology topology,
                          dataset.OpenTopology({}, stop));
  return SuperbatchData{.labels = std::move(labels),
                        .topology = std::move(topology),
                        .features = std::move(features),
                        .row_check = std::move(row_check)};
}

class RuntimeFiles::SampleTrace final : public plan::AccessTrace {
 public:
  SampleTrace(const RuntimeFiles& files, const Superbatch& superbatch)
      : files_(files), superbatch_(superbatch) {}

  int64_t num_batches() const override { return superbatch_.count; }

  absl::StatusOr<absl::Span<const store::NodeId>> Load(int64_t batch) override {
    const int64_t number = superbatch_.first + batch;
    HEARTH_RETURN_IF_ERROR(
        sample::ReadSampleNodes(files_.files_, files_.SamplePath(number),
                                KeyOfShard(files_.pass_, number), nodes_));
    return absl::MakeConstSpan(nodes_);
  }

 private:
  const RuntimeFiles& files_;
  const Superbatch superbatch_;
  std::vector<store::NodeId> nodes_;
};

RuntimeFiles::RuntimeFiles(io::FileSystem& files, std::string folder,
                           const Pass& pass)
    : files_(files), folder_(std::move(folder)), pass_(pass) {}

absl::StatusOr<std::unique_ptr<RuntimeFiles>> RuntimeFiles::Create(
    io::FileSystem& files, std::string folder, const Pass& pass) {
  HEARTH_RETURN_IF_ERROR(files.RemoveTree(folder));
  HEARTH_RETURN_IF_ERROR(files.CreateDirectory(folder));
  return std::unique_ptr<RuntimeFiles>(
      new RuntimeFiles(files, std::move(folder), pass));
}

RuntimeFiles::~RuntimeFiles() {
  // The next pass removes leftovers, and reports an error if it cannot.
  files_.RemoveTree(folder_).IgnoreError();
}

std::string RuntimeFiles::SamplePath(int64_t number) const {
  return io::JoinPath(folder_, absl::StrCat("sample.", number));
}

absl::StatusOr<uint64_t> RuntimeFiles::WriteSample(
    int64_t number, const sample::MiniBatch& sample) {
  return sample::WriteSample(files_, SamplePath(number), sample);
}

absl::StatusOr<sample::MiniBatch> RuntimeFiles::TakeSample(int64_t number) {
  const std::string path = SamplePath(number);
  HEARTH_ASSIGN_OR_RETURN(
      sample::MiniBatch sampled,
      sample::ReadSample(files_, path, KeyOfShard(pass_, number)));
  HEARTH_RETURN_IF_ERROR(files_.RemoveTree(path));
  return sampled;
}

std::unique_ptr<plan::AccessTrace> RuntimeFiles::NewTrace(
    const Superbatch& superbatch) {
  return std::make_unique<SampleTrace>(*this, superbatch);
}

std::string RuntimeFiles::PlanPath(const Superbatch& superbatch) const {
  return io::JoinPath(folder_, absl::StrCat("plan.", superbatch.first));
}

absl::Status RuntimeFiles::RemovePlan(const Superbatch& superbatch) {
  return files_.RemoveTree(PlanPath(superbatch));
}

}  // namespace hearth::strategy
