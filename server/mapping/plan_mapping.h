#ifndef HEARTH_SERVER_MAPPING_PLAN_MAPPING_H_
#define HEARTH_SERVER_MAPPING_PLAN_MAPPING_H_

#include "engine/plan/plan_store.h"
#include "hearth/v1/plans.pb.h"

namespace hearth::server {

/// A plan as a message of the contract, without the names of datasets.
v1::Plan ToProto(const plan::PlanInfo& info);

}  // namespace hearth::server

#endif  // HEARTH_SERVER_MAPPING_PLAN_MAPPING_H_
