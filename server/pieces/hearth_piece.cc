// hearth-piece, which makes pieces of an import or of a plan.

#include <pthread.h>

#include <algorithm>
#include <csignal>
#include <iostream>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "engine/io/file_system.h"
#include "server/pieces/piece_command.h"

int main(int argc, char** argv) {
  sigset_t signals;
  sigemptyset(&signals);
  sigaddset(&signals, SIGINT);
  sigaddset(&signals, SIGTERM);
  pthread_sigmask(SIG_BLOCK, &signals, nullptr);
  std::stop_source stop;
  // A signal ends the piece between two blocks, so that nothing is left of it.
  std::jthread waiter([&signals, &stop] {
    int signal = 0;
    sigwait(&signals, &signal);
    stop.request_stop();
  });
  const int code = hearth::server::RunPieceCommand(
      std::vector<std::string>(argv + std::min(argc, 1), argv + argc),
      hearth::io::FileSystem::Posix(), std::cout, std::cerr, stop.get_token());
  // Ends the waiter, which is joined.
  pthread_kill(waiter.native_handle(), SIGTERM);
  return code;
}
