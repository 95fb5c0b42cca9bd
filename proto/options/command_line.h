#ifndef HEARTH_PROTO_OPTIONS_COMMAND_LINE_H_
#define HEARTH_PROTO_OPTIONS_COMMAND_LINE_H_

#include <CLI/App.hpp>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

/// What to say of words that are not known: names of options and commands, keys
/// of files, values.

namespace CLI {
class App;
class ParseError;
}  // namespace CLI

namespace hearth::options {

/// The one of `known` that `word` was meant to be: the nearest one, of which a
/// third of the characters at most are missing, wrong, too many or swapped, or
/// else the only one that begins with `word`. Capitals count as small letters,
/// and "_" as "-". Empty if there is none.
std::string Nearest(absl::string_view word,
                    absl::Span<const std::string> known);

/// "; did you mean gnndrive?", or nothing if none of `known` is near.
std::string DidYouMean(absl::string_view word,
                       absl::Span<const std::string> known);

/// The fault of a command line that `app` did not parse, for people: which
/// option or command is unknown, and which may be meant; which argument is too
/// many; else `error`'s own words. `arguments` are in the order in which they
/// were typed.
std::string ParseFault(const CLI::App& app, const CLI::ParseError& error,
                       absl::Span<const std::string> arguments);

}  // namespace hearth::options

namespace hearth::options {

/// Parts of a manual page beside its command.
struct ManPageHead {
  /// "hearth-train": its file is NAME.SECTION.
  std::string name = {};
  int section = 1;
  /// The command as it is typed: "hearth train".
  std::string command = {};
  /// "Hearth 0.1.0".
  std::string source = {};
  /// Paragraphs behind the command's own description.
  std::vector<std::string> paragraphs = {};
  /// The commands below are named alone: they have pages of their own.
  bool names_commands = false;
  /// Other pages: "hearthd(8)".
  std::vector<std::string> see_also = {};
};

/// The manual page of a command, as roff: what its help tells, and that of the
/// commands below it.
std::string ManPage(const CLI::App& command, const ManPageHead& head);

}  // namespace hearth::options

#endif  // HEARTH_PROTO_OPTIONS_COMMAND_LINE_H_
