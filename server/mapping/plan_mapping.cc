#include "server/mapping/plan_mapping.h"

#include "absl/time/time.h"

namespace hearth::server {
namespace {

v1::Plan::State ToProto(plan::PlanInfo::State state) {
  switch (state) {
    case plan::PlanInfo::State::kWhole:
      return v1::Plan::WHOLE;
    case plan::PlanInfo::State::kUnfinished:
      return v1::Plan::UNFINISHED;
    case plan::PlanInfo::State::kDamaged:
      return v1::Plan::DAMAGED;
  }
  return v1::Plan::STATE_UNSPECIFIED;
}

}  // namespace

v1::Plan ToProto(const plan::PlanInfo& info) {
  v1::Plan proto;
  proto.set_name(info.name);
  proto.set_strategy(info.strategy());
  proto.set_fingerprint(info.fingerprint());
  proto.set_state(ToProto(info.state));
  proto.set_in_use(info.in_use);
  proto.set_size_bytes(info.size_bytes);
  if (info.created != absl::InfinitePast()) {
    proto.mutable_create_time()->set_seconds(absl::ToUnixSeconds(info.created));
  }
  if (info.used != absl::InfinitePast()) {
    proto.mutable_use_time()->set_seconds(absl::ToUnixSeconds(info.used));
  }
  for (const auto& [name, value] : info.properties) {
    v1::PlanProperty& property = *proto.add_properties();
    property.set_name(name);
    property.set_value(value);
  }
  return proto;
}

}  // namespace hearth::server
