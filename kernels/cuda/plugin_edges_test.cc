// Compares what the plug-in computes along edges and between layers with the
// same kernels emulated on the CPU, which edges_emulation_test tests.

#include <cmath>
#include <cstdint>
#include <vector>

#include "gtest/gtest.h"
#include "kernels/cuda/emulation/emulated_kernels.h"
#include "kernels/cuda/hearth_cuda.h"
#include "kernels/cuda/plugin_fixture.h"

namespace hearth::kernels {
namespace {

constexpr int64_t kSources = 50;

class PluginEdgesTest : public PluginOnGpuTest {
 protected:
  // An array that both have.
  template <typename T>
  struct Both {
    std::vector<T> host;
    T* device;
  };

  template <typename T>
  Both<T> Give(std::vector<T> values) {
    T* const device = ToDevice(values);
    return {std::move(values), device};
  }

  Both<float> Values(int64_t count, uint32_t seed) {
    std::vector<float> values(static_cast<size_t>(count));
    for (float& value : values) {
      seed = seed * 1664525u + 1013904223u;
      value = static_cast<float>(seed >> 8) / 0x1p23f - 1;
    }
    return Give(std::move(values));
  }

  // Rows with 0, 1, 2 ... edges in turn; `places` are in reverse.
  void MakeEdges(int64_t rows) {
    std::vector<int64_t> indptr = {0};
    std::vector<int32_t> indices;
    for (int64_t row = 0; row < rows; ++row) {
      for (int64_t i = 0; i < row % 7; ++i) {
        indices.push_back(static_cast<int32_t>((row * 5 + i * 11) % kSources));
      }
      indptr.push_back(static_cast<int64_t>(indices.size()));
    }
    std::vector<int64_t> places;
    for (size_t i = indices.size(); i > 0; --i) {
      places.push_back(static_cast<int64_t>(i) - 1);
    }
    rows_ = rows;
    num_edges_ = static_cast<int64_t>(indices.size());
    indptr_ = Give(std::move(indptr));
    indices_ = Give(std::move(indices));
    places_ = Give(std::move(places));
  }

  HearthCudaEdges HostEdges(bool placed) const {
    return {indptr_.host.data(), indices_.host.data(),
            placed ? places_.host.data() : nullptr, rows_};
  }
  HearthCudaEdges DeviceEdges(bool placed) const {
    return {indptr_.device, indices_.device, placed ? places_.device : nullptr,
            rows_};
  }

  void ExpectEqual(const Both<float>& array, float tolerance = 0) {
    std::vector<float> actual(array.host.size());
    Check(table_->copy(actual.data(), array.device,
                       actual.size() * sizeof(float), stream_));
    Wait();
    for (size_t i = 0; i < actual.size(); ++i) {
      ASSERT_NEAR(actual[i], array.host[i], tolerance) << "at " << i;
    }
  }

  void ExpectSumsAndDots(int64_t heads, int64_t channels) {
    const int64_t width = heads * channels;
    const Both<float> weights = Values(num_edges_ * heads, 1);
    const Both<float> other = Values(kSources * width, 2);
    const Both<float> own = Values(rows_ * width, 3);
    for (const bool placed : {false, true}) {
      Both<float> sums = Values(rows_ * width, 4);
      EmulateSum({HostEdges(placed), weights.host.data(), other.host.data(),
                  heads, channels, sums.host.data()});
      const HearthCudaSum sum = {
          DeviceEdges(placed), weights.device, other.device, heads, channels,
          sums.device};
      Check(table_->sum_edges(&sum, stream_));
      ExpectEqual(sums);
      Both<float> products = Values(num_edges_ * heads, 5);
      EmulateDots({HostEdges(placed), own.host.data(), other.host.data(), heads,
                   channels, products.host.data()});
      const HearthCudaDots dots = {
          DeviceEdges(placed), own.device, other.device, heads, channels,
          products.device};
      Check(table_->dot_edges(&dots, stream_));
      ExpectEqual(products);
    }
  }

  void ExpectAttention(int64_t heads, int64_t channels, bool weighed) {
    const int64_t stride = heads * channels + 3;
    const Both<float> own = Values(rows_ * stride, 1);
    const Both<float> other = Values(kSources * stride, 2);
    const Both<float> vectors = Values(heads * channels, 3);
    const HearthCudaScored on_host = {HostEdges(false),
                                      own.host.data(),
                                      other.host.data(),
                                      weighed ? vectors.host.data() : nullptr,
                                      heads,
                                      channels,
                                      stride};
    const HearthCudaScored on_device = {DeviceEdges(false),
                                        own.device,
                                        other.device,
                                        weighed ? vectors.device : nullptr,
                                        heads,
                                        channels,
                                        stride};
    Both<float> values = Values(num_edges_ * heads, 4);
    EmulateScores({on_host, values.host.data()});
    const HearthCudaScores scores = {on_device, values.device};
    Check(table_->score_edges(&scores, stream_));
    ExpectEqual(values);
    EmulateSoftmax({on_host.edges, heads, nullptr, values.host.data()});
    HearthCudaSoftmax softmax = {on_device.edges, heads, nullptr,
                                 values.device};
    Check(table_->softmax_edges(&softmax, stream_));
    ExpectEqual(values, 1e-6f);
    Both<float> gradient = Values(num_edges_ * heads, 5);
    EmulateSoftmaxGradient(
        {on_host.edges, heads, values.host.data(), gradient.host.data()});
    softmax.softmax = values.device;
    softmax.values = gradient.device;
    Check(table_->softmax_gradient(&softmax, stream_));
    ExpectEqual(gradient, 1e-5f);
    for (const int32_t adds : {0, 1}) {
      Both<float> by_own = Values(rows_ * stride, 6);
      Both<float> by_vectors = Values(rows_ * heads * channels, 7);
      EmulateScoreGradient({on_host, gradient.host.data(), by_own.host.data(),
                            by_vectors.host.data(), adds});
      const HearthCudaScoreGradient by = {
          on_device, gradient.device, by_own.device, by_vectors.device, adds};
      Check(table_->score_gradient(&by, stream_));
      ExpectEqual(by_own, 1e-4f);
      ExpectEqual(by_vectors, 1e-4f);
    }
  }

  int64_t rows_ = 0;
  int64_t num_edges_ = 0;
  Both<int64_t> indptr_ = {};
  Both<int32_t> indices_ = {};
  Both<int64_t> places_ = {};
};

TEST_F(PluginEdgesTest, GivesTheEmulationsBitsForEverySize) {
  for (const int64_t rows : {0, 1, 31, 32, 33, 1000}) {
    MakeEdges(rows);
    for (const int64_t channels : {1, 31, 32, 33, 64}) {
      ExpectSumsAndDots(1, channels);
      ExpectSumsAndDots(4, channels);
      ExpectAttention(4, channels, true);
      ExpectAttention(3, channels, false);
    }
  }
}

TEST_F(PluginEdgesTest, ActivatesAsTheEmulation) {
  for (const int64_t count : {0, 1, 31, 32, 33, 64, 65, 100000}) {
    for (const float slope : {0.0f, 0.01f}) {
      const HearthCudaActivation activation = {.slope = slope,
                                               .scale = 2,
                                               .threshold = 1u << 31,
                                               .key = {1, 2},
                                               .nonce = {3, 4}};
      Both<float> output = Values(count, 1);
      const Both<float> gradient = Values(count, 2);
      Both<float> result = Values(count, 3);
      EmulateActivate(
          {activation, count, output.host.data(), nullptr, nullptr});
      EmulateActivationGradient({activation, count, output.host.data(),
                                 gradient.host.data(), result.host.data()});
      const HearthCudaActivate activate = {activation, count, output.device,
                                           gradient.device, result.device};
      Check(table_->activate(&activate, stream_));
      Check(table_->activation_gradient(&activate, stream_));
      ExpectEqual(output);
      ExpectEqual(result);
    }
  }
}

TEST_F(PluginEdgesTest, RefusesNonsense) {
  HearthCudaSum sum = {};
  sum.heads = -1;
  EXPECT_NE(table_->sum_edges(&sum, stream_), 0);
  HearthCudaActivate activate = {};
  activate.count = -1;
  EXPECT_NE(table_->activate(&activate, stream_), 0);
}

}  // namespace
}  // namespace hearth::kernels
