#include "server/cluster/link_group.h"

#include <errno.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstddef>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "engine/base/crc32c.h"
#include "engine/base/status.h"

namespace hearth::server {

namespace {

// Of what ranks agree on: the scores of a batch's seeds are its largest part.
constexpr size_t kMostMessageBytes = size_t{256} << 20;

absl::string_view BytesOf(absl::Span<const float> values) {
  return {reinterpret_cast<const char*>(values.data()),
          values.size() * sizeof(float)};
}

absl::Span<char> MutableBytesOf(absl::Span<float> values) {
  return {reinterpret_cast<char*>(values.data()),
          values.size() * sizeof(float)};
}

// Part `rank` of values, out of `size` parts.
absl::Span<float> PartOf(absl::Span<float> values, size_t rank, size_t size) {
  const size_t begin = values.size() * rank / size;
  return values.subspan(begin, values.size() * (rank + 1) / size - begin);
}

}  // namespace

absl::StatusOr<std::unique_ptr<LinkGroup>> LinkGroup::Make(
    const Options& options, std::vector<std::unique_ptr<Link>> links,
    const Clock& clock) {
  for (size_t rank = 0; rank < links.size(); ++rank) {
    const bool is_own = rank == static_cast<size_t>(options.rank);
    if ((links[rank] == nullptr) != is_own) {
      return absl::InvalidArgumentError(absl::StrCat(
          "rank ", rank, is_own ? " is connected to itself" : " has no link"));
    }
  }
  if (options.rank < 0 || options.rank >= std::ssize(links)) {
    return absl::InvalidArgumentError(
        absl::StrCat("rank ", options.rank, " is not one of ", links.size()));
  }
  io::Descriptor wake(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (wake.get() < 0) return ErrnoStatus(errno, "links", "eventfd");
  return std::unique_ptr<LinkGroup>(
      new LinkGroup(options, std::move(links), std::move(wake), clock));
}

LinkGroup::LinkGroup(const Options& options,
                     std::vector<std::unique_ptr<Link>> links,
                     io::Descriptor wake, const Clock& clock)
    : options_(options),
      clock_(clock),
      links_(std::move(links)),
      wake_(std::move(wake)),
      parts_(links_.size()),
      traffic_(links_.size()) {}

LinkGroup::~LinkGroup() = default;

std::string LinkGroup::NameOf(size_t rank) const {
  return absl::StrCat("rank ", rank, " (", links_[rank]->member, ")");
}

void LinkGroup::End(const absl::Status& why) {
  {
    absl::MutexLock lock(&mutex_);
    if (!ended_.ok()) return;
    ended_ = why;
  }
  const uint64_t one = 1;
  // It can only fail where it is readable already.
  (void)!write(wake_.get(), &one, sizeof(one));
  for (const std::unique_ptr<Link>& link : links_) {
    if (link != nullptr) shutdown(link->socket.get(), SHUT_RDWR);
  }
}

absl::Status LinkGroup::ended() const {
  absl::MutexLock lock(&mutex_);
  return ended_;
}

// Ends the group with the first error, and returns that.
absl::Status LinkGroup::EndWith(absl::Status status) {
  if (status.ok()) return status;
  End(status);
  return ended();
}

absl::StatusOr<std::vector<train::BatchResult>> LinkGroup::Agree(
    const train::StepPosition& position,
    const absl::StatusOr<train::BatchResult>& own) {
  const Outcome outcome = {.epoch = position.epoch,
                           .batch = position.batch,
                           .sums_crc = sums_crc_,
                           .leaves = asks_to_leave_,
                           .result = own};
  const bool decides = rank() == 0;
  const std::string sent = decides ? "" : Encode(outcome);
  std::vector<std::string> received(links_.size());
  const FrameId outcomes = {FrameKind::kOutcome, ++call_};
  Mail mail = NewMail();
  for (size_t rank = 1; decides && rank < links_.size(); ++rank) {
    mail.in[rank] = Inbox(outcomes, &received[rank], kMostMessageBytes);
  }
  if (!decides) mail.out[0] = Outbox(outcomes, sent);
  HEARTH_RETURN_IF_ERROR(
      EndWith(Exchange(mail, absl::InfiniteDuration(), Others::kStay)));

  const FrameId decisions = {FrameKind::kDecision, call_};
  mail = NewMail();
  if (!decides) {
    mail.in[0] = Inbox(decisions, &received[0], kMostMessageBytes);
    HEARTH_RETURN_IF_ERROR(
        EndWith(Exchange(mail, absl::InfiniteDuration(), Others::kMayGo)));
    auto decision = DecodeDecision(received[0]);
    HEARTH_RETURN_IF_ERROR(EndWith(decision.status()));
    return Follow(*std::move(decision));
  }
  std::vector<Outcome> all = {outcome};
  for (size_t rank = 1; rank < links_.size(); ++rank) {
    auto other = DecodeOutcome(received[rank]);
    HEARTH_RETURN_IF_ERROR(EndWith(other.status()));
    all.push_back(*std::move(other));
  }
  Decision decision = Decide(all);
  const std::string told = Encode(decision);
  for (size_t rank = 1; rank < links_.size(); ++rank) {
    mail.out[rank] = Outbox(decisions, told);
  }
  HEARTH_RETURN_IF_ERROR(
      EndWith(Exchange(mail, options_.silence, Others::kMayGo)));
  return Follow(std::move(decision));
}

absl::StatusOr<std::vector<train::BatchResult>> LinkGroup::Follow(
    Decision decision) {
  has_agreed_ = true;
  if (decision.leaves && !std::exchange(has_left_, true) && options_.on_leave) {
    options_.on_leave();
  }
  return std::move(decision.results);
}

std::vector<LinkGroup::Traffic> LinkGroup::traffic_by_rank() const {
  absl::MutexLock lock(&mutex_);
  return traffic_;
}

LinkGroup::Traffic LinkGroup::traffic() const {
  Traffic sum;
  for (const Traffic& one : traffic_by_rank()) {
    sum.bytes_sent += one.bytes_sent;
    sum.bytes_received += one.bytes_received;
    sum.wait_seconds += one.wait_seconds;
  }
  return sum;
}

absl::Status LinkGroup::Sum(absl::Span<float> values) {
  HEARTH_RETURN_IF_ERROR(EndWith(SumParts(values)));
  const absl::string_view bytes = BytesOf(values);
  sums_crc_ =
      Crc32c({reinterpret_cast<const std::byte*>(bytes.data()), bytes.size()});
  return absl::OkStatus();
}

absl::Status LinkGroup::SumParts(absl::Span<float> values) {
  const size_t size = links_.size();
  const auto own_rank = static_cast<size_t>(rank());
  const absl::Span<float> own = PartOf(values, own_rank, size);
  ++call_;
  Mail mail = NewMail();
  for (size_t rank = 0; rank < size; ++rank) {
    if (rank == own_rank) continue;
    parts_[rank].resize(own.size());
    mail.out[rank] = Outbox({FrameKind::kValues, call_},
                            BytesOf(PartOf(values, rank, size)));
    mail.in[rank] = Inbox({FrameKind::kValues, call_},
                          MutableBytesOf(absl::MakeSpan(parts_[rank])));
  }
  HEARTH_RETURN_IF_ERROR(Exchange(mail, options_.silence, Others::kStay));
  // The own values have their place in the order, too.
  parts_[own_rank].assign(own.begin(), own.end());
  std::copy(parts_[0].begin(), parts_[0].end(), own.begin());
  for (size_t rank = 1; rank < size; ++rank) {
    const std::vector<float>& part = parts_[rank];
    for (size_t i = 0; i < own.size(); ++i) own[i] += part[i];
  }
  mail = NewMail();
  for (size_t rank = 0; rank < size; ++rank) {
    if (rank == own_rank) continue;
    mail.out[rank] = Outbox({FrameKind::kSums, call_}, BytesOf(own));
    mail.in[rank] = Inbox({FrameKind::kSums, call_},
                          MutableBytesOf(PartOf(values, rank, size)));
  }
  return Exchange(mail, options_.silence, Others::kMayGo);
}

// Sends and receives all messages, as links take and give bytes.
absl::Status LinkGroup::Exchange(Mail& mail, absl::Duration silence,
                                 Others others) {
  const double begin = clock_.SteadySeconds();
  // The last rank that was not done.
  size_t last_rank = 0;
  const absl::Cleanup count = [&] {
    absl::MutexLock lock(&mutex_);
    traffic_[last_rank].wait_seconds += clock_.SteadySeconds() - begin;
  };
  double last = begin;
  for (;;) {
    HEARTH_RETURN_IF_ERROR(ended());
    bool has_moved = false;
    bool is_done = true;
    for (size_t rank = 0; rank < links_.size(); ++rank) {
      if (links_[rank] == nullptr) continue;
      if (!mail.out[rank].is_done() || !mail.in[rank].is_done()) {
        last_rank = rank;
      }
      const auto moved = Move(rank, mail.out[rank], mail.in[rank]);
      if (!moved.ok()) {
        // The end of this group ends its links, too.
        HEARTH_RETURN_IF_ERROR(ended());
        return Annotate(moved.status(), NameOf(rank));
      }
      has_moved |= *moved;
      is_done &= mail.out[rank].is_done() && mail.in[rank].is_done();
    }
    if (is_done) return absl::OkStatus();
    const double now = clock_.SteadySeconds();
    if (has_moved) last = now;
    HEARTH_ASSIGN_OR_RETURN(
        const bool is_ready,
        Poll(mail, silence - absl::Seconds(now - last), others));
    if (is_ready) continue;
    for (size_t rank = 0; rank < links_.size(); ++rank) {
      if (mail.out[rank].is_done() && mail.in[rank].is_done()) continue;
      return WaitForPeerError(absl::StrCat(NameOf(rank), ": no byte for ",
                                           absl::FormatDuration(silence)));
    }
  }
}

// Moves bytes until the link takes and gives none; whether there were any.
absl::StatusOr<bool> LinkGroup::Move(size_t rank, Outbox& out, Inbox& in) {
  Link& link = *links_[rank];
  bool has_moved = false;
  Traffic moved;
  const absl::Cleanup count = [&] {
    if (!has_moved) return;
    absl::MutexLock lock(&mutex_);
    traffic_[rank].bytes_sent += moved.bytes_sent;
    traffic_[rank].bytes_received += moved.bytes_received;
  };
  const auto check = [&](const Wire::Result& result) -> absl::StatusOr<size_t> {
    switch (result.outcome) {
      case Wire::Outcome::kMoved:
        has_moved = true;
        return result.bytes;
      case Wire::Outcome::kBlocked:
        return 0;
      case Wire::Outcome::kEnded:
      case Wire::Outcome::kBroken:
        break;
    }
    return WaitForPeerError("the connection has ended");
  };
  while (!out.is_done()) {
    HEARTH_ASSIGN_OR_RETURN(const size_t bytes,
                            check(link.wire->Write(out.Next())));
    if (bytes == 0) break;
    out.Advance(bytes);
    moved.bytes_sent += bytes;
  }
  while (!in.is_done()) {
    HEARTH_ASSIGN_OR_RETURN(const size_t bytes,
                            check(link.wire->Read(in.Next())));
    if (bytes == 0) break;
    moved.bytes_received += bytes;
    HEARTH_RETURN_IF_ERROR(in.Advance(bytes));
  }
  return has_moved;
}

// Waits until a link takes or gives bytes that are wanted, or the group ends;
// false after `timeout`. UNAVAILABLE if a rank that should stay has gone: one
// whose message is there could otherwise go unseen.
absl::StatusOr<bool> LinkGroup::Poll(const Mail& mail, absl::Duration timeout,
                                     Others others) const {
  std::vector<pollfd> polled(links_.size() + 1);
  for (size_t rank = 0; rank < links_.size(); ++rank) {
    // Entries of a negative descriptor are passed over.
    polled[rank].fd = -1;
    if (links_[rank] == nullptr) continue;
    const Link& link = *links_[rank];
    const bool sends = !mail.out[rank].is_done();
    const bool receives = !mail.in[rank].is_done();
    if (sends || receives || others == Others::kStay) {
      polled[rank].fd = link.socket.get();
    }
    if (others == Others::kStay) polled[rank].events |= POLLRDHUP;
    if (receives) polled[rank].events |= POLLIN;
    if (sends || link.wire->WaitsToWrite()) polled[rank].events |= POLLOUT;
  }
  polled.back() = {.fd = wake_.get(), .events = POLLIN, .revents = 0};
  const timespec most = absl::ToTimespec(
      std::clamp(timeout, absl::ZeroDuration(), absl::Hours(1)));
  const int ready = ppoll(polled.data(), polled.size(), &most, nullptr);
  if (ready < 0 && errno != EINTR) return ErrnoStatus(errno, "links", "ppoll");
  for (size_t rank = 0; ready > 0 && rank < links_.size(); ++rank) {
    const bool is_idle = mail.out[rank].is_done() && mail.in[rank].is_done();
    if (is_idle && (polled[rank].revents & (POLLRDHUP | POLLHUP | POLLERR))) {
      HEARTH_RETURN_IF_ERROR(ended());
      return WaitForPeerError(
          absl::StrCat(NameOf(rank), ": the connection has ended"));
    }
  }
  return ready != 0 || timeout > absl::Hours(1);
}

}  // namespace hearth::server
