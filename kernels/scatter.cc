#include "kernels/scatter.h"

// Highway compiles what lies between its BEFORE and AFTER macros once per
// instruction set, by including this file again.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/scatter.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/copy_rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace hearth::kernels {
namespace HWY_NAMESPACE {

void Scatter(const FeatureRows& source, const int64_t* slots,
             const int32_t* positions, int64_t count, float* out) {
  const At<int32_t> to{positions};
  if (slots == nullptr) {
    CopyRowsOfAnyType(source, InOrder(), to, count, out);
  } else {
    CopyRowsOfAnyType(source, At<int64_t>{slots}, to, count, out);
  }
}

}  // namespace HWY_NAMESPACE
}  // namespace hearth::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hearth::kernels {

HWY_EXPORT(Scatter);

void ScatterRows(const FeatureRows& source, const int64_t* slots,
                 const int32_t* positions, int64_t count, float* out) {
  // Also keeps null pointers of empty matrices from memcpy.
  if (source.dim == 0) return;
  HWY_DYNAMIC_DISPATCH(Scatter)(source, slots, positions, count, out);
}

}  // namespace hearth::kernels
#endif  // HWY_ONCE
