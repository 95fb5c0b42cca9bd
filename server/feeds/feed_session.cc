#include "server/feeds/feed_session.h"

#include <cmath>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "engine/base/status.h"
#include "engine/feed/batch_layout.h"
#include "engine/train/metric.h"

namespace hearth::server {
namespace {

// Numbers of a client above this are faults; every product with them fits.
constexpr uint64_t kMostNumber = uint64_t{1} << 40;

absl::StatusOr<feed::OpenPass> ToOpenPass(const v1::FeedOpen& open) {
  feed::OpenPass pass;
  pass.number = open.pass();
  switch (open.split()) {
    case v1::FEED_TRAIN:
      pass.split = feed::Split::kTrain;
      break;
    case v1::FEED_VALID:
      pass.split = feed::Split::kValid;
      break;
    case v1::FEED_TEST:
      pass.split = feed::Split::kTest;
      break;
    case v1::FEED_REQUESTS:
      pass.split = feed::Split::kRequests;
      break;
    default:
      return absl::InvalidArgumentError("open.split: is not known");
  }
  switch (open.layout()) {
    case v1::FEED_GRAPH:
      pass.layout = feed::BatchLayout::kGraph;
      break;
    case v1::FEED_LAYERS:
      pass.layout = feed::BatchLayout::kLayers;
      break;
    default:
      return absl::InvalidArgumentError("open.layout: is not known");
  }
  if (open.epoch() > kMostNumber || open.first_batch() > kMostNumber) {
    return absl::InvalidArgumentError("open: epoch or batch is too large");
  }
  pass.epoch = static_cast<int64_t>(open.epoch());
  pass.next_batch = static_cast<int64_t>(open.first_batch());
  pass.all_labels = open.all_labels();
  return pass;
}

absl::StatusOr<feed::ReportedEpoch> ToReportedEpoch(
    const v1::FeedEpoch& epoch) {
  if (epoch.epoch() == 0) {
    return absl::InvalidArgumentError("epoch.epoch: must be at least 1");
  }
  feed::ReportedEpoch reported;
  reported.epoch = epoch.epoch();
  reported.loss = epoch.loss();
  if (epoch.has_valid_metric()) {
    const auto metric = train::MetricNamed(epoch.metric());
    if (!metric.has_value()) {
      return absl::InvalidArgumentError(
          absl::StrCat("epoch.metric: \"", epoch.metric(), "\" is not known"));
    }
    reported.metric = *metric;
    reported.valid_metric = epoch.valid_metric();
  }
  return reported;
}

void AddCounts(const std::vector<feed::Counts>& counts,
               google::protobuf::RepeatedPtrField<v1::FeedCounts>& out) {
  for (const feed::Counts& of_type : counts) {
    v1::FeedCounts& proto = *out.Add();
    proto.set_type(of_type.type);
    proto.mutable_counts()->Add(of_type.counts.begin(), of_type.counts.end());
  }
}

v1::FeedBatch ToProto(const feed::OutgoingBatch& batch) {
  v1::FeedBatch proto;
  proto.set_pass(batch.pass);
  proto.set_number(static_cast<uint64_t>(batch.number));
  proto.set_num_seeds(static_cast<uint64_t>(batch.num_seeds));
  proto.set_loss_scale(batch.loss_scale);
  proto.add_slots(batch.rows->id());
  proto.add_slots(batch.rest->id());
  for (const feed::Array& array : batch.arrays.arrays) {
    v1::FeedArray& to = *proto.add_arrays();
    to.set_name(array.name);
    to.set_type(array.type == feed::Array::Type::kFloat32
                    ? v1::FeedArray::FLOAT32
                    : v1::FeedArray::INT64);
    to.set_slot(array.in_rows ? batch.rows->id() : batch.rest->id());
    to.set_offset(array.offset);
    to.mutable_shape()->Add(array.shape.begin(), array.shape.end());
    if (array.of_type.has_value()) to.set_of_type(*array.of_type);
    if (array.layer.has_value()) to.set_layer(*array.layer);
  }
  AddCounts(batch.arrays.num_sampled_nodes, *proto.mutable_num_sampled_nodes());
  AddCounts(batch.arrays.num_sampled_edges, *proto.mutable_num_sampled_edges());
  for (const feed::LayerSize& layer : batch.arrays.layers) {
    v1::FeedLayer& to = *proto.add_layers();
    to.set_num_sources(static_cast<uint64_t>(layer.num_sources));
    to.set_num_destinations(static_cast<uint64_t>(layer.num_destinations));
  }
  return proto;
}

v1::JobError ToProto(const absl::Status& status) {
  constexpr size_t kMostText = 4096;
  v1::JobError error;
  error.set_code(static_cast<int>(status.code()));
  error.set_message(std::string(status.message().substr(0, kMostText)));
  return error;
}

}  // namespace

absl::Status FeedSession::Receive(absl::string_view packet) {
  v1::FeedUp message;
  if (message.ParseFromArray(packet.data(), static_cast<int>(packet.size()))) {
    return Receive(message);
  }
  const auto status = absl::InvalidArgumentError("a message is malformed");
  SendError(status);
  return status;
}

absl::Status FeedSession::Receive(const v1::FeedUp& message) {
  const absl::Status status = Handle(message);
  if (!status.ok()) SendError(status);
  return status;
}

absl::Status FeedSession::Handle(const v1::FeedUp& message) {
  if (channel_ == nullptr) {
    if (!message.has_hello()) {
      return absl::InvalidArgumentError("the first message must be hello");
    }
    return SayHello(message.hello().ticket());
  }
  switch (message.message_case()) {
    case v1::FeedUp::kOpen: {
      HEARTH_ASSIGN_OR_RETURN(const feed::OpenPass pass,
                              ToOpenPass(message.open()));
      return channel_->Open(pass);
    }
    case v1::FeedUp::kRelease:
      return channel_->Release(absl::MakeConstSpan(
          message.release().slots().data(), message.release().slots().size()));
    case v1::FeedUp::kClose:
      channel_->Close(message.close().pass());
      return absl::OkStatus();
    case v1::FeedUp::kYield:
      channel_->Yield();
      return absl::OkStatus();
    case v1::FeedUp::kBye:
      channel_->Bye();
      return absl::OkStatus();
    case v1::FeedUp::kSeconds: {
      const v1::FeedSeconds& seconds = message.seconds();
      if (!std::isfinite(seconds.wait()) || !std::isfinite(seconds.script()) ||
          seconds.copies() > kMostNumber) {
        return absl::InvalidArgumentError("seconds: are no numbers");
      }
      channel_->AddSeconds({.wait = seconds.wait(),
                            .script = seconds.script(),
                            .copies = static_cast<int64_t>(seconds.copies())});
      return absl::OkStatus();
    }
    case v1::FeedUp::kEpoch: {
      HEARTH_ASSIGN_OR_RETURN(feed::ReportedEpoch epoch,
                              ToReportedEpoch(message.epoch()));
      return channel_->AddEpoch(std::move(epoch));
    }
    case v1::FeedUp::kRequest: {
      const v1::FeedRequest& request = message.request();
      return channel_->Request(
          request.pass(),
          absl::MakeConstSpan(request.nodes().data(), request.nodes().size()),
          request.goes_on());
    }
    case v1::FeedUp::kHello:
      return absl::InvalidArgumentError("hello was said before");
    case v1::FeedUp::MESSAGE_NOT_SET:
      break;
  }
  return absl::InvalidArgumentError("a message is not known");
}

absl::Status FeedSession::SayHello(const std::string& ticket) {
  HEARTH_ASSIGN_OR_RETURN(std::shared_ptr<feed::Channel> channel,
                          redeem_(ticket));
  HEARTH_RETURN_IF_ERROR(channel->Connect(shared_from_this()));
  channel_ = std::move(channel);
  return absl::OkStatus();
}

void FeedSession::Leave() {
  if (channel_ != nullptr) channel_->Disconnect(*this);
}

absl::Status FeedSession::Send(const feed::Welcome& welcome) {
  v1::FeedDown message;
  v1::FeedWelcome& to = *message.mutable_welcome();
  to.set_train_batches(static_cast<uint64_t>(welcome.train.batches));
  to.set_valid_batches(static_cast<uint64_t>(welcome.valid.batches));
  to.set_test_batches(static_cast<uint64_t>(welcome.test.batches));
  to.set_train_seeds(static_cast<uint64_t>(welcome.train.seeds));
  to.set_valid_seeds(static_cast<uint64_t>(welcome.valid.seeds));
  to.set_test_seeds(static_cast<uint64_t>(welcome.test.seeds));
  to.set_labels(welcome.labels);
  to.set_label_width(static_cast<uint64_t>(welcome.label_width));
  to.set_feature_dim(static_cast<uint64_t>(welcome.feature_dim));
  for (const feed::Welcome::NodeType& type : welcome.node_types) {
    v1::FeedNodeType& node = *to.add_node_types();
    node.set_name(type.name);
    node.set_feature_dim(static_cast<uint64_t>(type.feature_dim));
    node.set_num_nodes(static_cast<uint64_t>(type.num_nodes));
  }
  for (const std::string& type : welcome.edge_types) to.add_edge_types(type);
  to.set_target(welcome.target);
  to.set_fingerprint(welcome.fingerprint);
  to.set_credits(static_cast<uint32_t>(welcome.credits));
  return sink_->Send(message);
}

absl::Status FeedSession::Send(const feed::OutgoingBatch& batch) {
  HEARTH_RETURN_IF_ERROR(SendDropped());
  HEARTH_RETURN_IF_ERROR(Announce(*batch.rows));
  HEARTH_RETURN_IF_ERROR(Announce(*batch.rest));
  v1::FeedDown message;
  *message.mutable_batch() = ToProto(batch);
  return sink_->SendBatch(message, batch);
}

absl::Status FeedSession::SendEnd(const feed::OpenPass& pass,
                                  const absl::Status& status) {
  v1::FeedDown message;
  if (!status.ok()) *message.mutable_end()->mutable_error() = ToProto(status);
  message.mutable_end()->set_pass(pass.number);
  message.mutable_end()->set_batches(static_cast<uint64_t>(pass.num_batches));
  return sink_->Send(message);
}

void FeedSession::SendError(const absl::Status& error) {
  v1::FeedDown message;
  *message.mutable_error() = ToProto(error);
  sink_->Send(message).IgnoreError();
}

// Tells the client of a slot, unless it knows it.
absl::Status FeedSession::Announce(const feed::Slot& slot) {
  {
    absl::MutexLock lock(&mutex_);
    if (!announced_.try_emplace(slot.id(), slot.file()).second) {
      return absl::OkStatus();
    }
  }
  v1::FeedDown message;
  message.mutable_slot()->set_id(slot.id());
  message.mutable_slot()->set_bytes(slot.bytes());
  return sink_->SendSlot(message, slot);
}

absl::Status FeedSession::SendDropped() {
  v1::FeedDown message;
  {
    absl::MutexLock lock(&mutex_);
    std::erase_if(announced_, [&](const auto& entry) {
      if (!entry.second.expired()) return false;
      message.mutable_drop()->add_slots(entry.first);
      return true;
    });
  }
  return message.has_drop() ? sink_->Send(message) : absl::OkStatus();
}

}  // namespace hearth::server
