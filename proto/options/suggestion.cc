#include "proto/options/suggestion.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstddef>
#include <set>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"

namespace hearth::options {
namespace {

// The shortest beginning of a word that is taken for one.
constexpr size_t kLeastPrefix = 3;

std::string Plain(absl::string_view word) {
  return absl::StrReplaceAll(absl::AsciiStrToLower(word), {{"_", "-"}});
}

// Characters to insert, remove, replace or swap with the next one until `a` is
// `b` (optimal string alignment).
size_t Distance(absl::string_view a, absl::string_view b) {
  std::vector<std::vector<size_t>> least(a.size() + 1,
                                         std::vector<size_t>(b.size() + 1));
  for (size_t i = 0; i <= a.size(); ++i) {
    for (size_t j = 0; j <= b.size(); ++j) {
      if (i == 0 || j == 0) {
        least[i][j] = i + j;
        continue;
      }
      least[i][j] = std::min({least[i - 1][j] + 1, least[i][j - 1] + 1,
                              least[i - 1][j - 1] + (a[i - 1] != b[j - 1])});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1]) {
        least[i][j] = std::min(least[i][j], least[i - 2][j - 2] + 1);
      }
    }
  }
  return least[a.size()][b.size()];
}

// The innermost command that was named.
const CLI::App& Innermost(const CLI::App& app) {
  const std::vector<CLI::App*> named = app.get_subcommands();
  return named.empty() ? app : Innermost(*named.front());
}

std::vector<std::string> CommandNames(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* command : app.get_subcommands(nullptr)) {
    if (!command->get_name().empty()) names.push_back(command->get_name());
  }
  return names;
}

// The long options that a command takes, with dashes: its own, and those of the
// commands above it.
std::vector<std::string> OptionNames(const CLI::App& app) {
  std::vector<std::string> names;
  for (const CLI::App* at = &app; at != nullptr; at = at->get_parent()) {
    for (const CLI::Option* option : at->get_options()) {
      for (const std::string& name : option->get_lnames()) {
        names.push_back(absl::StrCat("--", name));
      }
    }
  }
  return names;
}

bool IsOption(absl::string_view word) {
  return word.size() > 1 && word.front() == '-' &&
         !absl::ascii_isdigit(static_cast<unsigned char>(word[1]));
}

}  // namespace

std::string Nearest(absl::string_view word,
                    absl::Span<const std::string> known) {
  const std::string plain = Plain(word);
  std::string nearest;
  size_t least = std::max<size_t>(plain.size() / 3, 1) + 1;
  std::vector<std::string> longer;
  for (const std::string& one : known) {
    const size_t distance = Distance(plain, Plain(one));
    if (distance < least) {
      least = distance;
      nearest = one;
    }
    if (plain.size() >= kLeastPrefix && absl::StartsWith(Plain(one), plain)) {
      longer.push_back(one);
    }
  }
  if (nearest.empty() && longer.size() == 1) return longer.front();
  return nearest;
}

std::string DidYouMean(absl::string_view word,
                       absl::Span<const std::string> known) {
  const std::string nearest = Nearest(word, known);
  return nearest.empty() ? "" : absl::StrCat("; did you mean ", nearest, "?");
}

std::string ParseFault(const CLI::App& app, const CLI::ParseError& error,
                       absl::Span<const std::string> arguments) {
  // The parser gives what it did not take in an order of its own.
  const std::vector<std::string> rest = app.remaining(/*recurse=*/true);
  std::multiset<std::string> unknown(rest.begin(), rest.end());
  const CLI::App& command = Innermost(app);
  const std::vector<std::string> commands = CommandNames(command);
  std::vector<std::string> faults;
  bool may_be_value = false;
  for (const std::string& word : arguments) {
    const auto found = unknown.find(word);
    const bool is_value = may_be_value;
    may_be_value = false;
    if (found == unknown.end()) continue;
    unknown.erase(found);
    if (IsOption(word)) {
      const std::string name = word.substr(0, word.find('='));
      faults.push_back(absl::StrCat("unknown option ", name,
                                    DidYouMean(name, OptionNames(command))));
      // Of an option that is not known, nor is whether it has a value.
      may_be_value = name == word;
    } else if (!is_value && !commands.empty()) {
      // What follows an unknown command is its own.
      return absl::StrCat("unknown command ", word, DidYouMean(word, commands));
    } else if (!is_value) {
      faults.push_back(absl::StrCat("unexpected argument \"", word, "\""));
    }
  }
  return faults.empty() ? error.what() : absl::StrJoin(faults, "\n");
}

}  // namespace hearth::options
