#include "server/sweeps/data_order.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "server/mapping/spec_mapping.h"

namespace hearth::server {
namespace {

// Other data that jobs have trained on since, after which a job's rows are
// taken to be cold.
constexpr size_t kWarmData = 8;
// The distance of data with one more layer, and a fan-out of all neighbors.
constexpr double kLayerDistance = 100;
constexpr double kAllNeighbors = 1000;

// Work that jobs have left on some data.
struct Known {
  // The number of other data that jobs have trained on since.
  size_t age = 0;
  bool has_plans = false;
};

// The data that a job has trained on, or prepared; empty of other jobs.
std::string DataOf(const v1::JobSpec& spec) {
  if (spec.has_train()) return ConvoyOf(spec.train());
  if (!spec.has_prepare()) return "";
  v1::TrainJobSpec train;
  *train.mutable_data() = spec.prepare().data();
  *train.mutable_pipeline() = spec.prepare().pipeline();
  v1::TrainSpec& model = *train.add_trains();
  if (spec.prepare().training_only()) model.mutable_none();
  return ConvoyOf(train);
}

// Whether the job has made plans, or found them, and all are still there.
bool HasPlans(const v1::JobReport& report,
              absl::FunctionRef<bool(const std::string& plan)> has_plan) {
  std::set<std::string> plans;
  for (const auto& preparation : report.train().preparations()) {
    plans.insert(preparation.plan());
  }
  if (report.prepare().has_preparation()) {
    plans.insert(report.prepare().preparation().plan());
  }
  plans.erase("");
  return !plans.empty() && std::all_of(plans.begin(), plans.end(), has_plan);
}

// Sizes that decide how much a batch reads: of the batch, then of each layer.
std::vector<double> SizesOf(const v1::DataSpec& data) {
  std::vector<double> sizes = {static_cast<double>(data.batch_size())};
  for (const int32_t fanout : data.neighbor().fanouts()) {
    sizes.push_back(fanout < 0 ? kAllNeighbors : fanout);
  }
  for (const uint32_t nodes : data.ladies().layer_nodes()) {
    sizes.push_back(nodes);
  }
  return sizes;
}

double Distance(const v1::DataSpec& one, const v1::DataSpec& other) {
  const std::vector<double> a = SizesOf(one);
  const std::vector<double> b = SizesOf(other);
  double distance = kLayerDistance * std::abs(static_cast<double>(a.size()) -
                                              static_cast<double>(b.size()));
  for (size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
    distance += std::abs(std::log1p(a[i]) - std::log1p(b[i]));
  }
  return distance;
}

std::map<std::string, Known> KnownData(
    absl::Span<const v1::Job> jobs,
    absl::FunctionRef<bool(const std::string& plan)> has_plan) {
  std::map<std::string, Known> known;
  for (const v1::Job& job : jobs) {
    const std::string data = DataOf(job.spec());
    if (data.empty()) continue;
    const size_t age = known.size();
    Known& of_data = known.try_emplace(data, Known{.age = age}).first->second;
    of_data.has_plans = of_data.has_plans || HasPlans(job.report(), has_plan);
  }
  return known;
}

}  // namespace

std::vector<uint32_t> OrderOfData(
    absl::Span<const v1::TrainJobSpec> data, absl::Span<const v1::Job> jobs,
    absl::FunctionRef<bool(const std::string& plan)> has_plan) {
  const std::map<std::string, Known> known = KnownData(jobs, has_plan);
  // In each group by number, so that a sweep that is repeated has the same
  // order.
  std::vector<uint32_t> order;
  std::vector<uint32_t> warm;
  std::set<uint32_t> others;
  for (uint32_t i = 0; i < data.size(); ++i) {
    const auto found = known.find(ConvoyOf(data[i]));
    if (found != known.end() && found->second.has_plans) {
      order.push_back(i);
    } else if (found != known.end() && found->second.age < kWarmData) {
      warm.push_back(i);
    } else {
      others.insert(i);
    }
  }
  order.insert(order.end(), warm.begin(), warm.end());
  if (order.empty() && !others.empty()) {
    order.push_back(*others.begin());
    others.erase(others.begin());
  }
  while (!others.empty()) {
    const v1::DataSpec& last = data[order.back()].data();
    const auto nearest = std::min_element(
        others.begin(), others.end(), [&](uint32_t a, uint32_t b) {
          return Distance(data[a].data(), last) <
                 Distance(data[b].data(), last);
        });
    order.push_back(*nearest);
    others.erase(nearest);
  }
  return order;
}

}  // namespace hearth::server
