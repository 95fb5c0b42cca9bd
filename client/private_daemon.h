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
  /// Absolute path of its data directory, which is made for this user alone if
  /// it is not there, or empty.
  std::string data_dir = {};
  /// Further flags.
  std::vector<std::string> flags = {};
};

/// A hearthd that is this process's own: a child, on the Unix socket in its
/// data directory. It is another program, not a part of this one: the client
/// stays free of the engine, and one that crashes does not take the other
/// along.
///
/// The kernel kills it when this process ends, however that happens
/// (PR_SET_PDEATHSIG); what a daemon has acknowledged survives that. Signals of
/// a terminal do not reach it: it is in a group of its own. Its log is in
/// kLogName in the data directory.
///
/// Make and destroy it on the thread of main, at whose end the kernel kills it.
/// Single-owner.
class PrivateDaemon {
 public:
  static constexpr char kLogName[] = "hearthd.log";

  /// Starts it and waits until it serves. Errors tell the end of its log;
  /// CANCELLED when `stop` is requested first.
  static absl::StatusOr<std::unique_ptr<PrivateDaemon>> Start(
      const PrivateDaemonOptions& options, std::stop_token stop);
  /// As Stop().
  ~PrivateDaemon();

  /// "unix:PATH".
  const std::string& address() const { return address_; }

  /// Requested when it has ended, asked or not.
  std::stop_token ended() const { return ended_.get_token(); }

  /// Has it bring its jobs to a checkpoint, and end, and waits for that; kills
  /// it after kPatience. INTERNAL, with the end of its log, unless it ended as
  /// asked.
  absl::Status Stop();
  static constexpr absl::Duration kPatience = absl::Seconds(90);

 private:
  PrivateDaemon(std::string data_dir, pid_t process, int process_descriptor);

  absl::Status AwaitReady(int notifications, const std::stop_token& stop);
  // Waits for the child's end, which is called once, and tells what is wrong
  // about it.
  absl::Status Reap();

  const std::string data_dir_;
  const std::string address_;
  const pid_t process_;
  // Readable when the process has ended.
  const int process_descriptor_;
  bool reaped_ = false;
  std::stop_source ended_;
  // Waits for the end of the process, or for its own.
  std::jthread waiter_;
};

/// The path of `name` beside this program, else in $PATH. NOT_FOUND.
absl::StatusOr<std::string> FindProgram(const std::string& name);

}  // namespace hearth::client

#endif  // HEARTH_CLIENT_PRIVATE_DAEMON_H_
