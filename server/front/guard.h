#ifndef HEARTH_SERVER_FRONT_GUARD_H_
#define HEARTH_SERVER_FRONT_GUARD_H_

#include <algorithm>
#include <cstddef>
#include <limits>
#include <string>
#include <unordered_map>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace hearth::server {

/// How often something may happen: `burst` times at first, and `per_second`
/// times more each second, up to the burst.
struct Budget {
  double burst = 0;
  double per_second = 0;
};

/// That of what may happen as often as it does.
inline constexpr Budget kUnlimited = {
    .burst = std::numeric_limits<double>::infinity()};

/// Rest of a budget. Times are in seconds, on the steady clock. Single-owner.
class Purse {
 public:
  explicit Purse(const Budget& budget) : budget_(budget), left_(budget.burst) {}

  bool HasSome(double now) const { return LeftAt(now) >= 1; }

  /// Takes one; false = there is none.
  bool Spend(double now) {
    left_ = LeftAt(now);
    last_ = now;
    if (left_ < 1) return false;
    left_ -= 1;
    return true;
  }

  /// Gives one back, up to the burst.
  void Earn(double now) {
    left_ = std::min(budget_.burst, LeftAt(now) + 1);
    last_ = now;
  }

  /// Whether it is as if it were new.
  bool IsFull(double now) const { return LeftAt(now) >= budget_.burst; }

 private:
  double LeftAt(double now) const {
    return std::min(budget_.burst,
                    left_ + std::max(0.0, now - last_) * budget_.per_second);
  }

  Budget budget_;
  double left_;
  double last_ = 0;
};

/// State of each party, by its name: it is forgotten some time after it
/// IsIdle(now), so that those who come under ever new names cost no memory.
/// Single-owner.
template <typename Party>
class Parties {
 public:
  /// That of the name, or a new one made of `made_of`. It stays where it is
  /// until it is idle and Find is called.
  template <typename MadeOf>
  Party& Find(const std::string& name, const MadeOf& made_of, double now) {
    if (parties_.size() >= forget_at_) {
      std::erase_if(parties_, [now](const auto& entry) {
        return entry.second.IsIdle(now);
      });
      forget_at_ = std::max(kLeast, 2 * parties_.size());
    }
    return parties_.try_emplace(name, made_of).first->second;
  }

 private:
  static constexpr size_t kLeast = 1024;

  size_t forget_at_ = kLeast;
  std::unordered_map<std::string, Party> parties_;
};

/// Looks at all bytes of one connection, before they are passed on, and says
/// when they are too much. Single-owner.
class Guard {
 public:
  virtual ~Guard() = default;

  /// The next bytes of the client. Not OK: the connection must be closed; the
  /// message says why.
  virtual absl::Status OnClientBytes(absl::string_view bytes) = 0;
  /// The next bytes of the server, likewise.
  virtual absl::Status OnServerBytes(absl::string_view bytes) = 0;

  /// Whether the client has shown that it speaks the protocol. Nothing is
  /// passed on before.
  virtual bool HasOpened() const = 0;
  /// Whether nothing would be lost if the connection were closed now.
  virtual bool IsIdle() const = 0;
  /// Whether the client has sent anything that the server could answer. True
  /// also where that is not known.
  virtual bool HasAsked() const { return true; }
  /// Whether the server has answered the client before.
  virtual bool HasBeenAnswered() const { return false; }
};

}  // namespace hearth::server

#endif  // HEARTH_SERVER_FRONT_GUARD_H_
