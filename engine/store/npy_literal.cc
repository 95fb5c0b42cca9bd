#include "engine/store/npy_literal.h"

#include <set>
#include <utility>

#include "absl/status/status.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "engine/base/status_macros.h"

namespace hearth::store {
namespace {

// numpy's own limit.
constexpr size_t kMaxDimensions = 32;

class Parser {
 public:
  explicit Parser(absl::string_view text) : text_(text) {}

  absl::StatusOr<NpyDictionary> Parse() {
    if (!Take('{')) return Malformed("'{'");
    while (!Take('}')) {
      HEARTH_RETURN_IF_ERROR(ParseItem());
      if (Take('}')) break;
      if (!Take(',')) return Malformed("',' or '}'");
    }
    SkipSpace();
    if (position_ != text_.size()) return Malformed("nothing more");
    for (const char* key : {"descr", "fortran_order", "shape"}) {
      if (keys_.count(key) == 0) {
        return absl::InvalidArgumentError(
            absl::StrCat("the header lacks '", key, "'"));
      }
    }
    return std::move(dictionary_);
  }

 private:
  absl::Status ParseItem() {
    HEARTH_ASSIGN_OR_RETURN(const std::string key, ParseString());
    if (!Take(':')) return Malformed("':'");
    if (!keys_.insert(key).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("the header has '", absl::CEscape(key), "' twice"));
    }
    if (key == "descr") return ParseDescr();
    if (key == "fortran_order") return ParseBool();
    if (key == "shape") return ParseShape();
    return absl::InvalidArgumentError(
        absl::StrCat("the header has an unknown '", absl::CEscape(key), "'"));
  }

  absl::Status ParseDescr() {
    SkipSpace();
    if (position_ < text_.size() && text_[position_] == '[') {
      return absl::InvalidArgumentError(
          "has a structured element type; plain numbers are needed");
    }
    HEARTH_ASSIGN_OR_RETURN(dictionary_.descr, ParseString());
    return absl::OkStatus();
  }

  absl::Status ParseBool() {
    SkipSpace();
    if (TakeWord("True")) {
      dictionary_.fortran_order = true;
    } else if (TakeWord("False")) {
      dictionary_.fortran_order = false;
    } else {
      return Malformed("True or False");
    }
    return absl::OkStatus();
  }

  absl::Status ParseShape() {
    if (!Take('(')) return Malformed("'('");
    while (!Take(')')) {
      HEARTH_ASSIGN_OR_RETURN(const int64_t dimension, ParseDimension());
      dictionary_.shape.push_back(dimension);
      if (dictionary_.shape.size() > kMaxDimensions) {
        return absl::InvalidArgumentError(
            absl::StrCat("has more than ", kMaxDimensions, " dimensions"));
      }
      if (Take(')')) {
        // In Python, (3) is a number.
        if (dictionary_.shape.size() == 1) return Malformed("',' before ')'");
        break;
      }
      if (!Take(',')) return Malformed("',' or ')'");
    }
    return absl::OkStatus();
  }

  absl::StatusOr<int64_t> ParseDimension() {
    SkipSpace();
    size_t end = position_;
    while (end < text_.size() && absl::ascii_isdigit(text_[end])) ++end;
    const absl::string_view digits = text_.substr(position_, end - position_);
    if (digits.empty()) return Malformed("a number of elements");
    int64_t value = 0;
    if (!absl::SimpleAtoi(digits, &value)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "has a dimension of ", digits.substr(0, 40), " elements"));
    }
    position_ = end;
    // Python 2 wrote long integers so.
    TakeWord("L");
    return value;
  }

  absl::StatusOr<std::string> ParseString() {
    SkipSpace();
    if (position_ >= text_.size()) return Malformed("a string");
    const char quote = text_[position_];
    if (quote != '\'' && quote != '"') return Malformed("a string");
    const size_t end = text_.find(quote, position_ + 1);
    if (end == absl::string_view::npos) return Malformed("a whole string");
    const absl::string_view value =
        text_.substr(position_ + 1, end - position_ - 1);
    if (absl::StrContains(value, '\\')) {
      return Malformed("a string without escapes");
    }
    position_ = end + 1;
    return std::string(value);
  }

  void SkipSpace() {
    while (position_ < text_.size() && absl::ascii_isspace(text_[position_])) {
      ++position_;
    }
  }

  bool Take(char wanted) {
    SkipSpace();
    return TakeWord(absl::string_view(&wanted, 1));
  }

  bool TakeWord(absl::string_view wanted) {
    if (!absl::StartsWith(text_.substr(position_), wanted)) return false;
    position_ += wanted.size();
    return true;
  }

  absl::Status Malformed(absl::string_view expected) const {
    return absl::InvalidArgumentError(absl::StrCat(
        "the header has \"", absl::CEscape(text_.substr(position_, 20)),
        "\" at ", position_, " where ", expected, " should be"));
  }

  const absl::string_view text_;
  size_t position_ = 0;
  std::set<std::string> keys_;
  NpyDictionary dictionary_;
};

}  // namespace

absl::StatusOr<NpyDictionary> ParseNpyDictionary(absl::string_view text) {
  return Parser(text).Parse();
}

}  // namespace hearth::store
