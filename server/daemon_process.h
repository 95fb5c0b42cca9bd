#ifndef HEARTH_SERVER_DAEMON_PROCESS_H_
#define HEARTH_SERVER_DAEMON_PROCESS_H_

#include "server/daemon.h"

namespace hearth::server {

/// The process around a Daemon: command line, log, signals, service manager.
/// Ends the process when a signal has stopped the daemon, without destructors
/// of static objects: LibTorch's take 0.1 s. Exit codes: 0 stopped as asked;
/// 1 could not start, or jobs did not stop in time; 2 usage.
[[noreturn]] void RunDaemonProcess(int argc, const char* const* argv,
                                   ModelSource models);

}  // namespace hearth::server

#endif  // HEARTH_SERVER_DAEMON_PROCESS_H_
