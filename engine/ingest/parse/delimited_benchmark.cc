// Speed of parsing lines of two node ids, and lines of features:
//   bazel run //engine/ingest/parse:delimited_benchmark

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "benchmark/benchmark.h"
#include "engine/base/random.h"
#include "engine/ingest/parse/delimited_text.h"
#include "engine/ingest/parse/testing/zip_builder.h"
#include "engine/io/file_system.h"

namespace hearth::ingest {
namespace {

std::string Edges(int64_t count, const char* separator = ",") {
  RandomStream random(1, RandomPurpose::kGenerator);
  std::string text;
  for (int64_t i = 0; i < count; ++i) {
    absl::StrAppend(&text, random.Below(111'059'956), separator,
                    random.Below(111'059'956), "\n");
  }
  return text;
}

void ReadEdges(benchmark::State& state, const std::string& bytes,
               size_t text_bytes, Separator separator = Separator::kComma) {
  for (auto _ : state) {
    auto lines = TextLines::Open(io::NewMemoryFile(bytes));
    std::array<int64_t, 2> edge;
    int64_t sum = 0;
    while (*(*lines)->Next()) {
      if (!ParseFields(**lines, separator, absl::MakeSpan(edge)).ok()) {
        state.SkipWithError("malformed");
        return;
      }
      sum += edge[0] ^ edge[1];
    }
    benchmark::DoNotOptimize(sum);
  }
  state.SetBytesProcessed(state.iterations() *
                          static_cast<int64_t>(text_bytes));
}

void BM_Edges(benchmark::State& state) {
  const std::string text = Edges(500'000);
  ReadEdges(state, text, text.size());
}
BENCHMARK(BM_Edges)->Unit(benchmark::kMillisecond);

void BM_EdgesWithTabs(benchmark::State& state) {
  const std::string text = Edges(500'000, "\t");
  ReadEdges(state, text, text.size(), Separator::kBlank);
}
BENCHMARK(BM_EdgesWithTabs)->Unit(benchmark::kMillisecond);

void BM_EdgesInGzip(benchmark::State& state) {
  const std::string text = Edges(500'000);
  ReadEdges(state, Gzip(text), text.size());
}
BENCHMARK(BM_EdgesInGzip)->Unit(benchmark::kMillisecond);

void BM_Features(benchmark::State& state) {
  RandomStream random(1, RandomPurpose::kGenerator);
  std::string text;
  for (int row = 0; row < 10'000; ++row) {
    for (int i = 0; i < 128; ++i) {
      absl::StrAppend(&text, i == 0 ? "" : ",", "0.", random.Below(1'000'000));
    }
    text += "\n";
  }
  std::vector<float> features(128);
  for (auto _ : state) {
    auto lines = TextLines::Open(io::NewMemoryFile(text));
    while (*(*lines)->Next()) {
      if (!ParseFields(**lines, Separator::kComma, absl::MakeSpan(features))
               .ok()) {
        state.SkipWithError("malformed");
        return;
      }
    }
  }
  state.SetBytesProcessed(state.iterations() *
                          static_cast<int64_t>(text.size()));
}
BENCHMARK(BM_Features)->Unit(benchmark::kMillisecond);

}  // namespace
}  // namespace hearth::ingest

BENCHMARK_MAIN();
