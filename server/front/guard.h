#ifndef HEARTH_SERVER_FRONT_GUARD_H_
#define HEARTH_SERVER_FRONT_GUARD_H_

#include <algorithm>
#include <cstddef>
#include <limits>
#include <string>
#include <unordered_map>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

/// Rate limits by client address, and the interface of a guard that watches the
/// bytes of one connection. Times are seconds on the steady clock.

namespace hearth::server {

/// How often something may happen: `burst` times at first, and `per_second`
/// more times each second, up to the burst.
struct RateLimit {
  double burst = 0;
  double per_second = 0;
};

/// Rate limit of events that are not limited.
inline constexpr RateLimit kUnlimited = {
    .burst = std::numeric_limits<double>::infinity()};

/// Token bucket of a RateLimit. Times are in seconds, on the steady clock.
/// Single-owner.
class RateLimiter {
 public:
  explicit RateLimiter(const RateLimit& limit)
      : limit_(limit), left_(limit.burst) {}

  bool HasToken(double now) const { return LeftAt(now) >= 1; }

  /// Takes a token; false = there is none.
  bool TryTake(double now) {
    left_ = LeftAt(now);
    last_ = now;
    if (left_ < 1) return false;
    left_ -= 1;
    return true;
  }

  /// Gives a token back, up to the burst.
  void GiveBack(double now) {
    left_ = std::min(limit_.burst, LeftAt(now) + 1);
    last_ = now;
  }

  /// Whether all tokens are there, as in a new limiter.
  bool IsFull(double now) const { return LeftAt(now) >= limit_.burst; }

 private:
  double LeftAt(double now) const {
    return std::min(limit_.burst,
                    left_ + std::max(0.0, now - last_) * limit_.per_second);
  }

  RateLimit limit_;
  double left_;
  double last_ = 0;
};

/// State of each client address, by its name. A state that IsIdle(now) is
/// forgotten some time later, so that clients with ever new names cost no
/// memory. Single-owner.
template <typename State>
class ClientAddresses {
 public:
  /// State of the address `name`; a new one is made of `made_of`. The reference
  /// stays valid until the state is idle and Find is called.
  template <typename MadeOf>
  State& Find(const std::string& name, const MadeOf& made_of, double now) {
    if (addresses_.size() >= forget_at_) {
      std::erase_if(addresses_, [now](const auto& entry) {
        return entry.second.IsIdle(now);
      });
      forget_at_ = std::max(kLeast, 2 * addresses_.size());
    }
    return addresses_.try_emplace(name, made_of).first->second;
  }

 private:
  static constexpr size_t kLeast = 1024;

  size_t forget_at_ = kLeast;
  std::unordered_map<std::string, State> addresses_;
};

/// Looks at all bytes of one connection before they are passed on, and says
/// when they are too much. Single-owner.
class Guard {
 public:
  virtual ~Guard() = default;

  /// Takes the next bytes of the client. An error closes the connection; the
  /// message says why.
  virtual absl::Status OnClientBytes(absl::string_view bytes) = 0;
  /// Takes the next bytes of the server; errors as OnClientBytes.
  virtual absl::Status OnServerBytes(absl::string_view bytes) = 0;

  /// Whether the client has shown that it speaks the protocol. No byte is
  /// passed on before.
  virtual bool HasOpened() const = 0;
  /// Whether nothing would be lost if the connection were closed now.
  virtual bool IsIdle() const = 0;
  /// Whether the client has sent anything that the server could answer; true
  /// where that is unknown.
  virtual bool HasAsked() const { return true; }
  /// Whether the server has answered the client before.
  virtual bool HasBeenAnswered() const { return false; }
};

}  // namespace hearth::server

#endif  // HEARTH_SERVER_FRONT_GUARD_H_
