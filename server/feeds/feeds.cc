#include "server/feeds/feeds.h"

#include <sys/random.h>

#include <cerrno>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/status.h"
#include "hearth/v1/jobs.pb.h"
#include "server/storage/job_state.h"
#include "server/storage/job_store.h"

namespace hearth::server {
namespace {

constexpr size_t kTicketBytes = 32;

absl::StatusOr<std::string> RandomTicket() {
  std::string ticket(kTicketBytes, '\0');
  if (getrandom(ticket.data(), ticket.size(), 0) !=
      static_cast<ssize_t>(ticket.size())) {
    return ErrnoStatus(errno, "getrandom", "make a ticket");
  }
  return ticket;
}

// The error that a job has ended with, for its client; OK if it SUCCEEDED.
absl::Status EndOf(const v1::Job& job) {
  if (job.state() == v1::SUCCEEDED) return absl::OkStatus();
  if (job.state() == v1::CANCELLED) {
    return absl::CancelledError(absl::StrCat(job.id(), " was cancelled"));
  }
  return absl::Status(static_cast<absl::StatusCode>(job.error().code()),
                      absl::StrCat(job.id(), ": ", job.error().message()));
}

}  // namespace

Feeds::Feeds(JobStore& store, const Clock& clock, Options options)
    : store_(store), clock_(clock), options_(std::move(options)) {}

std::shared_ptr<feed::Channel> Feeds::ChannelOf(const std::string& id) {
  absl::MutexLock lock(&mutex_);
  std::shared_ptr<feed::Channel>& channel = channels_[id];
  if (channel == nullptr) {
    channel = std::make_shared<feed::Channel>(clock_, options_.wake);
  }
  return channel;
}

absl::StatusOr<std::string> Feeds::NewTicket(const std::string& id,
                                             uid_t user) {
  HEARTH_ASSIGN_OR_RETURN(const v1::Job job, store_.Get(id));
  if (!job.spec().has_feed()) {
    return absl::FailedPreconditionError(absl::StrCat(id, " is not a feed"));
  }
  if (HasEnded(job.state())) {
    return absl::FailedPreconditionError(
        absl::StrCat(id, " has ended: ", EndOf(job).message()));
  }
  if (ChannelOf(id)->has_client()) {
    return absl::AlreadyExistsError(
        absl::StrCat("another client takes the batches of ", id));
  }
  HEARTH_ASSIGN_OR_RETURN(std::string ticket, RandomTicket());
  absl::MutexLock lock(&mutex_);
  tickets_[ticket] = {
      .job = id,
      .user = user,
      .expires = clock_.SteadySeconds() + absl::ToDoubleSeconds(kTicketLife)};
  return ticket;
}

absl::StatusOr<std::shared_ptr<feed::Channel>> Feeds::Redeem(
    const std::string& ticket, uid_t user) {
  absl::MutexLock lock(&mutex_);
  const auto found = tickets_.find(ticket);
  if (found == tickets_.end()) {
    return absl::PermissionDeniedError("the ticket is not known");
  }
  const Ticket redeemed = std::move(found->second);
  tickets_.erase(found);
  if (redeemed.user != user || clock_.SteadySeconds() > redeemed.expires) {
    return absl::PermissionDeniedError(
        "the ticket is too old or another user's");
  }
  const auto channel = channels_.find(redeemed.job);
  if (channel == channels_.end()) {
    return absl::FailedPreconditionError("the feed has ended");
  }
  return channel->second;
}

bool Feeds::ClientWaits(const std::string& id) const {
  std::shared_ptr<feed::Channel> channel;
  {
    absl::MutexLock lock(&mutex_);
    const auto found = channels_.find(id);
    if (found == channels_.end()) return false;
    channel = found->second;
  }
  return channel->ClientWaits();
}

void Feeds::Sweep() {
  std::vector<std::pair<std::string, std::shared_ptr<feed::Channel>>> channels;
  {
    absl::MutexLock lock(&mutex_);
    const double now = clock_.SteadySeconds();
    std::erase_if(tickets_, [now](const auto& entry) {
      return now > entry.second.expires;
    });
    channels.assign(channels_.begin(), channels_.end());
  }
  for (const auto& [id, channel] : channels) {
    const absl::StatusOr<v1::Job> job = store_.Get(id);
    if (!job.ok() && !absl::IsNotFound(job.status())) continue;
    if (!job.ok() || HasEnded(job->state())) {
      channel->End(job.ok()
                       ? EndOf(*job)
                       : absl::NotFoundError(absl::StrCat(id, " is gone")));
      if (channel->has_client()) continue;
      absl::MutexLock lock(&mutex_);
      channels_.erase(id);
    } else if (channel->seconds_without_client() >
               absl::ToDoubleSeconds(options_.patience)) {
      options_.cancel(id);
    }
  }
}

}  // namespace hearth::server
