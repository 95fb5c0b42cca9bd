#include "engine/ingest/parse/pickle_reader.h"

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "engine/base/status.h"
#include "engine/ingest/parse/byte_stream.h"
#include "engine/ingest/parse/pickle_calls.h"
#include "engine/ingest/parse/pickle_value.h"
#include "engine/io/file_system.h"

namespace hearth::ingest {

namespace {

constexpr uint64_t kBufferBytes = 64 << 10;
constexpr size_t kMaxLineBytes = 256;
constexpr uint64_t kMaxProtocol = 5;

/// Reads the bytes of a pickle in order, 64 KiB at a time. Single-owner.
class PickleInput {
 public:
  /// Reads from `begin` on, at most `limit` bytes. `file` must outlive this.
  static absl::StatusOr<PickleInput> Open(io::ReadableFile& file,
                                          uint64_t begin, uint64_t limit);

  /// Offset in the file of the next byte.
  uint64_t position() const { return next_ - (buffer_.size() - used_); }

  /// The next byte. DATA_LOSS at the end of the file, RESOURCE_EXHAUSTED at the
  /// limit.
  absl::StatusOr<uint8_t> TakeByte();
  /// The next `count` <= 8 bytes as a little-endian number.
  absl::StatusOr<uint64_t> TakeNumber(size_t count);
  /// The next `count` bytes; `count` is checked against the size of the file
  /// before memory is allocated.
  absl::StatusOr<std::string> TakeBytes(uint64_t count);
  /// The next line, at most 256 bytes, without its newline.
  absl::StatusOr<std::string> TakeLine();

 private:
  PickleInput(io::ReadableFile& file, uint64_t begin, uint64_t end,
              uint64_t file_size)
      : file_(&file), next_(begin), end_(end), file_size_(file_size) {}

  absl::Status CheckLeft(uint64_t count) const;
  absl::Status Fill();

  io::ReadableFile* file_;
  std::vector<std::byte> buffer_;
  size_t used_ = 0;
  /// Offset in the file after the buffer.
  uint64_t next_;
  uint64_t end_;
  uint64_t file_size_;
};

absl::StatusOr<PickleInput> PickleInput::Open(io::ReadableFile& file,
                                              uint64_t begin, uint64_t limit) {
  HEARTH_ASSIGN_OR_RETURN(const io::FileInfo info, file.Info());
  const uint64_t start = std::min(begin, info.size_bytes);
  const uint64_t end = start + std::min(limit, info.size_bytes - start);
  return PickleInput(file, start, end, info.size_bytes);
}

absl::Status PickleInput::CheckLeft(uint64_t count) const {
  if (count <= end_ - position()) return absl::OkStatus();
  if (end_ == file_size_) {
    return absl::DataLossError(
        absl::StrCat("is truncated: the pickle goes on after byte ", end_));
  }
  return absl::ResourceExhaustedError(
      absl::StrCat("has a pickle that goes on after byte ", end_,
                   ", the most that is read"));
}

absl::Status PickleInput::Fill() {
  HEARTH_RETURN_IF_ERROR(CheckLeft(1));
  buffer_.resize(std::min(kBufferBytes, end_ - next_));
  used_ = 0;
  HEARTH_RETURN_IF_ERROR(file_->Read(next_, absl::MakeSpan(buffer_)));
  next_ += buffer_.size();
  return absl::OkStatus();
}

absl::StatusOr<uint8_t> PickleInput::TakeByte() {
  if (used_ == buffer_.size()) HEARTH_RETURN_IF_ERROR(Fill());
  return std::to_integer<uint8_t>(buffer_[used_++]);
}

absl::StatusOr<uint64_t> PickleInput::TakeNumber(size_t count) {
  uint64_t value = 0;
  for (size_t i = 0; i < count; ++i) {
    HEARTH_ASSIGN_OR_RETURN(const uint64_t byte, TakeByte());
    value |= byte << (8 * i);
  }
  return value;
}

absl::StatusOr<std::string> PickleInput::TakeBytes(uint64_t count) {
  HEARTH_RETURN_IF_ERROR(CheckLeft(count));
  std::string bytes(count, '\0');
  const auto out =
      absl::MakeSpan(reinterpret_cast<std::byte*>(bytes.data()), bytes.size());
  const size_t buffered = std::min<uint64_t>(count, buffer_.size() - used_);
  std::copy_n(buffer_.begin() + static_cast<std::ptrdiff_t>(used_), buffered,
              out.begin());
  used_ += buffered;
  HEARTH_RETURN_IF_ERROR(file_->Read(next_, out.subspan(buffered)));
  next_ += count - buffered;
  return bytes;
}

absl::StatusOr<std::string> PickleInput::TakeLine() {
  std::string line;
  while (true) {
    HEARTH_ASSIGN_OR_RETURN(const uint8_t byte, TakeByte());
    if (byte == '\n') return line;
    if (line.size() == kMaxLineBytes) {
      return absl::InvalidArgumentError(
          absl::StrCat("has a name of more than ", kMaxLineBytes,
                       " bytes at byte ", position()));
    }
    line.push_back(static_cast<char>(byte));
  }
}

// A pickle is a program for a stack machine with a memo (Python's
// pickletools.py describes each opcode). Opcodes that neither torch.save nor
// numpy write are refused. Every opcode takes at least one byte and puts at
// most one thing on the stack, the mark stack or the memo, so the limit on
// opcodes bounds all three.
class Machine {
 public:
  Machine(PickleInput input, const PickleLimits& limits)
      : input_(std::move(input)),
        limits_(limits),
        arena_(limits.max_bytes, limits.max_values) {}

  absl::StatusOr<PickleResult> Run() {
    for (int64_t i = 0; i < limits_.max_opcodes; ++i) {
      opcode_position_ = input_.position();
      HEARTH_ASSIGN_OR_RETURN(const uint8_t opcode, input_.TakeByte());
      if (i == 0 && opcode != 0x80) return Malformed("is no pickle");
      if (opcode == '.') return Finish();
      HEARTH_RETURN_IF_ERROR(AtOpcode(Execute(opcode)));
    }
    return absl::ResourceExhaustedError(absl::StrCat(
        "has a pickle of more than ", limits_.max_opcodes, " opcodes"));
  }

 private:
  absl::Status Execute(uint8_t opcode) {
    switch (opcode) {
      case 0x80:  // PROTO
        return CheckProtocol();
      case 0x95:  // FRAME
        return input_.TakeNumber(8).status();
      case 'N':  // NONE
        return Push(std::monostate());
      case 0x88:  // NEWTRUE
        return Push(true);
      case 0x89:  // NEWFALSE
        return Push(false);
      case 'J':  // BININT
        return PushNumber<int32_t>();
      case 'K':  // BININT1
        return PushNumber<uint8_t>();
      case 'M':  // BININT2
        return PushNumber<uint16_t>();
      case 0x8a:  // LONG1
        return PushLong();
      case 'G':  // BINFLOAT
        return PushFloat();
      default:
        return ExecuteText(opcode);
    }
  }

  absl::Status ExecuteText(uint8_t opcode) {
    switch (opcode) {
      case 0x8c:  // SHORT_BINUNICODE
        return PushText(1);
      case 'X':  // BINUNICODE
        return PushText(4);
      case 0x8d:  // BINUNICODE8
        return PushText(8);
      case 'U':  // SHORT_BINSTRING, Python 2's bytes
      case 'C':  // SHORT_BINBYTES
        return PushBytes(1);
      case 'T':  // BINSTRING
      case 'B':  // BINBYTES
        return PushBytes(4);
      case 0x8e:  // BINBYTES8
      case 0x96:  // BYTEARRAY8
        return PushBytes(8);
      default:
        return ExecuteContainer(opcode);
    }
  }

  absl::Status ExecuteContainer(uint8_t opcode) {
    switch (opcode) {
      case '(':  // MARK
        marks_.push_back(stack_.size());
        return absl::OkStatus();
      case ']':  // EMPTY_LIST
        return Push(PickleList{});
      case ')':  // EMPTY_TUPLE
        return Push(PickleTuple{});
      case '}':  // EMPTY_DICT
        return Push(PickleDict{});
      case 'a':  // APPEND
        return Append(1);
      case 's':  // SETITEM
        return SetItems(2);
      case 0x85:  // TUPLE1
      case 0x86:  // TUPLE2
      case 0x87:  // TUPLE3
        return MakeTuple(opcode - 0x84);
      case 'e':  // APPENDS
      case 'u':  // SETITEMS
      case 't':  // TUPLE
        return ExecuteMarked(opcode);
      default:
        return ExecuteMemo(opcode);
    }
  }

  absl::Status ExecuteMarked(uint8_t opcode) {
    if (marks_.empty() || marks_.back() > stack_.size()) return NoMark();
    const size_t count = stack_.size() - marks_.back();
    marks_.pop_back();
    if (opcode == 't') return MakeTuple(count);
    return opcode == 'e' ? Append(count) : SetItems(count);
  }

  absl::Status ExecuteMemo(uint8_t opcode) {
    switch (opcode) {
      case 'q':  // BINPUT
        return Memorize(1);
      case 'r':  // LONG_BINPUT
        return Memorize(4);
      case 0x94:  // MEMOIZE
        return MemorizeAs(memo_.size());
      case 'h':  // BINGET
        return Recall(1);
      case 'j':  // LONG_BINGET
        return Recall(4);
      default:
        return ExecuteCall(opcode);
    }
  }

  absl::Status ExecuteCall(uint8_t opcode) {
    switch (opcode) {
      case 'c':  // GLOBAL
        return PushGlobal();
      case 0x93:  // STACK_GLOBAL
        return PushStackGlobal();
      case 'R':  // REDUCE
        return Replace(2, Call);
      case 0x81:  // NEWOBJ
        return Replace(2, Make);
      case 'b':  // BUILD
        HEARTH_RETURN_IF_ERROR(Need(2));
        HEARTH_RETURN_IF_ERROR(Build(arena_, *Top(1), *Top(0)));
        stack_.pop_back();
        return absl::OkStatus();
      case 'Q':  // BINPERSID
        return PushStorage();
      default:
        return absl::InvalidArgumentError(
            absl::StrCat("has opcode 0x", absl::Hex(opcode, absl::kZeroPad2),
                         ", which is not read"));
    }
  }

  absl::Status CheckProtocol() {
    HEARTH_ASSIGN_OR_RETURN(const uint64_t protocol, input_.TakeNumber(1));
    if (protocol >= 2 && protocol <= kMaxProtocol) return absl::OkStatus();
    return absl::InvalidArgumentError(absl::StrCat(
        "has protocol ", protocol, "; 2 to ", kMaxProtocol, " are read"));
  }

  absl::Status Push(decltype(PickleValue::data) data) {
    HEARTH_ASSIGN_OR_RETURN(PickleValue* const value,
                            arena_.New(std::move(data)));
    stack_.push_back(value);
    return absl::OkStatus();
  }

  template <typename T>
  absl::Status PushNumber() {
    HEARTH_ASSIGN_OR_RETURN(const uint64_t bits, input_.TakeNumber(sizeof(T)));
    return Push(static_cast<int64_t>(static_cast<T>(bits)));
  }

  absl::Status PushLong() {
    HEARTH_ASSIGN_OR_RETURN(const uint64_t size, input_.TakeNumber(1));
    if (size > 8) {
      return absl::InvalidArgumentError(
          absl::StrCat("has an integer of ", size, " bytes; up to 8 are read"));
    }
    HEARTH_ASSIGN_OR_RETURN(const uint64_t bits, input_.TakeNumber(size));
    // Two's complement: the highest bit is the sign.
    const int unused = static_cast<int>(64 - 8 * size);
    return Push(size == 0 ? int64_t{0}
                          : static_cast<int64_t>(bits << unused) >> unused);
  }

  absl::Status PushFloat() {
    HEARTH_ASSIGN_OR_RETURN(const uint64_t bits, input_.TakeNumber(8));
    return Push(std::bit_cast<double>(__builtin_bswap64(bits)));
  }

  absl::StatusOr<std::string> TakeSized(size_t size_bytes) {
    HEARTH_ASSIGN_OR_RETURN(const uint64_t size, input_.TakeNumber(size_bytes));
    HEARTH_RETURN_IF_ERROR(arena_.Charge(size));
    return input_.TakeBytes(size);
  }

  absl::Status PushText(size_t size_bytes) {
    HEARTH_ASSIGN_OR_RETURN(std::string text, TakeSized(size_bytes));
    return Push(std::move(text));
  }

  absl::Status PushBytes(size_t size_bytes) {
    HEARTH_ASSIGN_OR_RETURN(std::string text, TakeSized(size_bytes));
    return Push(PickleBytes{std::move(text)});
  }

  /// The value `depth` below the top of the stack. REQUIRES: the stack is that
  /// deep.
  PickleValue* Top(size_t depth) const {
    return stack_[stack_.size() - 1 - depth];
  }

  /// INVALID_ARGUMENT unless there are `count` values above the last mark.
  absl::Status Need(size_t count) const {
    const size_t floor = marks_.empty() ? 0 : marks_.back();
    if (stack_.size() >= floor + count) return absl::OkStatus();
    return absl::InvalidArgumentError("takes more values than there are");
  }

  absl::Status NoMark() const {
    return absl::InvalidArgumentError("lacks a mark");
  }

  absl::Status MakeTuple(size_t count) {
    HEARTH_RETURN_IF_ERROR(Need(count));
    PickleTuple tuple;
    tuple.items.assign(stack_.end() - static_cast<std::ptrdiff_t>(count),
                       stack_.end());
    stack_.resize(stack_.size() - count);
    return Push(std::move(tuple));
  }

  absl::Status Append(size_t count) {
    HEARTH_RETURN_IF_ERROR(Need(count + 1));
    auto* const list = std::get_if<PickleList>(&Top(count)->data);
    if (list == nullptr) {
      return absl::InvalidArgumentError(
          absl::StrCat("appends to ", Top(count)->KindName()));
    }
    list->items.insert(list->items.end(),
                       stack_.end() - static_cast<std::ptrdiff_t>(count),
                       stack_.end());
    stack_.resize(stack_.size() - count);
    return absl::OkStatus();
  }

  absl::Status SetItems(size_t count) {
    HEARTH_RETURN_IF_ERROR(Need(count + 1));
    auto* const dict = std::get_if<PickleDict>(&Top(count)->data);
    if (dict == nullptr || count % 2 != 0) {
      return absl::InvalidArgumentError(absl::StrCat(
          "sets ", count, " keys and values of ", Top(count)->KindName()));
    }
    const size_t first = stack_.size() - count;
    for (size_t i = first; i < stack_.size(); i += 2) {
      dict->items.emplace_back(stack_[i], stack_[i + 1]);
    }
    stack_.resize(first);
    return absl::OkStatus();
  }

  absl::Status Memorize(size_t size_bytes) {
    HEARTH_ASSIGN_OR_RETURN(const uint64_t key, input_.TakeNumber(size_bytes));
    return MemorizeAs(key);
  }

  absl::Status MemorizeAs(uint64_t key) {
    HEARTH_RETURN_IF_ERROR(Need(1));
    memo_[key] = Top(0);
    return absl::OkStatus();
  }

  absl::Status Recall(size_t size_bytes) {
    HEARTH_ASSIGN_OR_RETURN(const uint64_t key, input_.TakeNumber(size_bytes));
    const auto found = memo_.find(key);
    if (found == memo_.end()) {
      return absl::InvalidArgumentError(
          absl::StrCat("recalls ", key, ", which was not memorized"));
    }
    stack_.push_back(found->second);
    return absl::OkStatus();
  }

  absl::Status PushGlobal() {
    HEARTH_ASSIGN_OR_RETURN(const std::string module, input_.TakeLine());
    HEARTH_ASSIGN_OR_RETURN(const std::string name, input_.TakeLine());
    HEARTH_ASSIGN_OR_RETURN(const PickleGlobal global,
                            FindGlobal(module, name));
    return Push(global);
  }

  absl::Status PushStackGlobal() {
    HEARTH_RETURN_IF_ERROR(Need(2));
    const auto* const module = Top(1)->As<std::string>();
    const auto* const name = Top(0)->As<std::string>();
    if (module == nullptr || name == nullptr) {
      return absl::InvalidArgumentError("has a global without a name");
    }
    HEARTH_ASSIGN_OR_RETURN(const PickleGlobal global,
                            FindGlobal(*module, *name));
    stack_.resize(stack_.size() - 2);
    return Push(global);
  }

  absl::Status PushStorage() {
    HEARTH_RETURN_IF_ERROR(Need(1));
    HEARTH_ASSIGN_OR_RETURN(stack_.back(), FindStorage(arena_, *Top(0)));
    return absl::OkStatus();
  }

  /// Replaces the two topmost values by the result of `call`.
  template <typename Callable>
  absl::Status Replace(size_t count, Callable call) {
    HEARTH_RETURN_IF_ERROR(Need(count));
    HEARTH_ASSIGN_OR_RETURN(PickleValue* const value,
                            call(arena_, *Top(1), *Top(0)));
    stack_.resize(stack_.size() - count);
    stack_.push_back(value);
    return absl::OkStatus();
  }

  absl::StatusOr<PickleResult> Finish() {
    if (stack_.size() != 1 || !marks_.empty()) {
      return Malformed("ends with other than one value");
    }
    HEARTH_RETURN_IF_ERROR(
        CheckWalk(*stack_[0], limits_.max_depth, limits_.max_walk));
    const uint64_t end = input_.position();
    return PickleResult{arena_.Release(stack_[0]), end};
  }

  absl::Status Malformed(absl::string_view problem) const {
    return AtOpcode(absl::InvalidArgumentError(problem));
  }

  absl::Status AtOpcode(const absl::Status& status) const {
    if (!absl::IsInvalidArgument(status)) return status;
    return Annotate(status, absl::StrCat("pickle, byte ", opcode_position_));
  }

  PickleInput input_;
  const PickleLimits limits_;
  PickleArena arena_;
  std::vector<PickleValue*> stack_;
  /// Stack size at each mark.
  std::vector<size_t> marks_;
  absl::flat_hash_map<uint64_t, PickleValue*> memo_;
  uint64_t opcode_position_ = 0;
};

absl::StatusOr<PickleResult> ReadUnnamed(io::ReadableFile& file, uint64_t begin,
                                         const PickleLimits& limits) {
  HEARTH_ASSIGN_OR_RETURN(PickleInput input,
                          PickleInput::Open(file, begin, limits.max_bytes));
  return Machine(std::move(input), limits).Run();
}

}  // namespace

absl::StatusOr<PickleResult> ReadPickle(io::ReadableFile& file, uint64_t begin,
                                        const PickleLimits& limits) {
  auto result = ReadUnnamed(file, begin, limits);
  if (!result.ok()) return Named(result.status(), file.path());
  return result;
}

}  // namespace hearth::ingest
