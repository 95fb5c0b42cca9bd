#include "server/cluster/outcome.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <type_traits>
#include <utility>

#include "absl/status/status.h"
#include "engine/base/status.h"
#include "engine/train/metric.h"

// Values one behind the other, little-endian. Frames have checksums, and
// machines of other versions are not let in, so that nothing else needs to tell
// what the bytes are.

namespace hearth::server {

namespace {

class Writer {
 public:
  template <typename T>
  void Add(const T& value) {
    static_assert(std::is_arithmetic_v<T>);
    text_.append(reinterpret_cast<const char*>(&value), sizeof(value));
  }
  void AddText(absl::string_view text) {
    Add(uint64_t{text.size()});
    text_.append(text.data(), text.size());
  }
  std::string Take() { return std::move(text_); }

 private:
  std::string text_;
};

// Takes zeros behind the end, which AtEnd tells.
class Reader {
 public:
  explicit Reader(absl::string_view text) : text_(text) {}

  template <typename T>
  void Take(T& value) {
    static_assert(std::is_arithmetic_v<T>);
    const absl::string_view bytes = TakeBytes(sizeof(value));
    value = {};
    if (!bytes.empty()) std::memcpy(&value, bytes.data(), bytes.size());
  }
  template <typename T>
  T Take() {
    T value;
    Take(value);
    return value;
  }
  absl::string_view TakeText() { return TakeBytes(Take<uint64_t>()); }
  // A number of values of at least `least_bytes` bytes each.
  uint64_t TakeCount(size_t least_bytes) {
    const auto count = Take<uint64_t>();
    if (count <= text_.size() / least_bytes) return count;
    is_short_ = true;
    return 0;
  }

  absl::Status AtEnd() const {
    if (!is_short_ && text_.empty()) return absl::OkStatus();
    return absl::DataLossError("a message has another length than it says");
  }

 private:
  absl::string_view TakeBytes(uint64_t bytes) {
    if (bytes > text_.size()) {
      is_short_ = true;
      text_ = {};
    }
    const absl::string_view taken = text_.substr(0, bytes);
    text_.remove_prefix(taken.size());
    return taken;
  }

  absl::string_view text_;
  bool is_short_ = false;
};

// Calls `field` with each number of a result, in the order of the message.
template <typename Result, typename Field>
void ForEachNumber(Result& result, Field field) {
  field(result.loss);
  field(result.num_seeds);
  field(result.weight);
  field(result.tally.num_predictions);
  field(result.tally.num_correct);
  field(result.tally.true_positives);
  field(result.tally.false_positives);
  field(result.tally.false_negatives);
  field(result.tally.squared_error);
  field(result.tally.ranking.columns);
}

void Add(const train::BatchResult& result, Writer& writer) {
  ForEachNumber(result, [&](const auto& number) { writer.Add(number); });
  writer.Add(uint64_t{result.tally.ranking.scores.size()});
  for (const train::RankedScore& score : result.tally.ranking.scores) {
    writer.Add(score.score);
    writer.Add(static_cast<uint8_t>(score.is_positive ? 1 : 0));
    writer.Add(static_cast<uint8_t>(score.is_known ? 1 : 0));
  }
}

train::BatchResult TakeResult(Reader& reader) {
  train::BatchResult result;
  ForEachNumber(result, [&](auto& number) { reader.Take(number); });
  auto& scores = result.tally.ranking.scores;
  scores.resize(reader.TakeCount(sizeof(float) + 2));
  for (train::RankedScore& score : scores) {
    reader.Take(score.score);
    score.is_positive = reader.Take<uint8_t>() != 0;
    score.is_known = reader.Take<uint8_t>() != 0;
  }
  return result;
}

void Add(const absl::Status& status, Writer& writer) {
  writer.Add(static_cast<int32_t>(status.code()));
  if (!status.ok()) writer.AddText(status.message());
}

absl::Status TakeStatus(Reader& reader) {
  const auto code = static_cast<absl::StatusCode>(reader.Take<int32_t>());
  if (code == absl::StatusCode::kOk) return absl::OkStatus();
  return {code, reader.TakeText()};
}

}  // namespace

std::string Encode(const Outcome& outcome) {
  Writer writer;
  writer.Add(outcome.epoch);
  writer.Add(outcome.batch);
  writer.Add(outcome.sums_crc);
  writer.Add(static_cast<uint8_t>(outcome.leaves ? 1 : 0));
  Add(outcome.result.status(), writer);
  if (outcome.result.ok()) Add(*outcome.result, writer);
  return writer.Take();
}

absl::StatusOr<Outcome> DecodeOutcome(absl::string_view text) {
  Reader reader(text);
  Outcome outcome;
  reader.Take(outcome.epoch);
  reader.Take(outcome.batch);
  reader.Take(outcome.sums_crc);
  outcome.leaves = reader.Take<uint8_t>() != 0;
  if (absl::Status status = TakeStatus(reader); status.ok()) {
    outcome.result = TakeResult(reader);
  } else {
    outcome.result = std::move(status);
  }
  HEARTH_RETURN_IF_ERROR(reader.AtEnd());
  return outcome;
}

std::string Encode(const Decision& decision) {
  Writer writer;
  writer.Add(static_cast<uint8_t>(decision.leaves ? 1 : 0));
  Add(decision.results.status(), writer);
  if (decision.results.ok()) {
    writer.Add(uint64_t{decision.results->size()});
    for (const train::BatchResult& result : *decision.results) {
      Add(result, writer);
    }
  }
  return writer.Take();
}

absl::StatusOr<Decision> DecodeDecision(absl::string_view text) {
  Reader reader(text);
  Decision decision;
  decision.leaves = reader.Take<uint8_t>() != 0;
  absl::Status status = TakeStatus(reader);
  std::vector<train::BatchResult> results;
  if (status.ok()) {
    results.resize(reader.TakeCount(sizeof(uint64_t)));
    for (train::BatchResult& result : results) result = TakeResult(reader);
  }
  HEARTH_RETURN_IF_ERROR(reader.AtEnd());
  if (status.ok()) {
    decision.results = std::move(results);
  } else {
    decision.results = std::move(status);
  }
  return decision;
}

namespace {

absl::StatusOr<std::vector<train::BatchResult>> ResultsOf(
    const std::vector<Outcome>& outcomes) {
  std::vector<train::BatchResult> results;
  for (const Outcome& outcome : outcomes) {
    HEARTH_RETURN_IF_ERROR(outcome.result.status());
    results.push_back(*outcome.result);
  }
  const Outcome& first = outcomes.front();
  for (const Outcome& outcome : outcomes) {
    if (outcome.epoch != first.epoch || outcome.batch != first.batch) {
      return absl::AbortedError("ranks are at different batches");
    }
    if (outcome.sums_crc != first.sums_crc) {
      return absl::AbortedError("replicas differ");
    }
  }
  return results;
}

}  // namespace

Decision Decide(const std::vector<Outcome>& outcomes) {
  return {.results = ResultsOf(outcomes),
          .leaves = std::any_of(
              outcomes.begin(), outcomes.end(),
              [](const Outcome& outcome) { return outcome.leaves; })};
}

}  // namespace hearth::server
