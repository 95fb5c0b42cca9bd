#ifndef HEARTH_CLIENT_PRIVATE_DAEMON_H_
#define HEARTH_CLIENT_PRIVATE_DAEMON_H_

#include <sys/types.h>

#include <memory>
#include <stop_token>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"

namespace hearth::client {

struct PrivateDaemonOptions {
  /// Path of hearthd.
  std::string program = {};
  /// Absolute path of its data directory; made, for this user alone, if it does
  /// not exist or is empty.
  std::string data_dir = {};
  /// Further flags.
  std::vector<std::string> flags = {};
};

/// A hearthd of this process's own: a child process that listens on the Unix
/// socket in its data directory. As a program of its own it keeps the client
/// free of the engine, and a crash of one does not end the other.
///
/// The kernel kills the daemon when this process ends, however that happens
/// (PR_SET_PDEATHSIG); acknowledged requests survive that. Signals of a
/// terminal do not reach it: it is in a process group of its own. Its log is
/// kLogName in the data directory.
///
/// Make and destroy it on the main thread: the kernel kills the daemon when the
/// thread that started it ends. Single-owner.
class PrivateDaemon {
 public:
  static constexpr char kLogName[] = "hearthd.log";

  /// Starts the daemon and waits until it serves. Errors have the end of its
  /// log; CANCELLED when `stop` is requested first.
  static absl::StatusOr<std::unique_ptr<PrivateDaemon>> Start(
      const PrivateDaemonOptions& options, std::stop_token stop);
  /// Stops the daemon as Stop() does.
  ~PrivateDaemon();

  /// Address for ClientOptions: "unix:PATH".
  const std::string& address() const { return address_; }

  /// Requested when the daemon has ended, asked or not.
  std::stop_token ended() const { return ended_.get_token(); }

  /// Lets the daemon bring its jobs to a checkpoint and end, and waits for
  /// that; kills it after kPatience. INTERNAL, with the end of its log, unless
  /// it ended as asked.
  absl::Status Stop();
  static constexpr absl::Duration kPatience = absl::Seconds(90);

 private:
  PrivateDaemon(std::string data_dir, pid_t process, int process_descriptor);

  absl::Status AwaitReady(int notifications, const std::stop_token& stop);
  // Waits for the child's end, and tells what was wrong with it. Called once.
  absl::Status Reap();

  const std::string data_dir_;
  const std::string address_;
  const pid_t process_;
  // Descriptor that is readable when the process has ended.
  const int process_descriptor_;
  bool reaped_ = false;
  std::stop_source ended_;
  // Waits for the end of the daemon, or for its own stop.
  std::jthread waiter_;
};

/// Makes a folder for this user alone, with those above it, unless it exists.
/// FAILED_PRECONDITION if another user's folder, or no folder, has the path.
absl::Status MakePrivateFolder(const std::string& path);

/// Path of the program `name`: in this program's folder, else in $PATH.
/// NOT_FOUND.
absl::StatusOr<std::string> FindProgram(const std::string& name);

}  // namespace hearth::client

#endif  // HEARTH_CLIENT_PRIVATE_DAEMON_H_
