#include "engine/sample/slab_sampler.h"

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/synchronization/mutex.h"
#include "engine/base/crc32c.h"
#include "engine/base/status.h"
#include "engine/base/thread_team.h"
#include "engine/pipeline/pipeline.h"
#include "engine/sample/dispatch_spool.h"
#include "engine/sample/layered_sampler.h"
#include "engine/sample/neighbor_draw.h"
#include "engine/store/graph.h"

// A round takes each shard one step further:
//
//  1. The nodes that draw are dispatched to their slabs (DispatchSpool).
//  2. Slab after slab is read; in each, the nodes of all shards are looked up
//     and draw. A run of answers for each slab and shard goes to a file.
//  3. Each shard gathers its runs: its nodes take their answers from the runs
//     of their slabs, in the order in which they were dispatched, and new
//     sources are numbered.
//
// A batch between two rounds is a scratch file like any sampled batch, whose
// blocks are those sampled so far, and whose missing in-degrees are 0.

namespace hearth::sample {

namespace {

using store::NodeId;

constexpr uint64_t kRequestBlockBytes = 64 << 10;
// Words of a piece of a run, at most.
constexpr size_t kPieceWords = 64 << 10;
// Scratch bytes that are reserved at a time.
constexpr uint64_t kReservedAtOnce = uint64_t{64} << 20;
// A slab is read whole if that takes no more time than reading the blocks that
// are wanted: a block takes as long as this many in a row.
constexpr uint64_t kBlocksPerRead = 6;
// Prefetch distances, in nodes.
constexpr size_t kAhead = 8;
// Destinations whose sources are numbered together.
constexpr size_t kChunk = 64;

// What a shard does in a round.
struct Step {
  enum class Kind {
    kNone,
    kDraw,        // Its nodes draw the neighbors of a layer.
    kTopDegrees,  // In-degrees of its top nodes are looked up.
    kDegrees,     // In-degrees of the nodes met last are looked up.
  };
  Kind kind = Kind::kNone;
  size_t layer = 0;
};

// Part of a run of answers.
struct Piece {
  uint64_t offset = 0;
  uint32_t words = 0;
  uint32_t crc = 0;
  uint32_t slab = 0;
};

struct PieceOfShard {
  uint32_t shard = 0;
  Piece piece;
};

absl::Span<const std::byte> BytesOf(absl::Span<const uint32_t> words) {
  return {reinterpret_cast<const std::byte*>(words.data()),
          words.size() * sizeof(uint32_t)};
}

// A folder that is removed with all it holds.
class ScratchFolder {
 public:
  ScratchFolder(io::FileSystem& files, const std::string& path)
      : files_(files), path_(path) {}
  ~ScratchFolder() { Remove().IgnoreError(); }
  ScratchFolder(const ScratchFolder&) = delete;
  ScratchFolder& operator=(const ScratchFolder&) = delete;

  absl::Status Make() const {
    HEARTH_RETURN_IF_ERROR(Remove());
    return files_.CreateDirectory(path_);
  }
  absl::Status Remove() const { return files_.RemoveTree(path_); }
  std::string Path(absl::string_view name) const {
    return io::JoinPath(path_, std::string(name));
  }

 private:
  io::FileSystem& files_;
  const std::string path_;
};

// Reserves space for scratch files, many bytes at a time. Thread-safe.
class Reservation {
 public:
  explicit Reservation(const std::function<absl::Status(uint64_t)>& reserve)
      : reserve_(reserve) {}

  absl::Status Add(uint64_t bytes) ABSL_LOCKS_EXCLUDED(mutex_) {
    if (!reserve_) return absl::OkStatus();
    const absl::MutexLock lock(&mutex_);
    if (bytes > left_) {
      const uint64_t more = std::max(bytes, kReservedAtOnce);
      HEARTH_RETURN_IF_ERROR(reserve_(more));
      left_ = more;
    }
    left_ -= bytes;
    return absl::OkStatus();
  }

 private:
  const std::function<absl::Status(uint64_t)>& reserve_;
  absl::Mutex mutex_;
  uint64_t left_ ABSL_GUARDED_BY(mutex_) = 0;
};

// The answers of a round: a scratch file of pieces. Thread-safe, except
// EndWriting.
class AnswerFile {
 public:
  static absl::StatusOr<std::unique_ptr<AnswerFile>> Create(
      io::FileSystem& files, std::string path) {
    HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<io::WritableFile> file,
                            files.Create(path));
    return std::unique_ptr<AnswerFile>(
        new AnswerFile(files, std::move(path), std::move(file)));
  }

  absl::StatusOr<Piece> Write(uint32_t slab, absl::Span<const uint32_t> words) {
    const absl::Span<const std::byte> bytes = BytesOf(words);
    const uint64_t offset = end_.fetch_add(bytes.size());
    HEARTH_RETURN_IF_ERROR(file_->Write(offset, bytes));
    return Piece{.offset = offset,
                 .words = static_cast<uint32_t>(words.size()),
                 .crc = Crc32c(bytes),
                 .slab = slab};
  }

  absl::Status EndWriting() {
    HEARTH_RETURN_IF_ERROR(file_->Close());
    HEARTH_ASSIGN_OR_RETURN(reader_, files_.OpenForRead(path_));
    return absl::OkStatus();
  }

  // Reads a piece into `words`. DATA_LOSS if it is damaged twice.
  absl::Status Read(const Piece& piece, absl::Span<uint32_t> words) const {
    for (int attempt = 0; attempt < 2; ++attempt) {
      HEARTH_RETURN_IF_ERROR(reader_->Read(
          piece.offset, {reinterpret_cast<std::byte*>(words.data()),
                         words.size() * sizeof(uint32_t)}));
      if (Crc32c(BytesOf(words)) == piece.crc) return absl::OkStatus();
    }
    return absl::DataLossError(
        absl::StrCat(path_, ": the answers at byte ", piece.offset,
                     " are damaged (their checksum does not match)"));
  }

 private:
  AnswerFile(io::FileSystem& files, std::string path,
             std::unique_ptr<io::WritableFile> file)
      : files_(files), path_(std::move(path)), file_(std::move(file)) {}

  io::FileSystem& files_;
  const std::string path_;
  const std::unique_ptr<io::WritableFile> file_;
  std::unique_ptr<io::ReadableFile> reader_;
  std::atomic<uint64_t> end_ = 0;
};

// Everything that the threads of a call share.
struct Context {
  const SlabSampling& sampling;
  absl::Span<const SlabPass> passes;
  absl::Span<const SlabShard> shards;
  // Whether an answer takes 8 bytes instead of 4.
  bool wide = false;

  const NeighborSamplerOptions& SamplerOf(size_t shard) const {
    return passes[shards[shard].pass].sampler;
  }
  const HistoryPolicy* HistoryOf(size_t shard) const {
    return passes[shards[shard].pass].history;
  }

  int32_t Fanout(size_t shard, size_t layer, size_t relation) const {
    const NeighborSamplerOptions& sampler = SamplerOf(shard);
    return sampling.topology.is_typed() ? sampler.Fanout(layer, relation)
                                        : sampler.fanouts[layer];
  }

  // With a history, the in-degrees of top nodes are looked up in a round of
  // their own, as some of them draw no more.
  Step StepOf(size_t shard, size_t round) const {
    const size_t layers = SamplerOf(shard).fanouts.size();
    if (HistoryOf(shard) != nullptr && round > 0) {
      if (!shards[shard].wanted) return {};
      if (round == 1) return {.kind = Step::Kind::kTopDegrees};
      --round;
    }
    if (round < layers) return {.kind = Step::Kind::kDraw, .layer = round};
    return {.kind = round == layers ? Step::Kind::kDegrees : Step::Kind::kNone};
  }

  size_t NumRounds() const {
    size_t rounds = 0;
    for (const SlabPass& pass : passes) {
      rounds = std::max(rounds, pass.sampler.fanouts.size() +
                                    (pass.history != nullptr ? 2 : 1));
    }
    return rounds;
  }
};

// The first input node that draws in a step: where each node draws once, those
// before have drawn.
size_t FirstDrawing(const NeighborSamplerOptions& sampler,
                    const MiniBatch& batch) {
  return sampler.once && !batch.blocks.empty()
             ? static_cast<size_t>(batch.blocks.front().num_destinations)
             : 0;
}

// The first input node whose in-degree is not known after the last layer.
size_t FirstUnknown(const MiniBatch& batch) {
  return batch.blocks.empty()
             ? 0
             : static_cast<size_t>(batch.blocks.front().num_destinations);
}

// Adds types of the input nodes added last, and in-degrees of 0 until they are
// known.
void FillUpNodes(const SlabTopology& topology, MiniBatch& batch) {
  batch.in_degrees.resize(batch.input_nodes.size());
  if (!topology.is_typed()) return;
  for (size_t i = batch.node_types.size(); i < batch.input_nodes.size(); ++i) {
    batch.node_types.push_back(topology.nodes().TypeOf(batch.input_nodes[i]));
  }
}

// The nodes of `batch` to look up in a step.
absl::Span<const NodeId> NodesOf(const Step& step,
                                 const NeighborSamplerOptions& sampler,
                                 const MiniBatch& batch) {
  const absl::Span<const NodeId> nodes = batch.input_nodes;
  switch (step.kind) {
    case Step::Kind::kNone:
      return {};
    case Step::Kind::kDraw:
      return nodes.subspan(FirstDrawing(sampler, batch));
    case Step::Kind::kTopDegrees:
      return batch.top->nodes;
    case Step::Kind::kDegrees:
      return nodes.subspan(FirstUnknown(batch));
  }
  return {};
}

// Dispatches nodes to their slabs. Single-owner.
class Dispatcher {
 public:
  static absl::StatusOr<std::unique_ptr<Dispatcher>> Create(
      const Context& context, std::string path, Reservation& reservation) {
    const SlabTopology& topology = context.sampling.topology;
    auto dispatcher =
        std::unique_ptr<Dispatcher>(new Dispatcher(topology, reservation));
    HEARTH_ASSIGN_OR_RETURN(
        dispatcher->spool_,
        DispatchSpool::Create(context.sampling.files, std::move(path),
                              {.num_partitions = std::ssize(topology.slabs()),
                               .block_bytes = kRequestBlockBytes}));
    return dispatcher;
  }

  absl::Status Add(size_t shard, absl::Span<const NodeId> nodes) {
    HEARTH_RETURN_IF_ERROR(reservation_.Add(nodes.size() * sizeof(uint32_t)));
    // A counting sort that keeps the order within each slab.
    slab_of_.clear();
    ends_.assign(topology_.slabs().size() + 1, 0);
    for (const NodeId node : nodes) {
      if (node < 0 || node >= topology_.nodes().num_nodes()) {
        return NoNode(node, topology_.nodes().num_nodes());
      }
      slab_of_.push_back(static_cast<uint32_t>(topology_.SlabOf(node)));
      ++ends_[slab_of_.back() + 1];
    }
    for (size_t slab = 1; slab < ends_.size(); ++slab) {
      ends_[slab] += ends_[slab - 1];
    }
    sorted_.resize(nodes.size());
    for (size_t i = 0; i < nodes.size(); ++i) {
      sorted_[ends_[slab_of_[i]]++] = static_cast<uint32_t>(
          nodes[i] - topology_.slabs()[slab_of_[i]].first);
    }
    const absl::Span<const uint32_t> sorted = sorted_;
    size_t begin = 0;
    for (size_t slab = 0; slab < requests_.size(); ++slab) {
      const size_t end = ends_[slab];
      if (begin == end) continue;
      requests_[slab] += end - begin;
      HEARTH_RETURN_IF_ERROR(spool_->AddTo(static_cast<int64_t>(slab),
                                           static_cast<uint32_t>(shard),
                                           sorted.subspan(begin, end - begin)));
      begin = end;
    }
    return absl::OkStatus();
  }

  DispatchSpool& spool() { return *spool_; }
  // Nodes of each slab.
  absl::Span<const uint64_t> requests() const { return requests_; }

 private:
  Dispatcher(const SlabTopology& topology, Reservation& reservation)
      : topology_(topology),
        reservation_(reservation),
        requests_(topology.slabs().size()) {}

  const SlabTopology& topology_;
  Reservation& reservation_;
  std::unique_ptr<DispatchSpool> spool_;
  std::vector<uint64_t> requests_;
  std::vector<uint32_t> slab_of_;
  std::vector<size_t> ends_;
  std::vector<uint32_t> sorted_;
};

// Answers the requests of one thread: an answer is, for each edge type into the
// node's type, its number of neighbors, and, if it draws, the drawn ones.
// Single-owner.
class Answerer {
 public:
  Answerer(const Context& context, Reservation& reservation,
           std::stop_token stop)
      : context_(context),
        topology_(context.sampling.topology),
        reservation_(reservation),
        reader_(topology_, std::move(stop)) {
    for (const SlabPass& pass : context.passes) {
      draws_.emplace_back(pass.sampler.data_seed);
    }
    words_.reserve(kPieceWords + 2);
  }

  // Answers block `block` of a slab's requests. Appends the pieces written.
  absl::Status Answer(const SlabLists& lists, size_t slab, size_t round,
                      DispatchSpool& requests, int64_t block, int worker,
                      AnswerFile& answers, std::vector<PieceOfShard>& pieces) {
    answers_ = &answers;
    pieces_ = &pieces;
    slab_ = static_cast<uint32_t>(slab);
    return requests.ForEachInBlock(
        static_cast<int64_t>(slab), block,
        [&](uint32_t shard, absl::Span<const uint32_t> nodes) {
          shard_ = shard;
          return AnswerNodes(lists, context_.StepOf(shard, round), nodes);
        },
        worker);
  }

 private:
  absl::Status AnswerNodes(const SlabLists& lists, const Step& step,
                           absl::Span<const uint32_t> nodes) {
    const NodeId first = lists.slab().first;
    const bool draws = step.kind == Step::Kind::kDraw;
    for (size_t i = 0; i < nodes.size(); ++i) {
      if (i + 2 * kAhead < nodes.size()) {
        reader_.PrefetchOffsets(lists, first + nodes[i + 2 * kAhead]);
      }
      if (draws && i + kAhead < nodes.size()) {
        reader_.PrefetchIndices(lists, first + nodes[i + kAhead]);
      }
      HEARTH_RETURN_IF_ERROR(AnswerNode(lists, step, first + nodes[i]));
    }
    return Flush();
  }

  absl::Status AnswerNode(const SlabLists& lists, const Step& step,
                          NodeId node) {
    const absl::Span<const size_t> into = topology_.into(lists.slab().type);
    for (size_t which = 0; which < into.size(); ++which) {
      HEARTH_ASSIGN_OR_RETURN(const SlabReader::List list,
                              reader_.Find(lists, node, which));
      HEARTH_RETURN_IF_ERROR(Put(static_cast<uint64_t>(list.degree)));
      if (step.kind != Step::Kind::kDraw || list.degree == 0) continue;
      const NeighborDraw::List drawn = {
          .layer = step.layer,
          .node = node,
          .edge_type = into[which],
          .degree = list.degree,
          .fanout = context_.Fanout(shard_, step.layer, into[which])};
      absl::Status status;
      const SlabShard& shard = context_.shards[shard_];
      HEARTH_RETURN_IF_ERROR(reader_.Pick(
          lists, which, list, drawn.drawn() == list.degree,
          [&](auto pick) {
            draws_[shard.pass].ForEach(drawn, shard.key, pick);
          },
          [&](NodeId source) {
            status.Update(Put(static_cast<uint64_t>(source)));
          }));
      HEARTH_RETURN_IF_ERROR(status);
    }
    return absl::OkStatus();
  }

  absl::Status Put(uint64_t value) {
    words_.push_back(static_cast<uint32_t>(value));
    if (context_.wide) words_.push_back(static_cast<uint32_t>(value >> 32));
    return words_.size() < kPieceWords ? absl::OkStatus() : Flush();
  }

  absl::Status Flush() {
    if (words_.empty()) return absl::OkStatus();
    HEARTH_RETURN_IF_ERROR(reservation_.Add(words_.size() * sizeof(uint32_t)));
    HEARTH_ASSIGN_OR_RETURN(const Piece piece, answers_->Write(slab_, words_));
    pieces_->push_back({.shard = shard_, .piece = piece});
    words_.clear();
    return absl::OkStatus();
  }

  const Context& context_;
  const SlabTopology& topology_;
  Reservation& reservation_;
  SlabReader reader_;
  // One for each pass.
  std::vector<NeighborDraw> draws_;
  std::vector<uint32_t> words_;
  // Of the block that is answered.
  AnswerFile* answers_ = nullptr;
  std::vector<PieceOfShard>* pieces_ = nullptr;
  uint32_t slab_ = 0;
  uint32_t shard_ = 0;
};

// Takes a shard one step further by its answers. Single-owner.
class Gatherer {
 public:
  explicit Gatherer(const Context& context)
      : context_(context),
        topology_(context.sampling.topology),
        cursors_(topology_.slabs().size()) {}

  absl::Status Gather(size_t shard, const Step& step, const AnswerFile& answers,
                      absl::Span<const Piece> pieces, MiniBatch& batch) {
    HEARTH_RETURN_IF_ERROR(Load(answers, pieces));
    switch (step.kind) {
      case Step::Kind::kNone:
        break;
      case Step::Kind::kDraw:
        DrawLayer(shard, step.layer, batch);
        break;
      case Step::Kind::kTopDegrees:
        TakeDegrees(batch.top->nodes, 0, batch.top->in_degrees);
        break;
      case Step::Kind::kDegrees:
        TakeDegrees(batch.input_nodes, FirstUnknown(batch), batch.in_degrees);
        break;
    }
    return absl::OkStatus();
  }

 private:
  // Reads all answers of a shard; its runs lie in the order of the slabs.
  absl::Status Load(const AnswerFile& answers, absl::Span<const Piece> pieces) {
    size_t words = 0;
    for (const Piece& piece : pieces) words += piece.words;
    words_.resize(words);
    size_t at = 0;
    for (size_t i = 0; i < pieces.size(); ++i) {
      if (i == 0 || pieces[i].slab != pieces[i - 1].slab) {
        cursors_[pieces[i].slab] = at;
      }
      HEARTH_RETURN_IF_ERROR(answers.Read(
          pieces[i], absl::MakeSpan(words_).subspan(at, pieces[i].words)));
      at += pieces[i].words;
    }
    return absl::OkStatus();
  }

  // The next answer from the run of a slab.
  int64_t Next(size_t& cursor) const {
    const uint64_t low = words_[cursor++];
    if (!context_.wide) return static_cast<int64_t>(low);
    return static_cast<int64_t>(uint64_t{words_[cursor++]} << 32 | low);
  }

  void TakeDegrees(absl::Span<const NodeId> nodes, size_t first,
                   std::vector<int64_t>& degrees) {
    degrees.resize(nodes.size());
    for (size_t i = first; i < nodes.size(); ++i) {
      const size_t slab = topology_.SlabOf(nodes[i]);
      int64_t degree = 0;
      const size_t lists = topology_.into(topology_.slabs()[slab].type).size();
      for (size_t which = 0; which < lists; ++which) {
        degree += Next(cursors_[slab]);
      }
      degrees[i] = degree;
    }
  }

  int32_t Number(NodeId node, std::vector<NodeId>& nodes) {
    const auto next = static_cast<int32_t>(nodes.size());
    const int32_t position = positions_.FindOrAdd(node, next);
    if (position == next) nodes.push_back(node);
    return position;
  }

  void DrawLayer(size_t shard, size_t layer, MiniBatch& batch) {
    const NeighborSamplerOptions& sampler = context_.SamplerOf(shard);
    std::vector<NodeId>& nodes = batch.input_nodes;
    const size_t num_destinations = nodes.size();
    const size_t first = FirstDrawing(sampler, batch);
    positions_.Clear();
    for (size_t i = 0; i < num_destinations; ++i) {
      if (i + 2 * kAhead < num_destinations) {
        positions_.Prefetch(nodes[i + 2 * kAhead]);
      }
      positions_.FindOrAdd(nodes[i], static_cast<int32_t>(i));
    }
    Block block = {.num_destinations = static_cast<int64_t>(num_destinations)};
    block.indptr.reserve(num_destinations + 1);
    if (first > 0) {
      // They have drawn already.
      const Block& drawn = batch.blocks.front();
      block.indptr.assign(drawn.indptr.begin(), drawn.indptr.end());
      block.indices = drawn.indices;
      block.edge_types = drawn.edge_types;
    } else {
      block.indptr.push_back(0);
    }
    batch.in_degrees.resize(num_destinations);
    for (size_t begin = first; begin < num_destinations; begin += kChunk) {
      const size_t end = std::min(begin + kChunk, num_destinations);
      picked_.clear();
      for (size_t row = begin; row < end; ++row) {
        batch.in_degrees[row] = TakeSources(shard, layer, nodes[row], block);
        block.indptr.push_back(std::ssize(block.indices) + std::ssize(picked_));
      }
      for (const NodeId source : picked_) {
        block.indices.push_back(Number(source, nodes));
      }
    }
    block.num_sources = std::ssize(nodes);
    if (!sampler.layer_nodes.empty()) {
      layer_draw_.Thin(
          {.data_seed = sampler.data_seed, .batch = batch.key, .layer = layer},
          sampler.layer_nodes[layer], nodes, block);
    }
    FillUpNodes(topology_, batch);
    batch.blocks.insert(batch.blocks.begin(), std::move(block));
  }

  // Appends the sources that `node` drew to picked_, and the types of their
  // edges to `block`. Returns its in-degree.
  int64_t TakeSources(size_t shard, size_t layer, NodeId node, Block& block) {
    const size_t slab = topology_.SlabOf(node);
    size_t& cursor = cursors_[slab];
    int64_t in_degree = 0;
    for (const size_t relation : topology_.into(topology_.slabs()[slab].type)) {
      const int64_t degree = Next(cursor);
      in_degree += degree;
      const int64_t drawn =
          NeighborDraw::List{.degree = degree,
                             .fanout = context_.Fanout(shard, layer, relation)}
              .drawn();
      for (int64_t i = 0; i < drawn; ++i) {
        const NodeId source = Next(cursor);
        positions_.Prefetch(source);
        picked_.push_back(source);
      }
      if (topology_.is_typed()) {
        block.edge_types.insert(block.edge_types.end(),
                                static_cast<size_t>(drawn),
                                static_cast<store::TypeId>(relation));
      }
    }
    return in_degree;
  }

  const Context& context_;
  const SlabTopology& topology_;
  NodeTable positions_;
  LayerDraw layer_draw_;
  std::vector<uint32_t> words_;
  // Place in words_ of the next answer of each slab.
  std::vector<size_t> cursors_;
  // Sources of the current chunk's edges.
  std::vector<NodeId> picked_;
};

// A shard that is gathered.
struct GatheredShard final : pipeline::Item {
  explicit GatheredShard(size_t shard) : shard(shard) {}
  const size_t shard;
  MiniBatch batch;
};

// Bytes of a batch's scratch file, at most, for reservations.
uint64_t FrontierBytes(const MiniBatch& batch) {
  uint64_t bytes = (batch.input_nodes.size() * 2 +
                    (batch.top.has_value() ? 3 * batch.top->nodes.size() : 0)) *
                       sizeof(int64_t) +
                   4096;
  for (const Block& block : batch.blocks) {
    bytes += static_cast<uint64_t>(block.num_destinations) * sizeof(int64_t) +
             block.indices.size() * (2 * sizeof(int32_t) + sizeof(float));
  }
  return bytes;
}

class SlabSampler {
 public:
  SlabSampler(const SlabSampling& sampling, absl::Span<const SlabPass> passes,
              absl::Span<const SlabShard> shards, std::stop_token stop)
      : sampling_(sampling),
        context_({.sampling = sampling,
                  .passes = passes,
                  .shards = shards,
                  .wide = sampling.topology.nodes().num_nodes() > UINT32_MAX ||
                          sampling.topology.largest_degree() > UINT32_MAX}),
        stop_(std::move(stop)),
        folder_(sampling.files, sampling.scratch_folder),
        reservation_(sampling.reserve),
        rounds_(context_.NumRounds()) {}

  absl::Status Run(
      absl::FunctionRef<std::vector<NodeId>(size_t shard)> seeds,
      absl::FunctionRef<absl::Status(size_t, const MiniBatch&)> take) {
    HEARTH_RETURN_IF_ERROR(folder_.Make());
    HEARTH_RETURN_IF_ERROR(NewDispatcher(0));
    for (size_t shard = 0; shard < context_.shards.size(); ++shard) {
      HEARTH_RETURN_IF_ERROR(CheckStop());
      MiniBatch batch = {.key = context_.shards[shard].key,
                         .input_nodes = seeds(shard)};
      batch.num_seeds = std::ssize(batch.input_nodes);
      HEARTH_RETURN_IF_ERROR(Dispatch(shard, 0, batch));
      FillUpNodes(sampling_.topology, batch);
      HEARTH_RETURN_IF_ERROR(Write(shard, batch));
    }
    for (size_t round = 0; round < rounds_; ++round) {
      pieces_.assign(context_.shards.size(), {});
      HEARTH_ASSIGN_OR_RETURN(
          const std::unique_ptr<AnswerFile> answers,
          AnswerFile::Create(sampling_.files, folder_.Path("answers")));
      HEARTH_RETURN_IF_ERROR(AnswerRound(round, *answers));
      HEARTH_RETURN_IF_ERROR(answers->EndWriting());
      dispatcher_.reset();
      HEARTH_RETURN_IF_ERROR(GatherRound(round, *answers, take));
    }
    return folder_.Remove();
  }

 private:
  absl::Status CheckStop() const {
    if (!stop_.stop_requested()) return absl::OkStatus();
    return absl::CancelledError("sampling in slabs: stopped on request");
  }

  std::string FrontierPath(size_t shard) const {
    return folder_.Path(absl::StrCat("batch-", shard));
  }

  absl::Status Write(size_t shard, const MiniBatch& batch) {
    HEARTH_RETURN_IF_ERROR(reservation_.Add(FrontierBytes(batch)));
    return WriteSample(sampling_.files, FrontierPath(shard), batch).status();
  }

  absl::Status NewDispatcher(size_t round) {
    HEARTH_ASSIGN_OR_RETURN(
        dispatcher_,
        Dispatcher::Create(context_,
                           folder_.Path(absl::StrCat("requests-", round)),
                           reservation_));
    return absl::OkStatus();
  }

  absl::Status Dispatch(size_t shard, size_t round, const MiniBatch& batch) {
    return dispatcher_->Add(shard, NodesOf(context_.StepOf(shard, round),
                                           context_.SamplerOf(shard), batch));
  }

  void Progress(uint64_t units) {
    done_ += units;
    if (!sampling_.progress) return;
    sampling_.progress(done_, rounds_ * (sampling_.topology.slabs().size() +
                                         context_.shards.size()));
  }

  // What of a slab is loaded to answer a round's requests.
  SlabLists::Load LoadFor(size_t number, bool draws) const {
    const SlabTopology& topology = sampling_.topology;
    const Slab& slab = topology.slabs()[number];
    if (slab.bytes > topology.slab_bytes()) return SlabLists::Load::kNothing;
    const absl::Span<const size_t> into = topology.into(slab.type);
    uint64_t block = 0;
    for (const size_t relation : into) {
      block = std::max<uint64_t>(
          block, topology.relations()[relation].indptr.array().crc_block_bytes);
    }
    const uint64_t bytes = draws
                               ? slab.bytes
                               : static_cast<uint64_t>(slab.end - slab.first) *
                                     into.size() * sizeof(int64_t);
    const uint64_t blocks =
        dispatcher_->requests()[number] * into.size() * (draws ? 2 : 1);
    if (blocks * block * kBlocksPerRead < bytes) {
      return SlabLists::Load::kNothing;
    }
    return draws ? SlabLists::Load::kLists : SlabLists::Load::kDegrees;
  }

  absl::Status AnswerRound(size_t round, AnswerFile& answers) {
    const int threads = sampling_.samplers + 1;
    HEARTH_RETURN_IF_ERROR(dispatcher_->spool().EndAdding(threads));
    std::vector<size_t> slabs;
    for (size_t slab = 0; slab < dispatcher_->requests().size(); ++slab) {
      if (dispatcher_->requests()[slab] > 0) slabs.push_back(slab);
    }
    Progress(dispatcher_->requests().size() - slabs.size());
    if (slabs.empty()) return absl::OkStatus();
    bool draws = false;
    for (size_t shard = 0; shard < context_.shards.size() && !draws; ++shard) {
      draws = context_.StepOf(shard, round).kind == Step::Kind::kDraw;
    }
    HEARTH_ASSIGN_OR_RETURN(SlabLists current,
                            SlabLists::Make(sampling_.topology));
    HEARTH_ASSIGN_OR_RETURN(SlabLists next,
                            SlabLists::Make(sampling_.topology));
    HEARTH_ASSIGN_OR_RETURN(const std::unique_ptr<ThreadTeam> team,
                            ThreadTeam::Create(threads));
    std::vector<std::unique_ptr<Answerer>> answerers;
    for (int i = 0; i < threads; ++i) {
      answerers.push_back(
          std::make_unique<Answerer>(context_, reservation_, stop_));
    }
    const auto read = [&](size_t index) {
      return next.Read(slabs[index], LoadFor(slabs[index], draws), stop_);
    };
    HEARTH_RETURN_IF_ERROR(read(0));
    for (size_t index = 0; index < slabs.size(); ++index) {
      std::swap(current, next);
      const size_t slab = slabs[index];
      const int64_t blocks =
          dispatcher_->spool().num_blocks(static_cast<int64_t>(slab));
      std::vector<std::vector<PieceOfShard>> pieces(
          static_cast<size_t>(blocks));
      // Part 0 reads the next slab, part i answers block i - 1 of this one.
      std::atomic<int64_t> next_part = 0;
      std::atomic<bool> failed = false;
      const auto part = [&](int worker, int64_t number) -> absl::Status {
        HEARTH_RETURN_IF_ERROR(CheckStop());
        if (number == 0) {
          return index + 1 < slabs.size() ? read(index + 1) : absl::OkStatus();
        }
        return answerers[static_cast<size_t>(worker)]->Answer(
            current, slab, round, dispatcher_->spool(), number - 1, worker,
            answers, pieces[static_cast<size_t>(number - 1)]);
      };
      HEARTH_RETURN_IF_ERROR(team->RunWorkers([&](int worker) {
        for (int64_t number = next_part++; number <= blocks && !failed;
             number = next_part++) {
          const absl::Status status = part(worker, number);
          if (status.ok()) continue;
          failed = true;
          return status;
        }
        return absl::OkStatus();
      }));
      for (const std::vector<PieceOfShard>& of_block : pieces) {
        for (const PieceOfShard& one : of_block) {
          pieces_[one.shard].push_back(one.piece);
        }
      }
      Progress(1);
    }
    return absl::OkStatus();
  }

  // Whether a shard's top layer is decided at the end of a round.
  bool Decides(size_t shard, size_t round) const {
    return round == 0 && context_.HistoryOf(shard) != nullptr;
  }

  absl::Status GatherRound(
      size_t round, const AnswerFile& answers,
      absl::FunctionRef<absl::Status(size_t, const MiniBatch&)> take) {
    const bool last = round + 1 == rounds_;
    if (!last) HEARTH_RETURN_IF_ERROR(NewDispatcher(round + 1));
    std::vector<size_t> todo;
    for (size_t shard = 0; shard < context_.shards.size(); ++shard) {
      if (last ? context_.shards[shard].wanted
               : context_.StepOf(shard, round).kind != Step::Kind::kNone) {
        todo.push_back(shard);
      }
    }
    std::vector<std::unique_ptr<Gatherer>> gatherers;
    for (int i = 0; i < sampling_.samplers; ++i) {
      gatherers.push_back(std::make_unique<Gatherer>(context_));
    }
    const auto gather = [&](int thread, GatheredShard& item) -> absl::Status {
      const size_t shard = item.shard;
      HEARTH_ASSIGN_OR_RETURN(item.batch,
                              ReadSample(sampling_.files, FrontierPath(shard),
                                         context_.shards[shard].key));
      HEARTH_RETURN_IF_ERROR(gatherers[static_cast<size_t>(thread)]->Gather(
          shard, context_.StepOf(shard, round), answers, pieces_[shard],
          item.batch));
      if (last) return sampling_.files.RemoveTree(FrontierPath(shard));
      if (Decides(shard, round)) return absl::OkStatus();
      return Write(shard, item.batch);
    };
    const auto finish = [&](GatheredShard& item) -> absl::Status {
      const size_t shard = item.shard;
      if (Decides(shard, round)) {
        Decide(shard, item.batch);
        if (context_.shards[shard].wanted) {
          HEARTH_RETURN_IF_ERROR(Write(shard, item.batch));
        }
      }
      Progress(1);
      return last ? take(shard, item.batch)
                  : Dispatch(shard, round + 1, item.batch);
    };
    HEARTH_RETURN_IF_ERROR(
        pipeline::NewPipeline(
            {{.name = "gather",
              .width = sampling_.samplers,
              .queue_capacity = 1,
              .work =
                  [&](int thread, pipeline::Item& item) {
                    return gather(thread, static_cast<GatheredShard&>(item));
                  }}},
            "finish", sampling_.clock)
            ->Run(
                std::ssize(todo),
                [&](int64_t number) {
                  return std::make_unique<GatheredShard>(
                      todo[static_cast<size_t>(number)]);
                },
                [&](std::unique_ptr<pipeline::Item> item) {
                  return finish(static_cast<GatheredShard&>(*item));
                },
                stop_));
    Progress(context_.shards.size() - todo.size());
    return absl::OkStatus();
  }

  // Makes the nodes so far the top layer, and those of them that are computed
  // the input nodes. Called for all shards of a pass in order.
  void Decide(size_t shard, MiniBatch& batch) {
    const size_t pass = context_.shards[shard].pass;
    if (decided_pass_ != pass) {
      decisions_.emplace(*context_.HistoryOf(shard));
      decided_pass_ = pass;
    }
    batch.top = {.nodes = std::exchange(batch.input_nodes, {}),
                 .in_degrees = std::exchange(batch.in_degrees, {}),
                 .node_types = std::exchange(batch.node_types, {})};
    decisions_->Decide(static_cast<int64_t>(batch.key.batch), *batch.top);
    batch.input_nodes = ComputedNodes(*batch.top);
    FillUpNodes(sampling_.topology, batch);
  }

  const SlabSampling& sampling_;
  const Context context_;
  const std::stop_token stop_;
  const ScratchFolder folder_;
  Reservation reservation_;
  const size_t rounds_;
  uint64_t done_ = 0;
  // The requests of the round, or of the next one.
  std::unique_ptr<Dispatcher> dispatcher_;
  // Pieces of each shard's answers, in the order of the slabs.
  std::vector<std::vector<Piece>> pieces_;
  // Decisions of the pass whose shards are decided.
  std::optional<HistoryDecisions> decisions_;
  std::optional<size_t> decided_pass_;
};

}  // namespace

absl::Status SampleInSlabs(
    const SlabSampling& sampling, absl::Span<const SlabPass> passes,
    absl::Span<const SlabShard> shards,
    absl::FunctionRef<std::vector<NodeId>(size_t shard)> seeds,
    absl::FunctionRef<absl::Status(size_t shard, const MiniBatch& batch)> take,
    std::stop_token stop) {
  return SlabSampler(sampling, passes, shards, std::move(stop))
      .Run(seeds, take);
}

uint64_t SlabSamplingBytes(const SlabSamplingBound& bound) {
  const store::Manifest& manifest = bound.manifest;
  const auto threads = static_cast<uint64_t>(bound.samplers) + 1;
  const auto slabs = static_cast<uint64_t>(
      SlabTopology::MostSlabs(manifest, bound.slab_bytes));
  // While a slab is answered: it and the next one, and the scratch memory of
  // each thread.
  const uint64_t answering =
      2 * SlabLists::MemoryBytes(manifest, bound.slab_bytes) +
      threads * (SlabReader::MemoryBytes(manifest) + kRequestBlockBytes +
                 (kPieceWords + 2) * sizeof(uint32_t));
  // While shards are gathered: a buffer for each slab; the places of one
  // shard's nodes; for each sampler a place in each run, and the answers of a
  // shard as far as they take more than the shard.
  const auto nodes = static_cast<uint64_t>(bound.shard.num_inputs());
  const uint64_t edges =
      bound.shard.edges.empty()
          ? 0
          : static_cast<uint64_t>(
                std::max(bound.shard.edges.front(), bound.shard.listed_edges));
  const uint64_t types =
      std::max<uint64_t>(1, static_cast<uint64_t>(bound.shard.types_per_node));
  const uint64_t answer_bytes =
      store::NodeSpace(manifest).num_nodes() > UINT32_MAX ? 8 : 4;
  const uint64_t answers = answer_bytes * (nodes * types + edges);
  const uint64_t shard = bound.shard.MemoryBytes();
  const uint64_t gathering =
      slabs * kRequestBlockBytes + nodes * 2 * 2 * sizeof(uint32_t) +
      static_cast<uint64_t>(bound.samplers) *
          (slabs * sizeof(size_t) + (answers > shard ? answers - shard : 0));
  // Pieces, in lists that grow by doubling; runs longer than a piece are few.
  const uint64_t pieces =
      static_cast<uint64_t>(bound.num_shards) * slabs * 2 * sizeof(Piece);
  return SlabTopology::MemoryBytes(manifest, bound.slab_bytes) + pieces +
         std::max(answering, gathering);
}

}  // namespace hearth::sample
