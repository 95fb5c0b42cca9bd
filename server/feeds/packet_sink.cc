#include "server/feeds/packet_sink.h"

#include <sys/socket.h>
#include <sys/uio.h>

#include <cerrno>
#include <cstring>
#include <string>

#include "engine/base/status.h"

namespace hearth::server {

absl::Status PacketSink::Send(const v1::FeedDown& message) {
  return SendPacket(message, /*descriptor=*/-1);
}

absl::Status PacketSink::SendSlot(const v1::FeedDown& message,
                                  const feed::Slot& slot) {
  return SendPacket(message, slot.descriptor());
}

absl::Status PacketSink::SendBatch(const v1::FeedDown& message,
                                   const feed::OutgoingBatch& /*batch*/) {
  return SendPacket(message, /*descriptor=*/-1);
}

absl::Status PacketSink::SendPacket(const v1::FeedDown& message,
                                    int descriptor) {
  std::string text = message.SerializeAsString();
  iovec part = {.iov_base = text.data(), .iov_len = text.size()};
  msghdr header{};
  header.msg_iov = &part;
  header.msg_iovlen = 1;
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))] = {};
  if (descriptor >= 0) {
    header.msg_control = control;
    header.msg_controllen = sizeof(control);
    cmsghdr* rights = CMSG_FIRSTHDR(&header);
    rights->cmsg_level = SOL_SOCKET;
    rights->cmsg_type = SCM_RIGHTS;
    rights->cmsg_len = CMSG_LEN(sizeof(int));
    std::memcpy(CMSG_DATA(rights), &descriptor, sizeof(int));
  }
  while (sendmsg(connection_.get(), &header, MSG_NOSIGNAL | MSG_DONTWAIT) < 0) {
    if (errno == EINTR) continue;
    const absl::Status status =
        ErrnoStatus(errno, "the feed's client", "send a message");
    // A client that does not read what it may hold is lost.
    shutdown(connection_.get(), SHUT_RDWR);
    return status;
  }
  return absl::OkStatus();
}

}  // namespace hearth::server
