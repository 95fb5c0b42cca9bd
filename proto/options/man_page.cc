#include "proto/options/man_page.h"

#include <CLI/CLI.hpp>
#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace hearth::options {
namespace {

// Text as roff shows it: a backslash begins a request, a bare hyphen may be
// shown as another character, a dot or quote at the beginning of a line names a
// macro.
std::string Text(absl::string_view text) {
  std::string escaped =
      absl::StrReplaceAll(text, {{"\\", "\\e"}, {"-", "\\-"}, {"\n", " "}});
  if (absl::StartsWith(escaped, ".") || absl::StartsWith(escaped, "'")) {
    escaped.insert(0, "\\&");
  }
  return escaped;
}

std::string Bold(absl::string_view text) {
  return absl::StrCat("\\fB", Text(text), "\\fR");
}

std::string Italic(absl::string_view text) {
  return absl::StrCat("\\fI", Text(text), "\\fR");
}

// An argument of a macro, in quotes.
std::string Argument(absl::string_view text) {
  return absl::StrCat("\"", absl::StrReplaceAll(Text(text), {{"\"", "\\(dq"}}),
                      "\"");
}

// The form of a value, in a word or a few: "SIZE", "{table,json}".
std::string ValueForm(const CLI::Option& option) {
  const std::string type = option.get_type_name();
  const size_t words = type.find('{');
  if (words != std::string::npos) {
    const size_t end = type.find('}', words);
    return absl::StrReplaceAll(type.substr(words + 1, end - words - 1),
                               {{",", "|"}});
  }
  return type.substr(0, type.find(':'));
}

bool TakesValue(const CLI::Option& option) {
  return option.get_items_expected_max() > 0;
}

// "\fB-f\fR, \fB--file\fR \fITEXT\fR".
std::string NamesOf(const CLI::Option& option) {
  if (option.get_positional() && option.get_lnames().empty()) {
    return Italic(option.get_name(/*positional=*/true));
  }
  std::vector<std::string> names;
  for (const std::string& name : option.get_snames()) {
    names.push_back(Bold(absl::StrCat("-", name)));
  }
  for (const std::string& name : option.get_lnames()) {
    names.push_back(Bold(absl::StrCat("--", name)));
  }
  std::string text = absl::StrJoin(names, ", ");
  if (TakesValue(option)) {
    absl::StrAppend(&text, " ", Italic(ValueForm(option)));
  }
  return text;
}

std::vector<const CLI::Option*> OptionsOf(const CLI::App& command) {
  return command.get_options(
      [](const CLI::Option* option) { return !option->get_group().empty(); });
}

std::vector<const CLI::App*> CommandsOf(const CLI::App& command) {
  return command.get_subcommands(
      [](const CLI::App* below) { return !below->get_group().empty(); });
}

void AddSynopsis(const CLI::App& command, const std::string& typed,
                 std::string* page) {
  absl::StrAppend(page, Bold(typed), " [", Italic("OPTIONS"), "]");
  for (const CLI::Option* option : OptionsOf(command)) {
    if (!option->get_positional()) continue;
    const std::string name = Italic(option->get_name(/*positional=*/true));
    absl::StrAppend(
        page, " ",
        option->get_required() ? name : absl::StrCat("[", name, "]"));
  }
  absl::StrAppend(page, "\n");
}

void AddOption(const CLI::Option& option, std::string* page) {
  absl::StrAppend(page, ".TP\n", NamesOf(option), "\n",
                  Text(option.get_description()));
  if (option.get_required() &&
      !absl::StrContains(option.get_description(), "(required)")) {
    absl::StrAppend(page, " (required)");
  }
  if (!option.get_default_str().empty() && TakesValue(option)) {
    absl::StrAppend(page, " (default ", Text(option.get_default_str()), ")");
  }
  absl::StrAppend(page, "\n");
}

// The options by the headings that help has them under.
void AddOptions(const CLI::App& command, const char* heading,
                std::string* page) {
  std::vector<std::string> groups;
  for (const CLI::Option* option : OptionsOf(command)) {
    const std::string& group = option->get_group();
    if (std::find(groups.begin(), groups.end(), group) == groups.end()) {
      groups.push_back(group);
    }
  }
  for (const std::string& group : groups) {
    absl::StrAppend(page, heading, " ", Argument(group), "\n");
    for (const CLI::Option* option : OptionsOf(command)) {
      if (option->get_group() == group) AddOption(*option, page);
    }
  }
}

// The commands below, by name.
void AddNames(const CLI::App& command, std::string* page) {
  for (const CLI::App* below : CommandsOf(command)) {
    absl::StrAppend(page, ".TP\n", Bold(below->get_name()), "\n",
                    Text(below->get_description()), "\n");
  }
}

// The commands below, each with its options, and those below them.
void AddCommands(const CLI::App& command, const std::string& typed,
                 std::string* page) {
  for (const CLI::App* below : CommandsOf(command)) {
    const std::string name = absl::StrCat(typed, " ", below->get_name());
    absl::StrAppend(page, ".SS ", Argument(name), "\n");
    AddSynopsis(*below, name, page);
    absl::StrAppend(page, ".PP\n", Text(below->get_description()), ".\n");
    for (const CLI::Option* option : OptionsOf(*below)) {
      if (option != below->get_help_ptr()) AddOption(*option, page);
    }
    AddCommands(*below, name, page);
  }
}

}  // namespace

std::string ManPage(const CLI::App& command, const ManPageHead& head) {
  std::string page = absl::StrCat(
      ".\\\" Written by the program that it is about: do not edit.\n.TH ",
      Argument(absl::AsciiStrToUpper(head.name)), " ", head.section, " \"\" ",
      Argument(head.source), " \"Hearth\"\n.SH NAME\n", Text(head.name),
      " \\- ", Text(command.get_description()), "\n.SH SYNOPSIS\n");
  AddSynopsis(command, head.command, &page);
  absl::StrAppend(&page, ".SH DESCRIPTION\n", Text(command.get_description()),
                  ".\n");
  for (const std::string& paragraph : head.paragraphs) {
    absl::StrAppend(&page, ".PP\n", Text(paragraph), "\n");
  }
  absl::StrAppend(&page, ".SH OPTIONS\n");
  AddOptions(command, ".SS", &page);
  if (!CommandsOf(command).empty()) {
    absl::StrAppend(&page, ".SH COMMANDS\n");
    if (head.names_commands) {
      AddNames(command, &page);
    } else {
      AddCommands(command, head.command, &page);
    }
  }
  if (!head.see_also.empty()) {
    absl::StrAppend(
        &page, ".SH SEE ALSO\n",
        absl::StrJoin(head.see_also, ", ",
                      [](std::string* out, const std::string& name) {
                        const size_t section = name.find('(');
                        absl::StrAppend(out, Bold(name.substr(0, section)),
                                        name.substr(section));
                      }),
        "\n");
  }
  return page;
}

}  // namespace hearth::options
