#include "server/feeds/feeds.h"

#include <sys/random.h>

#include <algorithm>
#include <cerrno>
#include <cstddef>
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
constexpr absl::Duration kTick = absl::Milliseconds(250);

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
    : store_(store),
      clock_(clock),
      options_(std::move(options)),
      metrics_(options_.registry == nullptr
                   ? nullptr
                   : std::make_unique<FeedMetrics>(*options_.registry)) {}

Feeds::~Feeds() { Stop(); }

void Feeds::Stop() {
  if (!thread_.joinable()) return;
  thread_.request_stop();
  {
    absl::MutexLock lock(&mutex_);
    changed_.Signal();
  }
  thread_.join();
}

void Feeds::Start() {
  thread_ = std::jthread([this](const std::stop_token& stop) { Work(stop); });
}

void Feeds::Work(const std::stop_token& stop) {
  while (true) {
    bool is_wanted = false;
    {
      absl::MutexLock lock(&mutex_);
      if (!stop.stop_requested() && !is_wanted_) {
        changed_.WaitWithTimeout(&mutex_, kTick);
      }
      if (stop.stop_requested()) return;
      is_wanted = std::exchange(is_wanted_, false);
    }
    if (is_wanted && options_.wake) options_.wake();
    Sweep();
  }
}

Feeds::Channels Feeds::ChannelsOf(const std::string& id, uint32_t trainers) {
  absl::MutexLock lock(&mutex_);
  Channels& channels = channels_[id];
  while (channels.size() < trainers) {
    channels.push_back(std::make_shared<feed::Channel>(clock_, [this] {
      absl::MutexLock lock(&mutex_);
      is_wanted_ = true;
      changed_.Signal();
    }));
    channels.back()->SetDraining(is_draining_);
  }
  return channels;
}

void Feeds::SetDraining(bool is_draining) {
  absl::MutexLock lock(&mutex_);
  is_draining_ = is_draining;
  for (const auto& [id, channels] : channels_) {
    for (const auto& channel : channels) channel->SetDraining(is_draining);
  }
}

absl::StatusOr<std::string> Feeds::NewTicket(const std::string& id,
                                             uint32_t rank, Holder holder) {
  HEARTH_ASSIGN_OR_RETURN(const v1::Job job, store_.Get(id));
  if (!job.spec().has_feed()) {
    return absl::FailedPreconditionError(absl::StrCat(id, " is not a feed"));
  }
  if (HasEnded(job.state())) {
    return absl::FailedPreconditionError(
        absl::StrCat(id, " has ended: ", EndOf(job).message()));
  }
  const uint32_t trainers = job.spec().feed().data().trainers();
  if (rank >= trainers) {
    return absl::InvalidArgumentError(absl::StrCat(
        "rank: ", id, " has ", trainers, " trainers, and none of rank ", rank));
  }
  if (ChannelsOf(id, trainers)[rank]->has_client()) {
    return absl::AlreadyExistsError(
        absl::StrCat("another client takes the batches of ", id));
  }
  HEARTH_ASSIGN_OR_RETURN(std::string ticket, RandomTicket());
  absl::MutexLock lock(&mutex_);
  const auto outstanding = std::count_if(
      tickets_.begin(), tickets_.end(),
      [&](const auto& entry) { return entry.second.holder == holder; });
  if (outstanding >= static_cast<ptrdiff_t>(kMostTickets)) {
    return absl::ResourceExhaustedError(
        absl::StrCat("you have ", outstanding,
                     " tickets that were not used: each is good for ",
                     absl::FormatDuration(kTicketLife)));
  }
  tickets_[ticket] = {
      .job = id,
      .rank = rank,
      .holder = std::move(holder),
      .expires = clock_.SteadySeconds() + absl::ToDoubleSeconds(kTicketLife)};
  return ticket;
}

absl::StatusOr<std::shared_ptr<feed::Channel>> Feeds::Redeem(
    const std::string& ticket, const Holder& holder) {
  absl::MutexLock lock(&mutex_);
  const auto found = tickets_.find(ticket);
  if (found == tickets_.end()) {
    return absl::PermissionDeniedError("the ticket is not known");
  }
  const Ticket redeemed = std::move(found->second);
  tickets_.erase(found);
  if (redeemed.holder != holder || clock_.SteadySeconds() > redeemed.expires) {
    return absl::PermissionDeniedError(
        "the ticket is too old, another caller's, or for another way");
  }
  const auto channel = channels_.find(redeemed.job);
  if (channel == channels_.end()) {
    return absl::FailedPreconditionError("the feed has ended");
  }
  return channel->second[redeemed.rank];
}

Feeds::Channels Feeds::Find(const std::string& id) const {
  absl::MutexLock lock(&mutex_);
  const auto found = channels_.find(id);
  return found == channels_.end() ? Channels() : found->second;
}

bool Feeds::ClientWaits(const std::string& id) const {
  const Channels channels = Find(id);
  return !channels.empty() &&
         std::all_of(channels.begin(), channels.end(), [](const auto& channel) {
           return channel->ClientWaits();
         });
}

void Feeds::Sweep() {
  std::vector<std::pair<std::string, Channels>> feeds;
  {
    absl::MutexLock lock(&mutex_);
    const double now = clock_.SteadySeconds();
    std::erase_if(tickets_, [now](const auto& entry) {
      return now > entry.second.expires;
    });
    feeds.assign(channels_.begin(), channels_.end());
  }
  for (const auto& [id, channels] : feeds) {
    const absl::StatusOr<v1::Job> job = store_.Get(id);
    if (!job.ok() && !absl::IsNotFound(job.status())) continue;
    if (!job.ok() || HasEnded(job->state())) {
      const absl::Status end =
          job.ok() ? EndOf(*job)
                   : absl::NotFoundError(absl::StrCat(id, " is gone"));
      bool has_client = false;
      for (const auto& channel : channels) {
        channel->End(end);
        has_client = has_client || channel->has_client();
      }
      if (has_client) continue;
      absl::MutexLock lock(&mutex_);
      channels_.erase(id);
      given_up_.erase(id);
      continue;
    }
    // One that is gone is missed by all.
    double alone = 0;
    for (const auto& channel : channels) {
      alone = std::max(alone, channel->seconds_without_client());
    }
    if (alone > absl::ToDoubleSeconds(options_.patience)) GiveUp(id);
  }
  if (metrics_ != nullptr) metrics_->Update(feeds);
}

// Its job may take a while to end.
void Feeds::GiveUp(const std::string& id) {
  {
    absl::MutexLock lock(&mutex_);
    if (given_up_.contains(id)) return;
  }
  if (!options_.cancel(id).ok()) return;
  absl::MutexLock lock(&mutex_);
  given_up_.insert(id);
}

}  // namespace hearth::server
