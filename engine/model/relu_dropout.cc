#include "engine/model/relu_dropout.h"

#include <algorithm>
#include <cmath>

#include "engine/base/random.h"

// Highway compiles what lies between its BEFORE and AFTER macros once per
// instruction set, by including this file again.
#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "engine/model/relu_dropout.cc"
#include "hwy/foreach_target.h"
#include "hwy/highway.h"

HWY_BEFORE_NAMESPACE();
namespace hearth::model {
namespace HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

#if HWY_TARGET == HWY_SCALAR

// Calls `function(index, dropped)` for each vector of floats of tiles [begin,
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

// At most 16 lanes, so that a whole number of vectors makes 16 Philox blocks
// whatever the instruction set.
using Words = hn::CappedTag<uint32_t, 16>;
using Floats = hn::Rebind<float, Words>;
using Word = hn::Vec<Words>;

// The high and low halves of the 64-bit products of each lane.
struct Product {
  Word high;
  Word low;
};

HWY_INLINE Product Multiply(Words words, Word a, Word b) {
  const hn::Repartition<uint64_t, Words> wide;
  const auto even = hn::MulEven(a, b);
  const auto odd =
      hn::MulEven(hn::BitCast(words, hn::ShiftRight<32>(hn::BitCast(wide, a))),
                  hn::BitCast(words, hn::ShiftRight<32>(hn::BitCast(wide, b))));
  return {hn::OddEven(hn::BitCast(words, odd),
                      hn::BitCast(words, hn::ShiftRight<32>(even))),
          hn::OddEven(hn::BitCast(words, hn::ShiftLeft<32>(odd)),
                      hn::BitCast(words, even))};
}

// Philox4x32-10 in every lane; the same function as hearth::Philox.
HWY_INLINE void PhiloxLanes(Words words, Word (&counter)[4], uint32_t key0,
                            uint32_t key1) {
  const Word multiplier0 = hn::Set(words, 0xD2511F53u);
  const Word multiplier1 = hn::Set(words, 0xCD9E8D57u);
  for (int round = 0; round < 10; ++round) {
    const Product product0 = Multiply(words, counter[0], multiplier0);
    const Product product1 = Multiply(words, counter[2], multiplier1);
    counter[0] =
        hn::Xor(hn::Xor(product1.high, counter[1]), hn::Set(words, key0));
    counter[1] = product1.low;
    counter[2] =
        hn::Xor(hn::Xor(product0.high, counter[3]), hn::Set(words, key1));
    counter[3] = product0.low;
    key0 += 0x9E3779B9u;
    key1 += 0xBB67AE85u;
  }
}

// Calls `function(index, dropped)` for each vector of floats of tiles [begin,
// end): word j of block b decides element 16 j + b of a tile.
template <class F>
void ForTiles(int64_t begin, int64_t end, const uint32_t* key,
              const uint32_t* nonce, uint32_t threshold, const F& function) {
  const Words words;
  const Floats floats;
  const auto lanes = static_cast<int64_t>(hn::Lanes(words));
  const Word limit = hn::Set(words, threshold);
  for (int64_t tile = begin; tile < end; ++tile) {
    for (int64_t block = 0; block < 16; block += lanes) {
      const int64_t number = tile * 16 + block;
      Word counter[4] = {hn::Add(hn::Set(words, static_cast<uint32_t>(number)),
                                 hn::Iota(words, 0)),
                         hn::Set(words, static_cast<uint32_t>(number >> 32)),
                         hn::Set(words, nonce[0]), hn::Set(words, nonce[1])};
      PhiloxLanes(words, counter, key[0], key[1]);
      for (int j = 0; j < 4; ++j) {
        function(
            tile * 64 + j * 16 + block,
            hn::MaskFromVec(hn::BitCast(
                floats, hn::VecFromMask(words, hn::Lt(counter[j], limit)))));
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

// The gradient `g` through LeakyReLU, whose output is `y`.
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
