#include "engine/ingest/parse/delimited.h"

#include <charconv>
#include <cmath>
#include <cstddef>
#include <system_error>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"

namespace hearth::ingest {
namespace {

bool IsBlank(char c) { return c == ' ' || c == '\t'; }

/// Takes the fields of a line one by one.
class FieldScanner {
 public:
  FieldScanner(absl::string_view line, Separator separator)
      : next_(line.data()),
        end_(line.data() + line.size()),
        separator_(separator) {
    SkipBlanks();
    // A line of blanks has no fields.
    done_ = next_ == end_;
  }

  bool done() const { return done_; }

  /// REQUIRES: !done().
  absl::string_view Take() {
    const char* const start = next_;
    const char* stop = start;
    if (separator_ == Separator::kComma) {
      while (next_ != end_ && *next_ != ',') ++next_;
      stop = next_;
      while (stop != start && IsBlank(stop[-1])) --stop;
      done_ = next_ == end_;
      if (!done_) ++next_;
      SkipBlanks();
    } else {
      while (next_ != end_ && !IsBlank(*next_)) ++next_;
      stop = next_;
      SkipBlanks();
      done_ = next_ == end_;
    }
    return absl::string_view(start, static_cast<size_t>(stop - start));
  }

 private:
  void SkipBlanks() {
    while (next_ != end_ && IsBlank(*next_)) ++next_;
  }

  const char* next_;
  const char* const end_;
  const Separator separator_;
  bool done_ = false;
};

template <typename T>
constexpr const char* NameOf() {
  return std::is_integral_v<T> ? "an integer" : "a number";
}

absl::Status FieldError(const TextLines& lines, size_t index,
                        absl::string_view problem) {
  return absl::InvalidArgumentError(absl::StrCat(lines.path(), ": line ",
                                                 lines.number(), ", field ",
                                                 index + 1, ": ", problem));
}

// The text is not shown: the file may be none that was meant to be read.
template <typename T>
absl::Status Refuse(const TextLines& lines, size_t index, std::errc error) {
  if (error == std::errc::result_out_of_range) {
    return FieldError(lines, index,
                      absl::StrCat("is ", NameOf<T>(), " out of range"));
  }
  return FieldError(lines, index, absl::StrCat("is not ", NameOf<T>()));
}

/// Whether a number that did not fit is too small rather than too large.
template <typename T>
bool IsTiny(absl::string_view field) {
  if constexpr (std::is_floating_point_v<T>) {
    long double value = 0;
    const auto result =
        std::from_chars(field.data(), field.data() + field.size(), value);
    if (result.ec == std::errc()) return std::fabs(value) < 1;
    // Beyond even that: the sign of the exponent tells.
    return field.find("e-") != absl::string_view::npos ||
           field.find("E-") != absl::string_view::npos;
  }
  return false;
}

template <typename T>
absl::Status Parse(const TextLines& lines, Separator separator,
                   absl::Span<T> out) {
  FieldScanner scanner(lines.line(), separator);
  for (size_t i = 0; i < out.size(); ++i) {
    if (scanner.done()) {
      return lines.Error(
          absl::StrCat("has ", i, " fields; ", out.size(), " are needed"));
    }
    const absl::string_view field = scanner.Take();
    const char* const end = field.data() + field.size();
    const auto result = std::from_chars(field.data(), end, out[i]);
    if (result.ec == std::errc() && result.ptr == end) continue;
    if (result.ec == std::errc::result_out_of_range && result.ptr == end &&
        IsTiny<T>(field)) {
      out[i] = 0;
      continue;
    }
    return Refuse<T>(lines, i, result.ptr == end ? result.ec : std::errc());
  }
  if (scanner.done()) return absl::OkStatus();
  return lines.Error(absl::StrCat("has more than ", out.size(), " fields"));
}

}  // namespace

void SplitFields(absl::string_view line, Separator separator,
                 std::vector<absl::string_view>& fields) {
  fields.clear();
  FieldScanner scanner(line, separator);
  while (!scanner.done()) fields.push_back(scanner.Take());
}

absl::Status ParseFields(const TextLines& lines, Separator separator,
                         absl::Span<int64_t> out) {
  return Parse(lines, separator, out);
}

absl::Status ParseFields(const TextLines& lines, Separator separator,
                         absl::Span<float> out) {
  return Parse(lines, separator, out);
}

absl::Status ParseFields(const TextLines& lines, Separator separator,
                         absl::Span<double> out) {
  return Parse(lines, separator, out);
}

}  // namespace hearth::ingest
