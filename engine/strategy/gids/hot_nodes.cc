#include "engine/strategy/gids/hot_nodes.h"

#include <algorithm>
#include <cstddef>
#include <map>
#include <memory>
#include <numeric>
#include <optional>
#include <utility>
#include <variant>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "engine/base/random.h"
#include "engine/base/sha256.h"
#include "engine/base/status.h"
#include "engine/plan/plan_store.h"
#include "engine/sample/mini_batch.h"
#include "engine/store/graph.h"
#include "engine/store/node_columns.h"
#include "engine/store/npy.h"
#include "engine/store/topology.h"
#include "engine/strategy/sampling.h"

namespace hearth::strategy {

namespace {

using store::NodeId;

constexpr store::NodeColumnsKind kKind = {.name = "list of node scores"};

absl::Status CheckStop(const std::stop_token& stop) {
  if (!stop.stop_requested()) return absl::OkStatus();
  return absl::CancelledError("ranking nodes: stopped on request");
}

}  // namespace

std::vector<NodeId> HottestNodes(const NodeScores& scores, int64_t count) {
  std::vector<NodeId> nodes(scores.size());
  std::iota(nodes.begin(), nodes.end(), 0);
  if (count < static_cast<int64_t>(nodes.size())) {
    const auto end = nodes.begin() + std::max<int64_t>(count, 0);
    std::nth_element(nodes.begin(), end, nodes.end(), [&](NodeId a, NodeId b) {
      return scores[a] != scores[b] ? scores[a] > scores[b] : a < b;
    });
    nodes.erase(end, nodes.end());
    nodes.shrink_to_fit();
    std::sort(nodes.begin(), nodes.end());
  }
  return nodes;
}

uint64_t NodeScoresFileBytes(int64_t num_nodes) {
  return store::NodeColumnsBytes(kKind, num_nodes);
}

absl::Status WriteNodeScores(io::FileSystem& files, const std::string& path,
                             const NodeScores& scores) {
  return store::WriteNodeColumns(files, path, kKind, /*scalars=*/{}, {scores});
}

absl::StatusOr<NodeScores> ReadNodeScores(io::FileSystem& files,
                                          const std::string& path,
                                          int64_t num_nodes) {
  HEARTH_ASSIGN_OR_RETURN(
      store::NodeColumns read,
      store::ReadNodeColumns(files, path, kKind, num_nodes));
  return std::move(read.columns[0]);
}

namespace {

// Nodes between two checks for a stop.
constexpr NodeId kNodesPerCheck = 1 << 16;

// next(u) += share / deg_in(v) for each in-neighbor u of v, a destination of
// the relation.
void Spread(const store::Relation& relation, NodeId v, double share,
            std::vector<double>& next) {
  const store::Topology& topology = relation.topology;
  share /= static_cast<double>(topology.InDegree(v));
  std::visit(
      [&](const auto indices) {
        for (int64_t edge = topology.indptr[v]; edge < topology.indptr[v + 1];
             ++edge) {
          next[static_cast<size_t>(relation.first_source + indices[edge])] +=
              share;
        }
      },
      topology.indices);
}

// Neighbors of `v` along the relation that a batch draws, over all layers.
double Drawn(const store::Relation& relation, NodeId v,
             const sample::NeighborSamplerOptions& sampler) {
  const int64_t degree = relation.topology.InDegree(v);
  int64_t drawn = 0;
  for (size_t layer = 0; layer < sampler.fanouts.size(); ++layer) {
    const int32_t fanout = sampler.Fanout(layer, relation.type);
    drawn += fanout < 0 ? degree : std::min<int64_t>(fanout, degree);
  }
  return static_cast<double>(drawn);
}

// Spreads the scores of all nodes of one type, to which `relations` lead: each
// node splits `damping` of its score over the relations as sampling splits its
// neighbors.
absl::Status SpreadAll(absl::Span<const store::Relation* const> relations,
                       const ReversePageRankOptions& options,
                       const std::vector<double>& scores,
                       std::vector<double>& next, const std::stop_token& stop) {
  const int64_t num_nodes = relations.front()->topology.num_nodes();
  const NodeId first = relations.front()->first_destination;
  for (NodeId v = 0; v < num_nodes; ++v) {
    if (v % kNodesPerCheck == 0) HEARTH_RETURN_IF_ERROR(CheckStop(stop));
    const double score = scores[static_cast<size_t>(first + v)];
    if (score == 0) continue;
    if (relations.size() == 1) {
      if (relations[0]->topology.InDegree(v) == 0) continue;
      Spread(*relations[0], v, options.damping * score, next);
      continue;
    }
    double all = 0;
    for (const store::Relation* const relation : relations) {
      all += Drawn(*relation, v, options.sampler);
    }
    for (const store::Relation* const relation : relations) {
      const double drawn = Drawn(*relation, v, options.sampler);
      if (drawn == 0) continue;
      Spread(*relation, v, options.damping * score * drawn / all, next);
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::vector<double>> ReversePageRank(
    const store::LoadedTopology& topology, absl::Span<const NodeId> training,
    const ReversePageRankOptions& options, std::stop_token stop) {
  std::map<NodeId, std::vector<const store::Relation*>> by_destination;
  for (const store::Relation& relation : topology.relations()) {
    if (relation.topology.num_nodes() == 0) continue;
    by_destination[relation.first_destination].push_back(&relation);
  }
  std::vector<double> scores(static_cast<size_t>(topology.nodes().num_nodes()));
  const double start =
      training.empty() ? 0 : 1 / static_cast<double>(training.size());
  for (const NodeId node : training) scores[node] += start;
  std::vector<double> next(scores.size());
  for (int i = 0; i < options.iterations; ++i) {
    std::fill(next.begin(), next.end(), 0);
    for (const NodeId node : training) {
      next[node] += (1 - options.damping) * start;
    }
    for (const auto& [first, relations] : by_destination) {
      HEARTH_RETURN_IF_ERROR(SpreadAll(relations, options, scores, next, stop));
    }
    // The topology's error names the file that could not be read.
    HEARTH_RETURN_IF_ERROR(topology.status());
    std::swap(scores, next);
    if (options.progress) {
      options.progress(static_cast<uint64_t>(i) + 1,
                       static_cast<uint64_t>(options.iterations));
    }
  }
  return scores;
}

namespace {

// The version of how scores are made; the file's format has a version of its
// own.
constexpr char kFormat[] = "hearth gids 1";
constexpr char kFile[] = "scores";
// The key of the epoch whose batches are counted, and whose seeds are taken as
// the training nodes.
constexpr uint64_t kRankedEpoch = 0;
// Indices of a hot_file that are read at a time.
constexpr int64_t kIndicesAtOnce = 1 << 16;

std::vector<NodeId> AllNodes(int64_t num_nodes) {
  std::vector<NodeId> nodes(static_cast<size_t>(num_nodes));
  std::iota(nodes.begin(), nodes.end(), 0);
  return nodes;
}

// Ranks the nodes of a job.
class Ranking {
 public:
  Ranking(const RankingContext& context, const GidsOptions& options,
          const Pass& training)
      : context_(context),
        options_(options),
        training_(training),
        num_nodes_(store::NodeSpace(context.dataset.manifest()).num_nodes()) {}

  int64_t num_nodes() const { return num_nodes_; }

  // The scores from the plan store, or new ones.
  absl::StatusOr<NodeScores> KeptScores(PreparationReport& report) {
    const double start = context_.clock.SteadySeconds();
    report.plan = PlanName();
    HEARTH_ASSIGN_OR_RETURN(NodeScores scores,
                            context_.keeps ? FindOrMake(report) : Find(report));
    report.seconds = context_.clock.SteadySeconds() - start;
    report.disk_bytes =
        NodeScoresFileBytes(num_nodes_) + plan::PlanStore::kRecordBytes;
    report.reason = absl::StrCat("nodes ranked by ", Name(options_.hot),
                                 report.reused ? ", as found" : "");
    return scores;
  }

  NodeScores RandomScores() const {
    NodeScores scores(static_cast<size_t>(num_nodes_));
    RandomStream random(training_.sampler.data_seed, RandomPurpose::kEviction,
                        /*a=*/0, /*b=*/0, /*c=*/1);
    for (float& score : scores) score = random.UniformFloat();
    return scores;
  }

 private:
  std::string PlanName() const {
    Sha256 hash;
    hash.Update(absl::StrCat(
        kFormat, ";",
        HotNodesKey(options_, training_, context_.dataset.manifest())));
    return plan::PlanName("gids", context_.dataset.manifest().fingerprint,
                          hash.HexDigest().substr(0, 32));
  }

  absl::StatusOr<NodeScores> Read(const std::string& folder) const {
    return ReadNodeScores(context_.files, io::JoinPath(folder, kFile),
                          num_nodes_);
  }

  // Finds the scores, or makes them without writing a file.
  absl::StatusOr<NodeScores> Find(PreparationReport& report) {
    absl::StatusOr<NodeScores> scores =
        Read(io::JoinPath(context_.plans.options().folder, report.plan));
    report.reused = scores.ok();
    return report.reused ? std::move(scores) : MakeScores();
  }

  absl::StatusOr<NodeScores> FindOrMake(PreparationReport& report) {
    HEARTH_ASSIGN_OR_RETURN(plan::PlanLease lease,
                            context_.plans.Take(report.plan, context_.stop));
    absl::StatusOr<NodeScores> scores = Read(lease.folder());
    report.reused = scores.ok() && lease.records().ReadAbout().ok();
    if (!report.reused) {
      const absl::Status& why = scores.status();
      if (absl::IsDataLoss(why) || absl::IsFailedPrecondition(why)) {
        Log(absl::StrCat("plan ", report.plan,
                         " is made again: ", why.message()));
      } else if (!why.ok() && !absl::IsNotFound(why)) {
        return why;
      }
      scores = NodeScores();
      HEARTH_RETURN_IF_ERROR(lease.Clear());
      HEARTH_RETURN_IF_ERROR(lease.MakeRoom(NodeScoresFileBytes(num_nodes_) +
                                            plan::PlanStore::kRecordBytes));
      HEARTH_ASSIGN_OR_RETURN(scores, MakeScores());
      HEARTH_RETURN_IF_ERROR(WriteNodeScores(
          context_.files, io::JoinPath(lease.folder(), kFile), *scores));
      HEARTH_RETURN_IF_ERROR(lease.Publish(
          {{"dataset", context_.dataset.manifest().name},
           {"strategy", "gids"},
           {"nodes ranked by", std::string(Name(options_.hot))}}));
      if (context_.listener.durable) context_.listener.durable();
    }
    HEARTH_RETURN_IF_ERROR(lease.Share());
    return scores;
  }

  absl::StatusOr<NodeScores> MakeScores() {
    HEARTH_ASSIGN_OR_RETURN(
        topology_,
        context_.dataset.LoadTopology(
            {store::Residency::kMemory, store::Residency::kMappedWithReadAhead},
            context_.stop));
    absl::StatusOr<NodeScores> scores =
        options_.hot == HotNodes::kFrequency   ? CountBatches()
        : options_.hot == HotNodes::kOutDegree ? CountOutNeighbors()
                                               : PageRank();
    topology_.reset();
    return scores;
  }

  absl::StatusOr<NodeScores> PageRank() const {
    HEARTH_ASSIGN_OR_RETURN(
        const std::vector<double> scores,
        ReversePageRank(
            *topology_, training_.order->Epoch(kRankedEpoch),
            {.sampler = training_.sampler,
             .progress = [this](uint64_t done,
                                uint64_t total) { Progress(done, total); }},
            context_.stop));
    return NodeScores(scores.begin(), scores.end());
  }

  absl::StatusOr<NodeScores> CountOutNeighbors() const {
    NodeScores scores(static_cast<size_t>(num_nodes_));
    for (const store::Relation& relation : topology_->relations()) {
      float* const of_sources = scores.data() + relation.first_source;
      HEARTH_RETURN_IF_ERROR(std::visit(
          [&](const auto& indices) -> absl::Status {
            for (size_t i = 0; i < indices.size(); ++i) {
              if (i % (1 << 20) == 0) {
                HEARTH_RETURN_IF_ERROR(CheckStop(context_.stop));
              }
              of_sources[indices[i]] += 1;
            }
            return absl::OkStatus();
          },
          relation.topology.indices));
    }
    HEARTH_RETURN_IF_ERROR(topology_->status());
    return scores;
  }

  absl::StatusOr<NodeScores> CountBatches() const {
    NodeScores scores(static_cast<size_t>(num_nodes_));
    Pass pass = training_;
    pass.epoch_key = kRankedEpoch;
    pass.first_batch = 0;
    pass.history = nullptr;
    const std::vector<Pass> passes = {pass};
    HEARTH_RETURN_IF_ERROR(SampleShards(
        {.clock = context_.clock,
         .source =
             SampleSource{.topology = *topology_, .labels = context_.labels},
         .samplers = context_.samplers,
         .progress = [this](uint64_t done,
                            uint64_t total) { Progress(done, total); }},
        passes, SpreadOver(passes, TotalBatches(passes)),
        [&](const ShardPick& /*pick*/, const sample::MiniBatch& batch) {
          for (const NodeId node : batch.input_nodes) scores[node] += 1;
          return absl::OkStatus();
        },
        context_.stop));
    return scores;
  }

  void Log(const std::string& text) const {
    if (context_.listener.log) context_.listener.log(text);
  }

  void Progress(uint64_t done, uint64_t total) const {
    if (context_.listener.progress) {
      context_.listener.progress("ranking nodes", done, total);
    }
  }

  const RankingContext& context_;
  const GidsOptions& options_;
  const Pass& training_;
  const int64_t num_nodes_;
  std::unique_ptr<store::LoadedTopology> topology_;
};

// The first `count` distinct nodes of an .npy file, in ascending order.
template <typename Index>
absl::StatusOr<std::vector<NodeId>> ReadNodes(io::ReadableFile& file,
                                              const store::ArrayHeader& header,
                                              int64_t count, int64_t num_nodes,
                                              const std::stop_token& stop) {
  std::vector<bool> listed(static_cast<size_t>(num_nodes));
  std::vector<NodeId> nodes;
  std::vector<Index> piece;
  for (int64_t at = 0;
       at < header.NumElements() && static_cast<int64_t>(nodes.size()) < count;
       at += kIndicesAtOnce) {
    HEARTH_RETURN_IF_ERROR(CheckStop(stop));
    piece.resize(static_cast<size_t>(
        std::min(kIndicesAtOnce, header.NumElements() - at)));
    const uint64_t offset =
        header.data_offset + static_cast<uint64_t>(at) * sizeof(Index);
    HEARTH_RETURN_IF_ERROR(
        file.Read(offset, {reinterpret_cast<std::byte*>(piece.data()),
                           piece.size() * sizeof(Index)}));
    for (size_t i = 0; i < piece.size(); ++i) {
      const auto node = static_cast<NodeId>(piece[i]);
      if (node < 0 || node >= num_nodes) {
        return absl::InvalidArgumentError(absl::StrCat(
            "hot: ", file.path(), ": element ", at + static_cast<int64_t>(i),
            " at byte ", offset + i * sizeof(Index), " is ", node,
            ", not a node of 0 .. ", num_nodes - 1));
      }
      if (listed[node] || static_cast<int64_t>(nodes.size()) == count) continue;
      listed[node] = true;
      nodes.push_back(node);
    }
  }
  std::sort(nodes.begin(), nodes.end());
  return nodes;
}

absl::StatusOr<std::vector<NodeId>> ReadHotFile(const RankingContext& context,
                                                const std::string& path,
                                                int64_t count,
                                                int64_t num_nodes) {
  HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<io::ReadableFile> file,
                          context.files.OpenForRead(path));
  HEARTH_ASSIGN_OR_RETURN(const store::ArrayHeader header,
                          store::ReadNpyHeader(*file));
  const bool is_list = header.shape.size() == 1 &&
                       header.type.kind == store::ElementType::Kind::kInt;
  if (is_list && header.type.item_bytes == 8) {
    return ReadNodes<int64_t>(*file, header, count, num_nodes, context.stop);
  }
  if (is_list && header.type.item_bytes == 4) {
    return ReadNodes<int32_t>(*file, header, count, num_nodes, context.stop);
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "hot: ", path, " has ", header.shape.size(), " dimensions of type ",
      store::Name(header.type), ", not one of int64 or int32"));
}

}  // namespace

std::string HotNodesKey(const GidsOptions& options, const Pass& training,
                        const store::Manifest& manifest) {
  std::string key(Name(options.hot));
  const auto add = [&](const auto&... values) {
    absl::StrAppend(&key, ";", values...);
  };
  if (options.hot == HotNodes::kRandom) add(training.sampler.data_seed);
  const bool counts = options.hot == HotNodes::kFrequency;
  if (!counts && options.hot != HotNodes::kReversePageRank) return key;
  std::vector<NodeId> seeds = training.order->Epoch(kRankedEpoch);
  if (counts) {
    const auto [name, value] = DescribeSampler(training.sampler);
    add(name, value);
    add(training.sampler.data_seed);
    add(training.batch_size);
    add(training.shards);
    if (training.window.is_part()) {
      add("window", training.window.first, ",", training.window.all);
    }
  } else {
    // With several edge types, scores depend on the fan-outs.
    if (manifest.edge_types.size() > 1) {
      add(DescribeSampler(training.sampler).second);
    }
    std::sort(seeds.begin(), seeds.end());
  }
  Sha256 hash;
  hash.Update({reinterpret_cast<const std::byte*>(seeds.data()),
               seeds.size() * sizeof(NodeId)});
  add(hash.HexDigest());
  return key;
}

absl::StatusOr<HotNodesChoice> ChooseHotNodes(const RankingContext& context,
                                              const GidsOptions& options,
                                              int64_t count,
                                              const Pass& training) {
  Ranking ranking(context, options, training);
  HotNodesChoice choice;
  if (count <= 0) return choice;
  if (options.hot != HotNodes::kFile && count >= ranking.num_nodes()) {
    choice.nodes = AllNodes(ranking.num_nodes());
    return choice;
  }
  switch (options.hot) {
    case HotNodes::kFile: {
      HEARTH_ASSIGN_OR_RETURN(
          choice.nodes,
          ReadHotFile(context, options.hot_file, count, ranking.num_nodes()));
      break;
    }
    case HotNodes::kRandom:
      choice.nodes = HottestNodes(ranking.RandomScores(), count);
      break;
    default: {
      HEARTH_ASSIGN_OR_RETURN(const NodeScores scores,
                              ranking.KeptScores(choice.report));
      choice.nodes = HottestNodes(scores, count);
    }
  }
  return choice;
}

uint64_t RankingBytes(int64_t num_nodes) {
  // While ranking, two arrays and the scores; while choosing, the scores and a
  // list of nodes.
  return static_cast<uint64_t>(num_nodes) *
         (2 * sizeof(double) + sizeof(float) + sizeof(NodeId));
}

}  // namespace hearth::strategy
