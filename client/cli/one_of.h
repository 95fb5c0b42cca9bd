#ifndef HEARTH_CLIENT_CLI_ONE_OF_H_
#define HEARTH_CLIENT_CLI_ONE_OF_H_

#include <CLI/CLI.hpp>
#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "proto/options/suggestion.h"

namespace hearth::cli {

/// For options whose value is one of `words`: refuses all others, naming the
/// one that may be meant, and turns the word into its value. Help shows the
/// words.
template <typename Value>
CLI::Validator OneOf(const std::map<std::string, Value>& words) {
  std::vector<std::string> names;
  for (const auto& [name, value] : words) names.push_back(name);
  return CLI::Validator(
      [words, names](std::string& text) -> std::string {
        const auto found = words.find(text);
        if (found == words.end()) {
          return absl::StrCat("\"", text, "\" is not one of ",
                              absl::StrJoin(names, ", "),
                              options::DidYouMean(text, names));
        }
        text = CLI::detail::value_string(found->second);
        return "";
      },
      absl::StrCat("{", absl::StrJoin(names, ","), "}"));
}

/// The same for options whose value is the word itself; help has them in the
/// order of `words`.
inline CLI::Validator OneOf(const std::vector<std::string>& words) {
  return CLI::Validator(
      [words](std::string& text) -> std::string {
        if (std::find(words.begin(), words.end(), text) != words.end()) {
          return "";
        }
        return absl::StrCat("\"", text, "\" is not one of ",
                            absl::StrJoin(words, ", "),
                            options::DidYouMean(text, words));
      },
      absl::StrCat("{", absl::StrJoin(words, ","), "}"));
}

}  // namespace hearth::cli

#endif  // HEARTH_CLIENT_CLI_ONE_OF_H_
