// How long ranks take to add up gradients and to agree, as threads connected by
// TCP over the loopback interface.
//
//   bazel run -c opt //server/cluster:link_benchmark

#include <arpa/inet.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/types/span.h"
#include "benchmark/benchmark.h"
#include "engine/base/clock.h"
#include "engine/io/descriptor.h"
#include "engine/train/train_step.h"
#include "server/cluster/link_group.h"
#include "server/front/sockets.h"

namespace hearth::server {
namespace {

// SAGE of 3 layers of 256 on 128 columns and 172 classes.
constexpr size_t kGradient = 275'000;

// Both ends of a TCP connection.
std::pair<int, int> ConnectTcp() {
  const int listener = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in address = {};
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t size = sizeof(address);
  const int near = socket(AF_INET, SOCK_STREAM, 0);
  if (bind(listener, reinterpret_cast<sockaddr*>(&address), size) != 0 ||
      listen(listener, 1) != 0 ||
      getsockname(listener, reinterpret_cast<sockaddr*>(&address), &size) !=
          0 ||
      connect(near, reinterpret_cast<sockaddr*>(&address), size) != 0) {
    abort();
  }
  const int far = accept(listener, nullptr, nullptr);
  close(listener);
  for (const int end : {near, far}) {
    const int one = 1;
    setsockopt(end, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
    fcntl(end, F_SETFL, O_NONBLOCK);
  }
  return {near, far};
}

std::vector<std::unique_ptr<LinkGroup>> Connect(size_t size) {
  std::vector<std::vector<std::unique_ptr<Link>>> links(size);
  for (auto& of_rank : links) of_rank.resize(size);
  const auto link = [](int socket, size_t rank) {
    return std::make_unique<Link>(Link{absl::StrCat("host-", rank),
                                       io::Descriptor(socket),
                                       NewPlainWire(socket)});
  };
  for (size_t a = 0; a < size; ++a) {
    for (size_t b = a + 1; b < size; ++b) {
      const auto [near, far] = ConnectTcp();
      links[a][b] = link(near, b);
      links[b][a] = link(far, a);
    }
  }
  std::vector<std::unique_ptr<LinkGroup>> groups;
  for (size_t rank = 0; rank < size; ++rank) {
    groups.push_back(*LinkGroup::Make({.rank = static_cast<int>(rank)},
                                      std::move(links[rank]), Clock::Real()));
  }
  return groups;
}

// Calls `call` of each rank as often as the benchmark wants it of rank 0.
template <typename Call>
void Run(benchmark::State& state, Call call) {
  const auto size = static_cast<size_t>(state.range(0));
  const auto groups = Connect(size);
  std::vector<std::thread> others;
  for (size_t rank = 1; rank < size; ++rank) {
    others.emplace_back([&, rank] {
      std::vector<float> values(kGradient, 1);
      while (call(*groups[rank], values)) {
      }
    });
  }
  std::vector<float> values(kGradient, 1);
  for (auto _ : state) {
    if (!call(*groups[0], values)) state.SkipWithError("a link failed");
  }
  groups[0]->End(absl::CancelledError("done"));
  for (std::thread& other : others) other.join();
}

void BM_Sum(benchmark::State& state) {
  Run(state, [](LinkGroup& group, std::vector<float>& values) {
    return group.Sum(absl::MakeSpan(values)).ok();
  });
  state.SetBytesProcessed(state.iterations() *
                          static_cast<int64_t>(kGradient * sizeof(float)));
}
BENCHMARK(BM_Sum)->Arg(2)->Arg(4)->UseRealTime()->Unit(benchmark::kMillisecond);

void BM_Agree(benchmark::State& state) {
  Run(state, [](LinkGroup& group, std::vector<float>& /*values*/) {
    return group.Agree({}, train::BatchResult()).ok();
  });
}
BENCHMARK(BM_Agree)->Arg(2)->Arg(4)->UseRealTime()->Unit(
    benchmark::kMillisecond);

}  // namespace
}  // namespace hearth::server

BENCHMARK_MAIN();
