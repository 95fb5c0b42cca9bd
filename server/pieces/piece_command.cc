#include "server/pieces/piece_command.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <ostream>
#include <stop_token>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "engine/base/byte_size.h"
#include "engine/base/status.h"
#include "engine/base/version.h"
#include "engine/ingest/formats/edge_pieces.h"
#include "engine/ingest/formats/format_options.h"
#include "engine/ingest/source/import_context.h"
#include "engine/io/file_system.h"
#include "engine/io/whole_file.h"
#include "engine/strategy/diskgnn/pieces/piece_plan.h"
#include "engine/strategy/diskgnn/pieces/plan_pieces.h"
#include "proto/options/command_line.h"

namespace hearth::server {
namespace {

// A quarter of it may be the window of a text compressed by zstd: 128 MiB, the
// most that the zstd tool takes.
constexpr uint64_t kImportMemoryBytes = 512 << 20;

struct Arguments {
  /// Path of a plan.
  std::string plan;
  int64_t index = -1;
  /// Folder of pieces; empty = the plan's.
  std::string folder;
  /// Of a piece of a plan: the dataset's folder, empty = as planned; memory;
  /// threads.
  std::string dataset;
  std::string memory = "1GiB";
  int threads = 1;
  /// Of `plan`: texts, size of pieces, and how their lines are read.
  std::vector<std::string> texts;
  std::string piece_size = "256MiB";
  bool relabel = false;
  std::string header = "auto";
  std::vector<std::string> columns;
  /// Of `check`.
  bool contents = false;
};

/// A message as one line, whatever characters a path in it has.
std::string Shown(absl::string_view message) {
  const auto is_control = [](char c) {
    return absl::ascii_iscntrl(static_cast<unsigned char>(c));
  };
  return std::none_of(message.begin(), message.end(), is_control)
             ? std::string(message)
             : absl::Utf8SafeCEscape(message);
}

/// The path as it is found from any folder. Links stay, since other machines
/// may have other ones.
std::string Absolute(const std::string& path) {
  std::error_code error;
  const std::filesystem::path absolute = std::filesystem::absolute(path, error);
  return error ? path : absolute.lexically_normal().string();
}

std::string FolderOf(const Arguments& arguments) {
  return arguments.folder.empty() ? io::ParentDirectory(arguments.plan)
                                  : arguments.folder;
}

/// Files, and the end of the work.
struct Process {
  io::FileSystem& files;
  std::stop_token stop;
};

/// The context in which pieces of an import are made.
ingest::ImportContext ContextOf(const Arguments& arguments,
                                const Process& process) {
  return {process.files, kImportMemoryBytes,
          io::JoinPath(FolderOf(arguments),
                       absl::StrCat("scratch", io::kTemporarySuffix)),
          nullptr, process.stop};
}

absl::Status MakePlanPiece(const Arguments& arguments, const Process& process,
                           std::ostream& out) {
  HEARTH_ASSIGN_OR_RETURN(
      const strategy::PiecePlan plan,
      strategy::ReadPiecePlan(process.files, arguments.plan));
  HEARTH_ASSIGN_OR_RETURN(const int64_t memory,
                          ParseByteSize(arguments.memory));
  const std::string folder = FolderOf(arguments);
  HEARTH_RETURN_IF_ERROR(
      strategy::MakePlanPiece({.files = process.files,
                               .dataset_path = arguments.dataset,
                               .memory_bytes = static_cast<uint64_t>(memory),
                               .threads = arguments.threads,
                               .stop = process.stop},
                              plan, arguments.index, folder));
  out << io::JoinPath(folder, strategy::PieceName(plan.round, arguments.index))
      << "\n";
  return absl::OkStatus();
}

absl::Status Make(const Arguments& arguments, const Process& process,
                  std::ostream& out) {
  HEARTH_ASSIGN_OR_RETURN(const bool of_plan,
                          strategy::IsPiecePlan(process.files, arguments.plan));
  if (of_plan) return MakePlanPiece(arguments, process, out);
  ingest::ImportContext context = ContextOf(arguments, process);
  HEARTH_ASSIGN_OR_RETURN(
      const ingest::EdgePiecePlan plan,
      ingest::ReadEdgePiecePlan(context.files(), arguments.plan));
  const std::string folder = FolderOf(arguments);
  HEARTH_RETURN_IF_ERROR(
      ingest::MakeEdgePiece(context, plan, arguments.index, folder));
  out << io::JoinPath(folder, ingest::EdgePieceName(arguments.index)) << "\n";
  return absl::OkStatus();
}

absl::Status Plan(const Arguments& arguments, const Process& process,
                  std::ostream& out) {
  ingest::ImportContext context = ContextOf(arguments, process);
  ingest::EdgeListOptions options;
  options.relabel = arguments.relabel;
  if (arguments.header != "auto")
    options.has_header = arguments.header == "yes";
  if (!arguments.columns.empty()) {
    options.source_column = arguments.columns[0];
    options.destination_column = arguments.columns[1];
  }
  HEARTH_ASSIGN_OR_RETURN(const int64_t piece_bytes,
                          ParseByteSize(arguments.piece_size));
  std::vector<std::string> texts;
  for (const std::string& text : arguments.texts) {
    texts.push_back(Absolute(text));
  }
  HEARTH_RETURN_IF_ERROR(context.files().CreateDirectory(arguments.folder));
  HEARTH_ASSIGN_OR_RETURN(
      const ingest::EdgePiecePlan plan,
      ingest::PlanEdgePieces(context, texts, options,
                             static_cast<uint64_t>(piece_bytes),
                             arguments.folder));
  out << plan.num_pieces() << (plan.num_pieces() == 1 ? " piece" : " pieces")
      << " in " << plan.path << "\n";
  return absl::OkStatus();
}

absl::Status CheckPlanPieces(const Arguments& arguments, const Process& process,
                             std::ostream& out) {
  HEARTH_ASSIGN_OR_RETURN(
      const strategy::PiecePlan plan,
      strategy::ReadPiecePlan(process.files, arguments.plan));
  HEARTH_ASSIGN_OR_RETURN(
      const std::vector<strategy::MissingPlanPiece> missing,
      strategy::FindMissingPlanPieces(process.files, plan, FolderOf(arguments),
                                      arguments.contents, process.stop));
  for (const strategy::MissingPlanPiece& piece : missing) {
    out << piece.index << ": " << Shown(piece.fault.message()) << "\n";
  }
  return absl::OkStatus();
}

absl::Status Check(const Arguments& arguments, const Process& process,
                   std::ostream& out) {
  HEARTH_ASSIGN_OR_RETURN(const bool of_plan,
                          strategy::IsPiecePlan(process.files, arguments.plan));
  if (of_plan) return CheckPlanPieces(arguments, process, out);
  ingest::ImportContext context = ContextOf(arguments, process);
  HEARTH_ASSIGN_OR_RETURN(
      const ingest::EdgePiecePlan plan,
      ingest::ReadEdgePiecePlan(context.files(), arguments.plan));
  HEARTH_ASSIGN_OR_RETURN(
      const std::vector<ingest::MissingPiece> missing,
      ingest::FindMissingPieces(context, plan, FolderOf(arguments),
                                arguments.contents));
  for (const ingest::MissingPiece& piece : missing) {
    out << piece.index << ": " << Shown(piece.fault.message()) << "\n";
  }
  return absl::OkStatus();
}

using Command = absl::Status (*)(const Arguments&, const Process&,
                                 std::ostream&);

/// Adds all flags and commands; parsing sets `arguments` and `command`.
void AddCommands(CLI::App& app, Arguments& arguments, Command& command) {
  app.set_version_flag("--version", absl::StrCat("hearth-piece ", kVersion));
  app.require_subcommand(0, 1);
  CLI::Option* const of =
      app.add_option("--of", arguments.plan,
                     "Plan of the pieces (pieces.json; samples.json or "
                     "packs.json of hearth prepare)")
          ->type_name("PLAN");
  CLI::Option* const index =
      app.add_option("--index", arguments.index, "Number of the piece, from 0")
          ->type_name("N");
  app.add_option("--to", arguments.folder,
                 "Folder of the piece; default that of the plan")
      ->type_name("FOLDER");
  app.add_option("--dataset", arguments.dataset,
                 "Of hearth prepare: folder of the dataset here; default as on "
                 "the daemon's machine")
      ->type_name("FOLDER");
  app.add_option("--memory", arguments.memory,
                 "Of hearth prepare: memory of the piece at most")
      ->type_name("SIZE")
      ->capture_default_str();
  app.add_option("--threads", arguments.threads,
                 "Of hearth prepare: threads at most")
      ->type_name("N")
      ->check(CLI::Range(1, 1024))
      ->capture_default_str();
  app.final_callback([&app, of, index, &command] {
    if (!app.get_subcommands().empty()) return;
    for (const CLI::Option* needed : {of, index}) {
      if (needed->count() == 0) throw CLI::RequiredError(needed->get_name());
    }
    command = Make;
  });

  CLI::App* const plan = app.add_subcommand(
      "plan", "Cut edge lists, one behind the other, into pieces");
  plan->add_option("FOLDER", arguments.folder,
                   "Folder of the plan, which pieces.json becomes part of")
      ->required();
  plan->add_option("TEXT", arguments.texts,
                   "Edge lists, whose paths are the same on all machines that "
                   "make pieces; a compressed one is one piece")
      ->required();
  plan->add_option("--piece-size", arguments.piece_size,
                   "Bytes of text in a piece")
      ->type_name("SIZE")
      ->capture_default_str();
  plan->add_flag("--relabel", arguments.relabel,
                 "Ids are any numbers, by which the import numbers the nodes");
  plan->add_option("--header", arguments.header,
                   "Whether the first line of an edge list names columns")
      ->check(CLI::IsMember({"auto", "yes", "no"}))
      ->capture_default_str();
  plan->add_option("--columns", arguments.columns,
                   "Columns of source and destination: numbers from 1, or "
                   "names in the header")
      ->type_name("SOURCE,DESTINATION")
      ->delimiter(',')
      ->expected(2);
  plan->callback([&command] { command = Plan; });

  CLI::App* const check = app.add_subcommand(
      "check", "Print the numbers of the pieces that are to be made, and why");
  check->add_option("--of", arguments.plan, "Plan of the pieces")
      ->type_name("PLAN")
      ->required();
  check
      ->add_option("--in", arguments.folder,
                   "Folder of the pieces; default that of the plan")
      ->type_name("FOLDER");
  check->add_flag("--contents", arguments.contents,
                  "Read all that they hold against its checksums");
  check->callback([&command] { command = Check; });
}

int Report(const absl::Status& status, std::ostream& err) {
  err << "hearth-piece: " << Shown(status.message()) << "\n";
  if (absl::IsCancelled(status)) return kPieceInterrupted;
  return absl::IsInvalidArgument(status) ? kPieceInvalid : kPieceFailed;
}

}  // namespace

int RunPieceCommand(const std::vector<std::string>& arguments,
                    io::FileSystem& files, std::ostream& out, std::ostream& err,
                    std::stop_token stop) {
  CLI::App app(
      "Makes a piece of an import (hearth dataset import of a folder with all "
      "pieces) or of a plan (hearth prepare --pieces). A piece is the same "
      "wherever and whenever it is made.",
      "hearth-piece");
  Arguments parsed;
  Command command = nullptr;
  AddCommands(app, parsed, command);
  // CLI11 reports by exceptions, which end here.
  try {
    app.parse(std::vector<std::string>(arguments.rbegin(), arguments.rend()));
  } catch (const CLI::ParseError& error) {
    // Help and version are exceptions, too.
    if (error.get_exit_code() == static_cast<int>(CLI::ExitCodes::Success)) {
      app.exit(error, out, err);
      return kPieceDone;
    }
    err << "hearth-piece: " << Shown(options::ParseFault(app, error, arguments))
        << "\nRun with --help for more information.\n";
    return kPieceInvalid;
  }
  const absl::Status status =
      command(parsed, {.files = files, .stop = std::move(stop)}, out);
  if (!status.ok()) return Report(status, err);
  if (!out.flush()) {
    return Report(absl::UnavailableError("cannot write to standard output"),
                  err);
  }
  return kPieceDone;
}

}  // namespace hearth::server
