#include "kernels/gather.h"

// Highway compiles what lies between its BEFORE and AFTER macros once per
// instruction set, by including this file again.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "kernels/gather.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"
#include "kernels/copy_rows-inl.h"

HWY_BEFORE_NAMESPACE();
namespace hearth::kernels {
namespace HWY_NAMESPACE {

void Gather(const FeatureRows& source, const int64_t* indices, int64_t count,
            float* out) {
  CopyRowsOfAnyType(source, At<int64_t>{indices}, InOrder(), count, out);
}

}  // namespace HWY_NAMESPACE
}  // namespace hearth::kernels
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hearth::kernels {

HWY_EXPORT(Gather);

void GatherRows(const FeatureRows& source, const int64_t* indices,
                int64_t count, float* out) {
  // Also keeps null pointers of empty matrices from memcpy.
  if (source.dim == 0) return;
  HWY_DYNAMIC_DISPATCH(Gather)(source, indices, count, out);
}

}  // namespace hearth::kernels
#endif  // HWY_ONCE
