#ifndef HEARTH_PROTO_OPTIONS_MAN_PAGE_H_
#define HEARTH_PROTO_OPTIONS_MAN_PAGE_H_

#include <CLI/App.hpp>
#include <string>
#include <vector>

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

#endif  // HEARTH_PROTO_OPTIONS_MAN_PAGE_H_
