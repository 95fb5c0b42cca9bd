#ifndef HEARTH_KERNELS_EVERY_TARGET_FIXTURE_H_
#define HEARTH_KERNELS_EVERY_TARGET_FIXTURE_H_

#include <string>
#include <tuple>

#include "gtest/gtest.h"
#include "hwy/targets.h"

namespace hearth::kernels {

/// Base of tests that run with each instruction set that this processor has,
/// not only the one that dispatch would choose. Instantiate with
/// Combine(EveryTarget(), ::testing::Values(...)) and read the second parameter
/// by parameter().
template <typename Parameter>
class EveryTargetTest
    : public ::testing::TestWithParam<std::tuple<int64_t, Parameter>> {
 protected:
  void SetUp() override {
    hwy::SetSupportedTargetsForTest(std::get<0>(this->GetParam()));
  }
  void TearDown() override { hwy::SetSupportedTargetsForTest(0); }

  const Parameter& parameter() const { return std::get<1>(this->GetParam()); }
};

inline auto EveryTarget() {
  return ::testing::ValuesIn(hwy::SupportedAndGeneratedTargets());
}

/// Names tests "AVX2_" followed by `name` of the second parameter.
template <typename NameParameter>
auto TargetAnd(NameParameter name) {
  return [name](const auto& info) {
    return std::string(hwy::TargetName(std::get<0>(info.param))) + "_" +
           name(std::get<1>(info.param));
  };
}

}  // namespace hearth::kernels

#endif  // HEARTH_KERNELS_EVERY_TARGET_FIXTURE_H_
