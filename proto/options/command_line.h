#ifndef HEARTH_PROTO_OPTIONS_COMMAND_LINE_H_
#define HEARTH_PROTO_OPTIONS_COMMAND_LINE_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/types/span.h"

/// Texts about a command line: the known word that an unknown one was meant to
/// be (option, command, key of a file, value), the fault of a line that could
/// not be parsed, and manual pages. CLI11 is included by the .cc alone.

namespace CLI {
class App;
class ParseError;
}  // namespace CLI

namespace hearth::options {

/// The word of `known` that `word` was meant to be: the nearest one, if at most
/// a third of the characters are missing, wrong, too many or swapped; else the
/// only one that begins with `word`. Capitals count as small letters, "_" as
/// "-". Empty if there is none.
std::string Nearest(absl::string_view word,
                    absl::Span<const std::string> known);

/// "; did you mean gnndrive?"; empty if no word of `known` is near.
std::string DidYouMean(absl::string_view word,
                       absl::Span<const std::string> known);

/// The fault of a command line that `app` could not parse, for people: the
/// unknown option or command and the one that may be meant, or the argument
/// that is too many; else the words of `error`. `arguments`: in the order in
/// which they were typed.
std::string ParseFault(const CLI::App& app, const CLI::ParseError& error,
                       absl::Span<const std::string> arguments);

/// Contents of a manual page that its command does not have.
struct ManPageHead {
  /// "hearth-train"; the file is NAME.SECTION.
  std::string name = {};
  int section = 1;
  /// The command as it is typed: "hearth train".
  std::string command = {};
  /// "Hearth 0.1.0".
  std::string source = {};
  /// Paragraphs that follow the command's own description.
  std::vector<std::string> paragraphs = {};
  /// Whether subcommands are only listed, because they have pages of their own.
  bool names_commands = false;
  /// Other pages: "hearthd(8)".
  std::vector<std::string> see_also = {};
};

/// The manual page of a command, as roff: its help, and the help of its
/// subcommands.
std::string ManPage(const CLI::App& command, const ManPageHead& head);

}  // namespace hearth::options

#endif  // HEARTH_PROTO_OPTIONS_COMMAND_LINE_H_
