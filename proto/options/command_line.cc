#include "proto/options/command_line.h"

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
#include "absl/strings/str_split.h"
#include "absl/strings/string_view.h"

namespace hearth::options {

namespace {

// Characters of a word's beginning that are enough to guess the word.
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

// The innermost command that the command line names.
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

// Long options that a command takes, with dashes: its own and its parents'
// options.
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
  // The parser returns the unknown words in an order of its own.
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
      // An unknown option may have a value: the next word.
      may_be_value = name == word;
    } else if (!is_value && !commands.empty()) {
      // Words after an unknown command belong to it.
      return absl::StrCat("unknown command ", word, DidYouMean(word, commands));
    } else if (!is_value) {
      faults.push_back(absl::StrCat("unexpected argument \"", word, "\""));
    }
  }
  return faults.empty() ? error.what() : absl::StrJoin(faults, "\n");
}

namespace {

// `text` escaped for roff, where a backslash begins a request, a bare hyphen
// may be shown as another character, and a dot or quote at the beginning of a
// line names a macro.
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

// `text` as the quoted argument of a macro.
std::string Argument(absl::string_view text) {
  return absl::StrCat("\"", absl::StrReplaceAll(Text(text), {{"\"", "\\(dq"}}),
                      "\"");
}

// Form of an option's value: "SIZE", "{table,json}".
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

// Names and value of an option: "\fB-f\fR, \fB--file\fR \fITEXT\fR".
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

// Adds the options, under the headings that the help has.
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

// Adds the names of the subcommands.
void AddNames(const CLI::App& command, std::string* page) {
  for (const CLI::App* below : CommandsOf(command)) {
    absl::StrAppend(page, ".TP\n", Bold(below->get_name()), "\n",
                    Text(below->get_description()), "\n");
  }
}

// Adds the subcommands at all depths, each with its options.
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
