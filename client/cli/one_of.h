#ifndef HEARTH_CLIENT_CLI_ONE_OF_H_
#define HEARTH_CLIENT_CLI_ONE_OF_H_

#include <CLI/CLI.hpp>
#include <map>
#include <string>

#include "absl/strings/str_join.h"

namespace hearth::cli {

/// For options whose value is one of `words`: refuses all others and turns the
/// word into its value. Help shows the words.
template <typename Value>
CLI::Validator OneOf(const std::map<std::string, Value>& words) {
  CLI::CheckedTransformer transformer(words);
  const auto word = [](std::string* out, const auto& entry) {
    out->append(entry.first);
  };
  return transformer.description("{" + absl::StrJoin(words, ",", word) + "}");
}

}  // namespace hearth::cli

#endif  // HEARTH_CLIENT_CLI_ONE_OF_H_
