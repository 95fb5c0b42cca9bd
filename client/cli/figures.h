#ifndef HEARTH_CLIENT_CLI_FIGURES_H_
#define HEARTH_CLIENT_CLI_FIGURES_H_

#include <google/protobuf/timestamp.pb.h>

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace hearth::cli {

/// "117,659".
std::string FormatCount(uint64_t count);

/// "1 epoch", "2 epochs", "1,200 epochs": `one` with an s unless `many` says
/// how several are called.
std::string Counted(uint64_t count, absl::string_view one,
                    absl::string_view many = "");

/// A loss: "0.6931"; with four significant digits, "4.714e+19", where four
/// decimals say too little or would take too many digits.
std::string FormatLoss(double value);

/// "0:42", "12:05", "1:02:03": whole seconds, rounded.
std::string FormatDuration(double seconds);

/// The fewest digits that read back as `value`: "0.003".
std::string FormatDouble(double value);

/// "2026-01-31 13:05:00" in the local time zone; "-" for no time.
std::string FormatTimestamp(const google::protobuf::Timestamp& time);

/// Seconds since 1970.
double Seconds(const google::protobuf::Timestamp& time);

}  // namespace hearth::cli

#endif  // HEARTH_CLIENT_CLI_FIGURES_H_
