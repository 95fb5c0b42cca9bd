#ifndef HEARTH_CLIENT_CLI_OPTION_VALUES_H_
#define HEARTH_CLIENT_CLI_OPTION_VALUES_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/status.h"

namespace hearth::cli {

/// An option's value as it was written, and where.
struct OptionValue {
  std::string text;
  /// For error messages: "--epochs" or "job.yaml line 3: epochs".
  std::string source;
};

/// Values by option name, such as "batch-size".
using OptionValues = std::map<std::string, OptionValue>;

/// Reads typed values. Each call gives nothing where the option is absent or
/// wrong; status() then tells the first one that was wrong. Single-owner.
class OptionReader {
 public:
  /// `values` must outlive the reader.
  explicit OptionReader(const OptionValues& values) : values_(values) {}

  bool Has(const std::string& name) const { return values_.contains(name); }

  std::optional<std::string> Text(const std::string& name);
  /// A whole number from `low` to `high`.
  std::optional<uint64_t> Whole(const std::string& name, uint64_t low,
                                uint64_t high);
  /// A whole number from 1 up that fits into 32 bits; 0, which leaves the value
  /// to the daemon, where absent.
  uint32_t PositiveOrDefault(const std::string& name);
  /// A finite number that is at least `low`, or above it if `above`.
  std::optional<double> Number(const std::string& name, double low,
                               bool above = false);
  /// "10,10,-1": whole numbers that fit into 32 bits, -1 or more but not 0.
  std::optional<std::vector<int32_t>> Fanouts(const std::string& name);
  /// Bytes: "512MiB", "4GB".
  std::optional<uint64_t> Bytes(const std::string& name);
  /// "true" or "false"; false where absent.
  bool Flag(const std::string& name);
  /// One of `choices`; `fallback` where absent.
  std::string Choice(const std::string& name,
                     const std::vector<std::string>& choices,
                     const std::string& fallback);
  /// An error if the option is there: `why` says when it applies.
  void Refuse(const std::string& name, const std::string& why);

  /// OK, or INVALID_ARGUMENT for the first wrong option.
  const absl::Status& status() const { return status_; }

 private:
  void Fail(const OptionValue& value, const std::string& what);

  const OptionValues& values_;
  absl::Status status_;
};

}  // namespace hearth::cli

#endif  // HEARTH_CLIENT_CLI_OPTION_VALUES_H_
