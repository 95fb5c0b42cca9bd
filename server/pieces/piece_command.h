#ifndef HEARTH_SERVER_PIECES_PIECE_COMMAND_H_
#define HEARTH_SERVER_PIECES_PIECE_COMMAND_H_

#include <iosfwd>
#include <stop_token>
#include <string>
#include <vector>

#include "engine/io/file_system.h"

/// The command line of hearth-piece, which makes pieces of an import, or of a
/// plan of strategy diskgnn, without a daemon: a program of its own, since it
/// is started for every piece, on machines that may have no daemon, and links
/// neither models nor gRPC.

namespace hearth::server {

/// Exit codes of hearth-piece, which are those of hearth.
enum PieceExitCode {
  kPieceDone = 0,
  kPieceFailed = 1,
  /// The arguments or the texts are wrong: to try again does not help.
  kPieceInvalid = 2,
  kPieceInterrupted = 130,
};

/// Runs one command line, without the program's name, and returns its exit
/// code. Results go to `out`, errors to `err`.
int RunPieceCommand(const std::vector<std::string>& arguments,
                    io::FileSystem& files, std::ostream& out, std::ostream& err,
                    std::stop_token stop);

}  // namespace hearth::server

#endif  // HEARTH_SERVER_PIECES_PIECE_COMMAND_H_
