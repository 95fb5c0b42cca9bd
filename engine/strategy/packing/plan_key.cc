#include "engine/strategy/packing/plan_key.h"

#include "absl/strings/numbers.h"
#include "engine/plan/plan_store.h"

namespace hearth::strategy {

PlanKey PlanKeyOf(absl::string_view strategy, absl::string_view fingerprint,
                  const Sha256& hash) {
  const std::string digest = hash.HexDigest();
  PlanKey key = {
      .name = plan::PlanName(strategy, fingerprint, digest.substr(0, 32))};
  // Cannot fail with 16 hexadecimal digits.
  (void)absl::SimpleHexAtoi(digest.substr(0, 16), &key.id);
  return key;
}

}  // namespace hearth::strategy
