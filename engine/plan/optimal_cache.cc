#include "engine/plan/optimal_cache.h"

#include <algorithm>
#include <cstddef>
#include <functional>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "engine/base/crc32c.h"
#include "engine/base/status.h"
#include "engine/io/aligned_memory.h"
#include "engine/store/topology.h"

// One table has a number for each node, used in turn for two things:
//
//  1. Backward over the trace it holds the batch that needs the node next. What
//     it says of the nodes of a planned batch goes to the scratch file. In the
//     end it says which batch needs each node first: so of the rows inside, and
//     of the rows that fill the cache.
//  2. Forward over the planned batches it holds the node's slot, and the
//     scratch file is read from its end to its beginning.
//
// The rows inside hang in one list for each batch, that which needs them next;
// a last list has the rows that the trace does not need again. A batch finds
// exactly the rows of its own list inside, so that lists are singly linked:
// one is dropped as a whole when its batch comes, or loses its head as the row
// that is needed last. After each batch
//
//  3. the rows that it found move to the lists of their next batches;
//  4. of the rows that it read and that may be needed again, the soonest needed
//     take free capacity, then the places of the rows needed last, as long as
//     they are needed earlier than these. A row that has just entered is needed
//     no later than the rows that enter after it, so it never leaves in the
//     same step.
//
// A row that leaves, and so its slot, may have been read by one of the last
// batches: then the slot cools until its reuse distance has passed. That is
// what the slots beyond the capacity are for.
//
// Every access goes to a random place in arrays that are far larger than the
// processor's caches, so the loops prefetch what later iterations will touch.

namespace hearth::plan {

namespace {

using store::NodeId;
using BatchPlan = OptimalCache::BatchPlan;
using Entry = OptimalCache::Entry;
using Filled = OptimalCache::Filled;
using Sink = OptimalCache::Sink;
using Totals = OptimalCache::Totals;

constexpr size_t kAhead = 16;

// In the table: the trace does not need the node; the node is in no slot. Also
// the end of a list.
constexpr uint32_t kNone = UINT32_MAX;
// In the table, between 1 and 2: the node's row is inside.
constexpr uint32_t kInside = UINT32_MAX - 1;
// Batches are numbered below this, so also below the two above.
constexpr int64_t kMaxBatches = INT32_MAX;

/// The scratch file: for each planned batch, last first, the next uses of its
/// nodes and a CRC32C. In the machine's byte order, not synced.
class NextUseFile {
 public:
  NextUseFile(io::FileSystem& files, const std::string& path)
      : files_(files), path_(path) {}

  ~NextUseFile() {
    writer_.reset();
    reader_.reset();
    // Nobody reads it again, and its owner removes the folder.
    files_.RemoveTree(path_).IgnoreError();
  }

  absl::Status Create() {
    HEARTH_ASSIGN_OR_RETURN(writer_, files_.Create(path_));
    return absl::OkStatus();
  }

  /// Writes a batch's next uses; `block` has one more number at the end, which
  /// becomes the checksum.
  absl::Status Append(int64_t batch, absl::Span<uint32_t> block) {
    block.back() = Crc(batch, block);
    offset_ += block.size() * sizeof(uint32_t);
    return writer_->Append(absl::MakeConstSpan(Bytes(block)));
  }

  /// Between writing and reading.
  absl::Status Turn() {
    HEARTH_RETURN_IF_ERROR(writer_->Close());
    HEARTH_ASSIGN_OR_RETURN(reader_, files_.OpenForRead(path_));
    return absl::OkStatus();
  }

  /// Reads what Append wrote, in the opposite order. `block` has the same size.
  absl::Status Read(int64_t batch, absl::Span<uint32_t> block) {
    const uint64_t bytes = block.size() * sizeof(uint32_t);
    if (bytes > offset_) {
      return absl::DataLossError(absl::StrCat(path_, ": has no ", bytes,
                                              " bytes before byte ", offset_));
    }
    offset_ -= bytes;
    // A second read heals damage in transit; damage on disk stays.
    for (int attempt = 0; attempt < 2; ++attempt) {
      HEARTH_RETURN_IF_ERROR(reader_->Read(offset_, Bytes(block)));
      if (block.back() == Crc(batch, block)) return absl::OkStatus();
    }
    return absl::DataLossError(
        absl::StrCat(path_, ": the next uses at byte ", offset_,
                     " are damaged (their checksum does not match)"));
  }

 private:
  static absl::Span<std::byte> Bytes(absl::Span<uint32_t> block) {
    return {reinterpret_cast<std::byte*>(block.data()),
            block.size() * sizeof(uint32_t)};
  }

  static uint32_t Crc(int64_t batch, absl::Span<uint32_t> block) {
    return BlockCrc32c(Bytes(block.first(block.size() - 1)), /*file_id=*/0,
                       static_cast<uint64_t>(batch));
  }

  io::FileSystem& files_;
  const std::string path_;
  std::unique_ptr<io::WritableFile> writer_;
  std::unique_ptr<io::ReadableFile> reader_;
  // Where the next block is written, or the last one read begins.
  uint64_t offset_ = 0;
};

/// Slots linked by Slot::link.
struct SlotList {
  uint32_t head = kNone;
  uint32_t size = 0;
};

struct Slot {
  // The first batch whose rows may overwrite the slot.
  uint32_t reusable_from;
  uint32_t link;
};

class Planner {
 public:
  Planner(io::FileSystem& files, AccessTrace& trace, int64_t end, bool complete,
          const OptimalCache::Options& options, CacheSlots& state, Sink& sink,
          std::stop_token stop)
      : trace_(trace),
        num_batches_(static_cast<uint32_t>(trace.num_batches())),
        end_(static_cast<uint32_t>(end)),
        complete_(complete),
        num_nodes_(options.num_nodes),
        num_slots_(static_cast<uint32_t>(options.num_slots)),
        capacity_(static_cast<uint32_t>(OptimalCache::Capacity(options))),
        reuse_distance_(static_cast<uint32_t>(options.reuse_distance)),
        state_(state),
        sink_(sink),
        stop_(std::move(stop)),
        next_uses_(files, options.scratch_path),
        lists_(size_t{num_batches_} + 1),
        cooling_(size_t{reuse_distance_} + 1) {}

  absl::StatusOr<Totals> Plan(bool fill) {
    HEARTH_RETURN_IF_ERROR(Allocate());
    HEARTH_RETURN_IF_ERROR(next_uses_.Create());
    HEARTH_RETURN_IF_ERROR(FindNextUses());
    HEARTH_RETURN_IF_ERROR(TakeState());
    if (fill) HEARTH_RETURN_IF_ERROR(FillCapacity());
    MapSlots();
    HEARTH_RETURN_IF_ERROR(next_uses_.Turn());
    for (uint32_t batch = 0; batch < end_; ++batch) {
      HEARTH_RETURN_IF_ERROR(PlanBatch(batch));
    }
    GiveState();
    return totals_;
  }

 private:
  using Nodes = absl::Span<const NodeId>;

  absl::Status Allocate() {
    HEARTH_ASSIGN_OR_RETURN(
        table_memory_,
        io::AlignedMemory::Allocate(static_cast<uint64_t>(num_nodes_) *
                                    sizeof(uint32_t)));
    table_ = {reinterpret_cast<uint32_t*>(table_memory_.bytes().data()),
              static_cast<size_t>(num_nodes_)};
    HEARTH_ASSIGN_OR_RETURN(
        slot_memory_,
        io::AlignedMemory::Allocate(uint64_t{num_slots_} * sizeof(Slot)));
    slots_ = {reinterpret_cast<Slot*>(slot_memory_.bytes().data()), num_slots_};
    return absl::OkStatus();
  }

  absl::StatusOr<Nodes> Load(int64_t batch) {
    if (stop_.stop_requested()) {
      return absl::CancelledError("planning the cache: stopped on request");
    }
    HEARTH_ASSIGN_OR_RETURN(const Nodes nodes, trace_.Load(batch));
    HEARTH_RETURN_IF_ERROR(CheckNodes(nodes, num_nodes_));
    if (nodes.size() >= kNone - num_slots_) {
      return absl::InvalidArgumentError(
          absl::StrCat("batch ", batch, " has ", nodes.size(),
                       " nodes: too many beside ", num_slots_, " slots"));
    }
    return nodes;
  }

  // Step 1.
  absl::Status FindNextUses() {
    std::fill(table_.begin(), table_.end(), kNone);
    size_t largest = 0;
    for (uint32_t batch = num_batches_; batch-- > 0;) {
      HEARTH_ASSIGN_OR_RETURN(const Nodes nodes, Load(batch));
      next_.resize(nodes.size() + 1);
      for (size_t i = 0; i < nodes.size(); ++i) {
        if (i + kAhead < nodes.size()) {
          __builtin_prefetch(&table_[nodes[i + kAhead]], /*rw=*/1);
        }
        next_[i] = std::exchange(table_[nodes[i]], batch);
        if (next_[i] == batch) {
          return absl::InvalidArgumentError(absl::StrCat(
              "node ", nodes[i], " is twice in batch ", batch, " of a trace"));
        }
      }
      if (batch >= end_) continue;
      largest = std::max(largest, nodes.size());
      HEARTH_RETURN_IF_ERROR(next_uses_.Append(batch, absl::MakeSpan(next_)));
    }
    addresses_.reserve(largest);
    misses_.reserve(largest);
    reads_.reserve(largest);
    candidates_.reserve(largest);
    enters_.reserve(largest);
    entries_.reserve(largest);
    drops_.reserve(largest);
    return absl::OkStatus();
  }

  // Hangs the slots into their lists, in the order of their numbers.
  absl::Status TakeState() {
    for (uint32_t slot = 0; slot < num_slots_; ++slot) {
      if (slot + kAhead < num_slots_ &&
          state_.nodes[slot + kAhead] != CacheSlots::kFree) {
        __builtin_prefetch(&table_[state_.nodes[slot + kAhead]], /*rw=*/1);
      }
      slots_[slot].reusable_from = reuse_distance_ - state_.idle[slot];
      const uint32_t node = state_.nodes[slot];
      if (node == CacheSlots::kFree) continue;
      const uint32_t next = std::exchange(table_[node], kInside);
      if (next == kInside) {
        return absl::InvalidArgumentError(
            absl::StrCat("node ", node, " is in two slots of a cache"));
      }
      Hang(next, slot);
      ++inside_;
    }
    if (inside_ > capacity_) {
      return absl::InvalidArgumentError(absl::StrCat(
          inside_, " rows are in a cache of capacity ", capacity_));
    }
    // Smaller numbers are taken first.
    for (uint32_t slot = num_slots_; slot-- > 0;) {
      if (state_.nodes[slot] != CacheSlots::kFree) continue;
      if (slots_[slot].reusable_from == 0) {
        Push(free_, slot);
      } else {
        Cool(slot);
      }
    }
    return absl::OkStatus();
  }

  // The table has the first use of each node that is not inside.
  absl::Status FillCapacity() {
    const uint32_t wanted = std::min(capacity_ - inside_, NumFreeSlots());
    std::vector<uint32_t> counts(num_batches_);
    for (const uint32_t first : table_) {
      if (first < num_batches_) ++counts[first];
    }
    // All rows that batches before `last` need first, and `of_last` of those
    // that `last` needs first.
    uint32_t last = 0;
    uint32_t of_last = wanted;
    while (last < num_batches_ && counts[last] <= of_last) {
      of_last -= counts[last++];
    }
    std::vector<Filled> rows;
    for (uint32_t node = 0; node < table_.size(); ++node) {
      const uint32_t first = table_[node];
      if (first >= num_batches_ || first > last) continue;
      if (first == last) {
        if (of_last == 0) continue;
        --of_last;
      }
      const uint32_t slot = TakeSlot();
      state_.nodes[slot] = node;
      Hang(first, slot);
      rows.push_back({.node = node, .slot = slot});
      ++inside_;
      ++totals_.filled;
      if (rows.size() == OptimalCache::kFillRows) {
        HEARTH_RETURN_IF_ERROR(sink_.Fill(rows));
        rows.clear();
      }
    }
    return rows.empty() ? absl::OkStatus() : sink_.Fill(rows);
  }

  // From step 1 to step 2.
  void MapSlots() {
    std::fill(table_.begin(), table_.end(), kNone);
    for (uint32_t slot = 0; slot < num_slots_; ++slot) {
      const uint32_t node = state_.nodes[slot];
      if (node != CacheSlots::kFree) table_[node] = slot;
    }
  }

  // Step 2.
  absl::Status PlanBatch(uint32_t batch) {
    HEARTH_ASSIGN_OR_RETURN(const Nodes nodes, Load(batch));
    next_.resize(nodes.size() + 1);
    HEARTH_RETURN_IF_ERROR(next_uses_.Read(batch, absl::MakeSpan(next_)));
    std::vector<uint32_t>& cooled = cooling_[batch % cooling_.size()];
    reusable_.insert(reusable_.end(), cooled.begin(), cooled.end());
    cooled = {};
    lists_[batch] = {};
    FindRows(batch, nodes);
    NumberReads(nodes);
    ChooseEntries(batch);
    Enter();
    totals_.accesses += static_cast<int64_t>(nodes.size());
    totals_.misses += static_cast<int64_t>(reads_.size());
    totals_.entered += static_cast<int64_t>(entries_.size());
    return sink_.Batch(batch, {.addresses = addresses_,
                               .reads = reads_,
                               .entries = entries_,
                               .drops = drops_});
  }

  // Sets the addresses of the rows inside; the others become misses. Step 3.
  void FindRows(uint32_t batch, Nodes nodes) {
    addresses_.resize(nodes.size());
    for (size_t i = 0; i < nodes.size(); ++i) {
      if (i + kAhead < nodes.size()) {
        __builtin_prefetch(&table_[nodes[i + kAhead]]);
      }
      addresses_[i] = table_[nodes[i]];
    }
    misses_.clear();
    for (size_t i = 0; i < nodes.size(); ++i) {
      if (i + kAhead < nodes.size() && addresses_[i + kAhead] != kNone) {
        __builtin_prefetch(&slots_[addresses_[i + kAhead]], /*rw=*/1);
      }
      const uint32_t slot = addresses_[i];
      if (slot == kNone) {
        misses_.push_back(static_cast<uint64_t>(nodes[i]) << 32 | i);
      } else {
        slots_[slot].reusable_from = batch + reuse_distance_;
        Hang(next_[i], slot);
      }
    }
  }

  // Sets the reads and their addresses, and finds which may enter.
  void NumberReads(Nodes nodes) {
    std::sort(misses_.begin(), misses_.end());
    reads_.clear();
    candidates_.clear();
    for (uint32_t read = 0; read < misses_.size(); ++read) {
      const auto position = static_cast<uint32_t>(misses_[read]);
      reads_.push_back(static_cast<uint32_t>(misses_[read] >> 32));
      addresses_[position] = num_slots_ + read;
      const uint32_t next = std::min(next_[position], num_batches_);
      if (complete_ && next == num_batches_) continue;
      candidates_.push_back(uint64_t{next} << 32 | read);
    }
  }

  // Step 4, but for the entries themselves: makes room, and sets which reads
  // enter.
  void ChooseEntries(uint32_t batch) {
    enters_.assign(reads_.size(), false);
    drops_.clear();
    chosen_ = 0;
    dropped_unknown_ = 0;
    if (capacity_ == 0) return;
    std::make_heap(candidates_.begin(), candidates_.end(), std::greater<>());
    while (!candidates_.empty()) {
      const uint32_t next = NextOfFirst();
      if (inside_ == capacity_) {
        const uint32_t last = LastNeeded();
        if (last <= next) break;
        if (!HasSlot() && slots_[lists_[last].head].reusable_from > batch) {
          BypassForReuse();
          break;
        }
        Drop(last, batch);
      } else if (!HasSlot()) {
        BypassForReuse();
        break;
      }
      enters_[static_cast<uint32_t>(candidates_.front())] = true;
      ++chosen_;
      ++inside_;
      PopFirst();
    }
    for (const uint64_t candidate : candidates_) {
      dropped_unknown_ += candidate >> 32 == num_batches_;
    }
  }

  // The next use of the candidate that is needed soonest.
  uint32_t NextOfFirst() const {
    return static_cast<uint32_t>(candidates_.front() >> 32);
  }

  void PopFirst() {
    std::pop_heap(candidates_.begin(), candidates_.end(), std::greater<>());
    candidates_.pop_back();
  }

  // Whether there is a slot for one more entry.
  bool HasSlot() const { return NumFreeSlots() > chosen_; }

  // Counts the candidates that would have entered if all slots could be
  // overwritten; they are candidates no more.
  void BypassForReuse() {
    uint32_t room = capacity_ - inside_;
    uint32_t last = LastNeeded();
    uint32_t of_last = lists_[last].size;
    for (; !candidates_.empty(); PopFirst()) {
      if (room > 0) {
        --room;
      } else {
        while (of_last == 0 && last > 0) of_last = lists_[--last].size;
        if (of_last == 0 || last <= NextOfFirst()) break;
        --of_last;
      }
      ++totals_.uncertified;
    }
  }

  void Enter() {
    entries_.clear();
    for (uint32_t read = 0; chosen_ > 0; ++read) {
      if (!enters_[read]) continue;
      const uint32_t slot = TakeSlot();
      state_.nodes[slot] = reads_[read];
      table_[reads_[read]] = slot;
      Hang(next_[static_cast<uint32_t>(misses_[read])], slot);
      entries_.push_back({.read = read, .slot = slot});
      --chosen_;
    }
    // One of the rows that stay may be needed later than one that was dropped.
    if (!complete_ && lists_[num_batches_].size > 0) {
      totals_.uncertified += dropped_unknown_;
    }
  }

  void GiveState() {
    for (uint32_t slot = 0; slot < num_slots_; ++slot) {
      const uint32_t from = slots_[slot].reusable_from;
      state_.idle[slot] = static_cast<uint16_t>(
          reuse_distance_ - (from > end_ ? from - end_ : 0));
    }
  }

  void Push(SlotList& list, uint32_t slot) {
    slots_[slot].link = std::exchange(list.head, slot);
    ++list.size;
  }

  uint32_t Pop(SlotList& list) {
    const uint32_t slot = list.head;
    list.head = slots_[slot].link;
    --list.size;
    return slot;
  }

  // Puts a row inside into the list of its next use.
  void Hang(uint32_t next, uint32_t slot) {
    const uint32_t at = std::min(next, num_batches_);
    Push(lists_[at], slot);
    last_needed_ = std::max(last_needed_, at);
  }

  // The list of the rows inside that are needed last. REQUIRES: there are some.
  uint32_t LastNeeded() {
    while (last_needed_ > 0 && lists_[last_needed_].size == 0) --last_needed_;
    return last_needed_;
  }

  // Takes a row that list `last` begins with out of the cache.
  void Drop(uint32_t last, uint32_t batch) {
    const uint32_t slot = Pop(lists_[last]);
    const uint32_t after = lists_[last].head;
    if (after != kNone) {
      __builtin_prefetch(&slots_[after], /*rw=*/1);
      __builtin_prefetch(&state_.nodes[after], /*rw=*/1);
    }
    table_[std::exchange(state_.nodes[slot], CacheSlots::kFree)] = kNone;
    --inside_;
    drops_.push_back(slot);
    dropped_unknown_ += last == num_batches_;
    if (slots_[slot].reusable_from <= batch) {
      reusable_.push_back(slot);
    } else {
      Cool(slot);
    }
  }

  void Cool(uint32_t slot) {
    cooling_[slots_[slot].reusable_from % cooling_.size()].push_back(slot);
  }

  // Slots without rows that can be overwritten.
  uint32_t NumFreeSlots() const {
    return free_.size + static_cast<uint32_t>(reusable_.size());
  }

  // Takes one of them.
  uint32_t TakeSlot() {
    if (reusable_.empty()) return Pop(free_);
    const uint32_t slot = reusable_.back();
    reusable_.pop_back();
    return slot;
  }

  AccessTrace& trace_;
  const uint32_t num_batches_;
  const uint32_t end_;
  const bool complete_;
  const int64_t num_nodes_;
  const uint32_t num_slots_;
  const uint32_t capacity_;
  const uint32_t reuse_distance_;
  CacheSlots& state_;
  Sink& sink_;
  const std::stop_token stop_;
  NextUseFile next_uses_;
  Totals totals_;

  io::AlignedMemory table_memory_;
  io::AlignedMemory slot_memory_;
  // [num_nodes_], in table_memory_.
  absl::Span<uint32_t> table_;
  // [num_slots_], in slot_memory_.
  absl::Span<Slot> slots_;
  // [num_batches_ + 1].
  std::vector<SlotList> lists_;
  // Lists behind this one are empty.
  uint32_t last_needed_ = 0;
  // Rows inside: in the lists above, or about to enter.
  uint32_t inside_ = 0;
  // Slots without rows: those that can be overwritten since before the first
  // batch; those that rows have left and that can be overwritten, too; the
  // others by the batch from which on they can, modulo the size. Rows leave
  // only a full cache, so that few slots are in the vectors.
  SlotList free_;
  std::vector<uint32_t> reusable_;
  std::vector<std::vector<uint32_t>> cooling_;

  // Of the current batch: next uses of its nodes, with a checksum behind.
  std::vector<uint32_t> next_;
  std::vector<uint32_t> addresses_;
  // (node, position), by read.
  std::vector<uint64_t> misses_;
  std::vector<uint32_t> reads_;
  // (next use, read) of the rows that may enter.
  std::vector<uint64_t> candidates_;
  // [reads], and how many are true.
  std::vector<uint8_t> enters_;
  uint32_t chosen_ = 0;
  // Rows dropped, or kept out, that the trace does not need again.
  int64_t dropped_unknown_ = 0;
  std::vector<Entry> entries_;
  std::vector<uint32_t> drops_;
};

absl::Status CheckOptions(const OptimalCache::Options& options) {
  const auto check = [](const char* name, int64_t value, int64_t limit) {
    if (value >= 0 && value < limit) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(
        name, " = ", value, " of a cache's plan is not below ", limit));
  };
  HEARTH_RETURN_IF_ERROR(check("num_nodes", options.num_nodes, kInside + 1L));
  HEARTH_RETURN_IF_ERROR(check("num_slots", options.num_slots, kInside));
  return check("reuse_distance", options.reuse_distance, UINT16_MAX + 1L);
}

absl::Status CheckSlots(const CacheSlots& slots,
                        const OptimalCache::Options& options) {
  if (std::ssize(slots.nodes) != options.num_slots ||
      std::ssize(slots.idle) != options.num_slots) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a state of ", slots.nodes.size(), " and ", slots.idle.size(),
        " slots is not that of a cache of ", options.num_slots));
  }
  for (size_t slot = 0; slot < slots.nodes.size(); ++slot) {
    if (slots.nodes[slot] != CacheSlots::kFree &&
        slots.nodes[slot] >= options.num_nodes) {
      return absl::InvalidArgumentError(
          absl::StrCat("node ", slots.nodes[slot], " in slot ", slot,
                       " is not one of ", options.num_nodes));
    }
    if (slots.idle[slot] > options.reuse_distance) {
      return absl::InvalidArgumentError(absl::StrCat(
          "slot ", slot, " is idle for ", slots.idle[slot],
          " batches: more than the distance ", options.reuse_distance));
    }
  }
  return absl::OkStatus();
}

}  // namespace

int64_t OptimalCache::Capacity(const Options& options) {
  if (options.reuse_distance == 0 || options.num_slots >= options.num_nodes) {
    return options.num_slots;
  }
  return std::max(options.num_slots * 15 / 16,
                  std::min<int64_t>(options.num_slots, 1));
}

CacheSlots OptimalCache::FreeSlots(const Options& options) {
  const auto slots = static_cast<size_t>(options.num_slots);
  return {.nodes = std::vector<uint32_t>(slots, CacheSlots::kFree),
          .idle = std::vector<uint16_t>(
              slots, static_cast<uint16_t>(options.reuse_distance))};
}

absl::StatusOr<Totals> OptimalCache::Plan(io::FileSystem& files,
                                          AccessTrace& trace, int64_t end,
                                          bool complete, bool fill,
                                          const Options& options,
                                          CacheSlots& slots, Sink& sink,
                                          std::stop_token stop) {
  HEARTH_RETURN_IF_ERROR(CheckOptions(options));
  HEARTH_RETURN_IF_ERROR(CheckSlots(slots, options));
  if (trace.num_batches() >= kMaxBatches) {
    return absl::InvalidArgumentError(
        absl::StrCat("an access trace of ", trace.num_batches(),
                     " batches is too long: the limit is ", kMaxBatches - 1));
  }
  if (end < 0 || end > trace.num_batches()) {
    return absl::InvalidArgumentError(
        absl::StrCat("an access trace of ", trace.num_batches(),
                     " batches cannot be planned up to batch ", end));
  }
  Planner planner(files, trace, end, complete, options, slots, sink,
                  std::move(stop));
  return planner.Plan(fill);
}

uint64_t OptimalCache::MemoryBytes(int64_t num_nodes, int64_t num_slots,
                                   int64_t largest_batch, int64_t num_batches) {
  // Rows of a call of Sink::Fill, and vectors of cooling slots.
  constexpr uint64_t kFixed = 4 << 20;
  return 4 * static_cast<uint64_t>(num_nodes) +
         15 * static_cast<uint64_t>(num_slots) +
         12 * (static_cast<uint64_t>(num_batches) + 1) +
         60 * static_cast<uint64_t>(largest_batch) + kFixed;
}

}  // namespace hearth::plan
