#include "engine/model/cpu/relu_dropout.h"

#include <algorithm>
#include <cmath>

#include "engine/base/random.h"

// Highway compiles the code between its BEFORE and AFTER macros once per
// instruction set, by including this file again.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/model/cpu/relu_dropout.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace hearth::model {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET == HWY_SCALAR

// Calls `function(index, dropped)` for each vector of floats in tiles [begin,
// end), without SIMD.
template <class F>
void ForTiles(int64_t begin, int64_t end, const uint32_t* key,
              const uint32_t* nonce, uint32_t threshold, const F& function) {
  const hn::ScalableTag<float> floats;
  const hn::RebindToUnsigned<decltype(floats)> words;
  for (int64_t number = begin * 16; number < end * 16; ++number) {
    const auto drawn =
        Philox({static_cast<uint32_t>(number),
                static_cast<uint32_t>(number >> 32), nonce[0], nonce[1]},
               {key[0], key[1]});
    for (int j = 0; j < 4; ++j) {
      const auto below =
          hn::Lt(hn::Set(words, drawn[j]), hn::Set(words, threshold));
      function(
          number / 16 * 64 + j * 16 + number % 16,
          hn::MaskFromVec(hn::BitCast(floats, hn::VecFromMask(words, below))));
    }
  }
}

#else

// At most 16 lanes, so that 16 Philox blocks are a whole number of vectors for
// every instruction set.
using Words = hn::CappedTag<uint32_t, 16>;
using Floats = hn::Rebind<float, Words>;
using Word = hn::Vec<Words>;

// Words in the lower halves of lanes, as products take and give them; upper
// halves are ignored.
using Halves = hn::Repartition<uint64_t, Words>;
using Half = hn::Vec<Halves>;

// One round of Philox4x32 in every lane.
HWY_INLINE void PhiloxRound(Half (&counter)[4], Half key0, Half key1) {
  const Words words;
  const Half product0 =
      hn::MulEven(hn::BitCast(words, counter[0]), hn::Set(words, 0xD2511F53u));
  const Half product1 =
      hn::MulEven(hn::BitCast(words, counter[2]), hn::Set(words, 0xCD9E8D57u));
  counter[0] = hn::Xor3(hn::ShiftRight<32>(product1), counter[1], key0);
  counter[1] = product1;
  counter[2] = hn::Xor3(hn::ShiftRight<32>(product0), counter[3], key1);
  counter[3] = product0;
}

// Philox4x32-10, the same function as hearth::Philox, in every lane of `even`
// and `odd`, interleaved so that their products overlap.
HWY_INLINE void PhiloxLanes(Half (&even)[4], Half (&odd)[4], uint32_t key0,
                            uint32_t key1) {
  const Halves halves;
  // A loop that is not unrolled would make vectors of the keys in each round.
#pragma GCC unroll 10
  for (int round = 0; round < 10; ++round) {
    const Half k0 = hn::Set(halves, key0);
    const Half k1 = hn::Set(halves, key1);
    PhiloxRound(even, k0, k1);
    PhiloxRound(odd, k0, k1);
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
}

// Calls `function(index, dropped)` for each vector of floats in tiles [begin,
// end): word j of block b decides element 16 j + b of a tile.
template <class F>
void ForTiles(int64_t begin, int64_t end, const uint32_t* key,
              const uint32_t* nonce, uint32_t threshold, const F& function) {
  const Words words;
  const Halves halves;
  const Floats floats;
  const auto lanes = static_cast<int64_t>(hn::Lanes(words));
  const Word limit = hn::Set(words, threshold);
  for (int64_t tile = begin; tile < end; ++tile) {
    for (int64_t block = 0; block < 16; block += lanes) {
      const int64_t number = tile * 16 + block;
      const Word numbers = hn::Add(
          hn::Set(words, static_cast<uint32_t>(number)), hn::Iota(words, 0));
      const Half high = hn::Set(halves, static_cast<uint64_t>(number) >> 32);
      const Half nonce0 = hn::Set(halves, nonce[0]);
      const Half nonce1 = hn::Set(halves, nonce[1]);
      Half even[4] = {hn::BitCast(halves, numbers), high, nonce0, nonce1};
      Half odd[4] = {hn::ShiftRight<32>(even[0]), high, nonce0, nonce1};
      PhiloxLanes(even, odd, key[0], key[1]);
      for (int j = 0; j < 4; ++j) {
        const Word drawn =
            hn::OddEven(hn::BitCast(words, hn::ShiftLeft<32>(odd[j])),
                        hn::BitCast(words, even[j]));
        function(tile * 64 + j * 16 + block,
                 hn::MaskFromVec(hn::BitCast(
                     floats, hn::VecFromMask(words, hn::Lt(drawn, limit)))));
      }
    }
  }
}

#endif  // HWY_TARGET == HWY_SCALAR

#if HWY_TARGET == HWY_SCALAR
using TileFloats = hn::ScalableTag<float>;
#else
using TileFloats = Floats;
#endif

void ApplyTiles(float* data, int64_t begin, int64_t end, const uint32_t* key,
                const uint32_t* nonce, uint32_t threshold, float scale) {
  const TileFloats floats;
  const auto zero = hn::Zero(floats);
  const auto factor = hn::Set(floats, scale);
  ForTiles(begin, end, key, nonce, threshold,
           [&](int64_t index, const auto& dropped) HWY_ATTR {
             const auto x = hn::LoadU(floats, data + index);
             const auto drop = hn::Or(dropped, hn::Le(x, zero));
             hn::StoreU(hn::IfThenZeroElse(drop, hn::Mul(x, factor)), floats,
                        data + index);
           });
}

void ApplyLeakyTiles(float* data, int64_t begin, int64_t end,
                     const uint32_t* key, const uint32_t* nonce,
                     uint32_t threshold, float scale) {
  const TileFloats floats;
  const auto zero = hn::Zero(floats);
  const auto slope = hn::Set(floats, kLeakyReluSlope);
  const auto factor = hn::Set(floats, scale);
  ForTiles(begin, end, key, nonce, threshold,
           [&](int64_t index, const auto& dropped) HWY_ATTR {
             const auto x = hn::LoadU(floats, data + index);
             const auto leaky =
                 hn::IfThenElse(hn::Le(x, zero), hn::Mul(x, slope), x);
             hn::StoreU(hn::IfThenZeroElse(dropped, hn::Mul(leaky, factor)),
                        floats, data + index);
           });
}

void LeakyGradientTiles(const float* output, const float* gradient,
                        float* result, int64_t begin, int64_t end,
                        const uint32_t* key, const uint32_t* nonce,
                        uint32_t threshold, float scale) {
  const TileFloats floats;
  const auto zero = hn::Zero(floats);
  const auto slope = hn::Set(floats, kLeakyReluSlope);
  const auto factor = hn::Set(floats, scale);
  ForTiles(
      begin, end, key, nonce, threshold,
      [&](int64_t index, const auto& dropped) HWY_ATTR {
        const auto y = hn::LoadU(floats, output + index);
        const auto g = hn::Mul(hn::LoadU(floats, gradient + index), factor);
        const auto leaky =
            hn::IfThenElse(hn::Le(y, zero), hn::Mul(g, slope), g);
        hn::StoreU(hn::IfThenZeroElse(dropped, leaky), floats, result + index);
      });
}

void Relu(float* data, int64_t begin, int64_t end) {
  const hn::ScalableTag<float> floats;
  const auto lanes = static_cast<int64_t>(hn::Lanes(floats));
  const auto zero = hn::Zero(floats);
  int64_t i = begin;
  for (; i + lanes <= end; i += lanes) {
    const auto x = hn::LoadU(floats, data + i);
    hn::StoreU(hn::IfThenZeroElse(hn::Le(x, zero), x), floats, data + i);
  }
  for (; i < end; ++i) data[i] = data[i] <= 0 ? 0 : data[i];
}

void Gradient(const float* output, const float* gradient, float scale,
              float* result, int64_t begin, int64_t end) {
  const hn::ScalableTag<float> floats;
  const auto lanes = static_cast<int64_t>(hn::Lanes(floats));
  const auto zero = hn::Zero(floats);
  const auto factor = hn::Set(floats, scale);
  int64_t i = begin;
  for (; i + lanes <= end; i += lanes) {
    const auto dropped = hn::Eq(hn::LoadU(floats, output + i), zero);
    const auto scaled = hn::Mul(hn::LoadU(floats, gradient + i), factor);
    hn::StoreU(hn::IfThenZeroElse(dropped, scaled), floats, result + i);
  }
  for (; i < end; ++i) result[i] = output[i] == 0 ? 0 : gradient[i] * scale;
}

}  // namespace HWY_NAMESPACE
}  // namespace hearth::model
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace hearth::model {
namespace {

float Leaky(float x) { return x <= 0 ? x * kLeakyReluSlope : x; }

// Gradient through LeakyReLU with output `y`, for gradient `g`.
float LeakyGradient(float y, float g) {
  return y <= 0 ? g * kLeakyReluSlope : g;
}

}  // namespace

HWY_EXPORT(ApplyTiles);
HWY_EXPORT(ApplyLeakyTiles);
HWY_EXPORT(LeakyGradientTiles);
HWY_EXPORT(Relu);
HWY_EXPORT(Gradient);

DropoutPattern::DropoutPattern(double probability, uint64_t model_seed,
                               const train::StepPosition& position,
                               uint64_t layer)
    : threshold_(static_cast<uint32_t>(std::lround(probability * 0x1p32))),
      scale_(static_cast<float>(1 / (1 - probability))) {
  RandomStream stream(model_seed, RandomPurpose::kDropout, position.epoch,
                      position.batch, position.shard << 32 | layer);
  key_ = {stream(), stream()};
  nonce_ = {stream(), stream()};
}

bool DropoutPattern::Keeps(int64_t index) const {
  const int64_t number = index / kTile * 16 + index % 16;
  const auto words =
      Philox({static_cast<uint32_t>(number),
              static_cast<uint32_t>(number >> 32), nonce_[0], nonce_[1]},
             key_);
  return words[index % kTile / 16] >= threshold_;
}

void DropoutPattern::ApplyRelu(float* data, int64_t begin, int64_t end) const {
  const int64_t last_tile = std::max(begin, end / kTile * kTile);
  HWY_DYNAMIC_DISPATCH(ApplyTiles)
  (data, begin / kTile, last_tile / kTile, key_.data(), nonce_.data(),
   threshold_, scale_);
  for (int64_t i = last_tile; i < end; ++i) {
    data[i] = data[i] <= 0 || !Keeps(i) ? 0 : data[i] * scale_;
  }
}

void DropoutPattern::ApplyLeakyRelu(float* data, int64_t begin,
                                    int64_t end) const {
  const int64_t last_tile = std::max(begin, end / kTile * kTile);
  HWY_DYNAMIC_DISPATCH(ApplyLeakyTiles)
  (data, begin / kTile, last_tile / kTile, key_.data(), nonce_.data(),
   threshold_, scale_);
  for (int64_t i = last_tile; i < end; ++i) {
    data[i] = Keeps(i) ? Leaky(data[i]) * scale_ : 0;
  }
}

void DropoutPattern::LeakyReluGradient(const float* output,
                                       const float* gradient, float* result,
                                       int64_t begin, int64_t end) const {
  const int64_t last_tile = std::max(begin, end / kTile * kTile);
  HWY_DYNAMIC_DISPATCH(LeakyGradientTiles)
  (output, gradient, result, begin / kTile, last_tile / kTile, key_.data(),
   nonce_.data(), threshold_, scale_);
  for (int64_t i = last_tile; i < end; ++i) {
    result[i] = Keeps(i) ? LeakyGradient(output[i], gradient[i] * scale_) : 0;
  }
}

void ReluActivation::Apply(float* data, int64_t begin, int64_t end) const {
  if (dropout) {
    dropout->ApplyRelu(data, begin, end);
  } else {
    hearth::model::ApplyRelu(data, begin, end);
  }
}

void ApplyLeakyRelu(float* data, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) data[i] = Leaky(data[i]);
}

void LeakyReluGradient(const float* output, const float* gradient,
                       float* result, int64_t begin, int64_t end) {
  for (int64_t i = begin; i < end; ++i) {
    result[i] = LeakyGradient(output[i], gradient[i]);
  }
}

void ApplyRelu(float* data, int64_t begin, int64_t end) {
  HWY_DYNAMIC_DISPATCH(Relu)(data, begin, end);
}

void ReluDropoutGradient(const float* output, const float* gradient,
                         float scale, float* result, int64_t begin,
                         int64_t end) {
  HWY_DYNAMIC_DISPATCH(Gradient)(output, gradient, scale, result, begin, end);
}

}  // namespace hearth::model
#endif  // HWY_ONCE
