#ifndef HEARTH_SERVER_FRONT_GUARD_H_
#define HEARTH_SERVER_FRONT_GUARD_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace hearth::server {

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
