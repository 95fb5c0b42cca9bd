#ifndef HEARTH_SERVER_CLUSTER_LINKS_H_
#define HEARTH_SERVER_CLUSTER_LINKS_H_

#include <cstddef>
#include <cstdint>
#include <list>
#include <memory>
#include <string>

#include "absl/base/thread_annotations.h"
#include "absl/status/statusor.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/time.h"
#include "engine/base/clock.h"
#include "engine/io/descriptor.h"
#include "server/access/tls.h"
#include "server/cluster/link_group.h"

/// How ranks connect to each other: the lower rank dials (DialLink), and the
/// other takes the connection from those that have come in (LinkHub).

namespace hearth::server {

/// Names a link: an attempt at a job, and the ranks at both ends.
struct LinkName {
  std::string leader;
  std::string job;
  uint64_t attempt = 0;
  std::string nonce;
  size_t from = 0;
  size_t to = 0;

  bool operator==(const LinkName&) const = default;
};

/// Where a rank is reached.
struct RankAddress {
  std::string member;
  /// HOST:PORT.
  std::string address;
};

/// Connects to the rank `name.to`, which is at `peer`, and says hello. Tries
/// again until `deadline`, on the steady clock; then UNAVAILABLE. The other
/// side must have the certificate of `peer.member`.
absl::StatusOr<std::unique_ptr<Link>> DialLink(const LinkName& name,
                                               const RankAddress& peer,
                                               TlsClient& tls,
                                               const Clock& clock,
                                               double deadline);

/// Connections that have come in as links, until their ranks take them.
/// Thread-safe.
class LinkHub {
 public:
  /// Connections that wait at a time; the oldest gives way to a new one.
  static constexpr size_t kMost = 256;
  /// Time that a connection waits for its rank.
  static constexpr absl::Duration kPatience = absl::Seconds(15);

  /// `clock` outlives the hub.
  explicit LinkHub(const Clock& clock) : clock_(clock) {}

  /// Takes a connection from the machine `member`, whose certificate was
  /// checked. `socket` is non-blocking. Does not block.
  void Add(const std::string& member, io::Descriptor socket)
      ABSL_LOCKS_EXCLUDED(mutex_);

  /// Waits for the link `name`, from the machine `member`, until `deadline`, on
  /// the steady clock; then UNAVAILABLE.
  absl::StatusOr<std::unique_ptr<Link>> Await(const LinkName& name,
                                              const std::string& member,
                                              double deadline)
      ABSL_LOCKS_EXCLUDED(mutex_);

 private:
  struct Waiting {
    std::string member;
    io::Descriptor socket;
    double since = 0;
    // What was read of the hello.
    std::string hello = {};
    bool is_broken = false;
  };

  static void ReadHello(Waiting& waiting);

  const Clock& clock_;
  absl::Mutex mutex_;
  std::list<Waiting> waiting_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace hearth::server

#endif  // HEARTH_SERVER_CLUSTER_LINKS_H_
