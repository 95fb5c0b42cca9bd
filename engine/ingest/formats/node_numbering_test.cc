#include "engine/ingest/formats/node_numbering.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <set>
#include <stop_token>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/types/span.h"
#include "engine/base/random.h"
#include "engine/io/testing/faults.h"
#include "engine/io/testing/scratch_directory.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace hearth::ingest {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

using IdKind = NodeNumbering::IdKind;
using Pairs = std::vector<std::pair<int64_t, int64_t>>;

template <typename Id>
using Edges = std::vector<std::pair<Id, Id>>;

/// Result of a numbering.
struct Numbered {
  int64_t num_nodes = 0;
  Pairs edges;
  std::vector<int64_t> ids;
  std::string text;
};

/// Random edges between random ids of all of int64, often repeated.
Edges<int64_t> RandomEdges(int64_t num_edges, uint64_t num_ids) {
  RandomStream random(7, RandomPurpose::kGenerator);
  std::vector<int64_t> ids(num_ids);
  for (int64_t& id : ids) id = static_cast<int64_t>(random.Next64());
  Edges<int64_t> edges;
  for (int64_t i = 0; i < num_edges; ++i) {
    const int64_t source = ids[random.Below(num_ids)];
    edges.emplace_back(source, ids[random.Below(num_ids)]);
  }
  return edges;
}

/// The expected numbers, from a map in memory.
template <typename Id>
Pairs Expected(const Edges<Id>& edges) {
  std::map<Id, int64_t> nodes;
  for (const auto& [source, destination] : edges) {
    nodes[source] = nodes[destination] = 0;
  }
  int64_t next = 0;
  for (auto& [id, node] : nodes) node = next++;
  Pairs expected;
  for (const auto& [source, destination] : edges) {
    expected.emplace_back(nodes[source], nodes[destination]);
  }
  return expected;
}

class NodeNumberingTest : public testing::Test {
 protected:
  template <typename Id>
  absl::StatusOr<Numbered> Number(const Edges<Id>& edges,
                                  uint64_t memory = 1 << 20) {
    const io::ScratchDirectory folder;
    ImportContext context(files_, memory, folder.Path("scratch"), progress_,
                          {});
    constexpr bool kIsText = !std::is_integral_v<Id>;
    auto numbering = NodeNumbering::Create(
        context, kIsText ? IdKind::kText : IdKind::kNumbers, "edges.txt");
    if (!numbering.ok()) return numbering.status();
    for (const auto& [source, destination] : edges) {
      const absl::Status status = (*numbering)->Add(source, destination);
      if (!status.ok()) return status;
    }
    auto finished = (*numbering)->Finish();
    if (!finished.ok()) return finished.status();
    return Read(*finished);
  }

  static absl::StatusOr<Numbered> Read(NumberedEdges& finished) {
    Numbered numbered;
    numbered.num_nodes = finished.num_nodes;
    EdgeBlock block;
    const absl::Status status =
        finished.edges->Read(0, finished.edges->num_edges(), block);
    if (!status.ok()) return status;
    for (size_t i = 0; i < block.size(); ++i) {
      numbered.edges.emplace_back(block.sources[i], block.destinations[i]);
    }
    const auto count = static_cast<size_t>(finished.ids->header().shape[0]);
    if (finished.ids->header().type.item_bytes == 1) {
      numbered.text.resize(count);
      const absl::Status read = finished.ids->ReadBytes(
          0, absl::MakeSpan(reinterpret_cast<std::byte*>(numbered.text.data()),
                            count));
      if (!read.ok()) return read;
    } else {
      numbered.ids.resize(count);
      const absl::Status read =
          finished.ids->ReadInts(0, absl::MakeSpan(numbered.ids));
      if (!read.ok()) return read;
    }
    return numbered;
  }

  io::FaultyFileSystem files_{io::FileSystem::Posix()};
  ImportProgress progress_;
};

TEST_F(NodeNumberingTest, NumbersInTheirOrder) {
  const auto numbered = Number<int64_t>(
      {{10, 9}, {-1, 10}, {INT64_MAX, INT64_MIN}, {9, 9}, {0, 256}});
  ASSERT_TRUE(numbered.ok()) << numbered.status();
  EXPECT_EQ(numbered->num_nodes, 7);
  EXPECT_THAT(numbered->ids,
              ElementsAre(INT64_MIN, -1, 0, 9, 10, 256, INT64_MAX));
  EXPECT_EQ(numbered->edges, (Pairs{{4, 3}, {1, 4}, {6, 0}, {3, 3}, {2, 5}}));
}

TEST_F(NodeNumberingTest, TextInTheOrderOfItsBytes) {
  const auto numbered = Number<std::string>(
      {{"b", "a"}, {"\xc3\xa9", "B"}, {"aa", "10"}, {"9", "a"}});
  ASSERT_TRUE(numbered.ok()) << numbered.status();
  EXPECT_EQ(numbered->num_nodes, 7);
  EXPECT_EQ(numbered->text, "10\n9\nB\na\naa\nb\n\xc3\xa9");
  EXPECT_EQ(numbered->edges, (Pairs{{5, 3}, {6, 2}, {4, 0}, {1, 3}}));
}

TEST_F(NodeNumberingTest, NoEdges) {
  const auto numbers = Number<int64_t>({});
  ASSERT_TRUE(numbers.ok()) << numbers.status();
  EXPECT_EQ(numbers->num_nodes, 0);
  EXPECT_THAT(numbers->ids, IsEmpty());
  const auto text = Number<std::string>({});
  ASSERT_TRUE(text.ok()) << text.status();
  EXPECT_EQ(text->num_nodes, 0);
}

TEST_F(NodeNumberingTest, AnyMemoryLimitGivesTheSameNumbers) {
  const Edges<int64_t> edges = RandomEdges(20'000, 5'000);
  const Pairs expected = Expected(edges);
  std::set<int64_t> ids;
  for (const auto& [source, destination] : edges) {
    ids.insert({source, destination});
  }
  // More than ten tables, a few, and one.
  for (const uint64_t memory : {200'000, 400'000, 10'000'000}) {
    const auto numbered = Number(edges, memory);
    ASSERT_TRUE(numbered.ok()) << memory << numbered.status();
    EXPECT_EQ(numbered->num_nodes, static_cast<int64_t>(ids.size()));
    EXPECT_TRUE(std::equal(ids.begin(), ids.end(), numbered->ids.begin(),
                           numbered->ids.end()));
    EXPECT_TRUE(numbered->edges == expected) << memory;
  }
}

TEST_F(NodeNumberingTest, LongAndShortTextAtAnyMemoryLimit) {
  Edges<std::string> edges;
  for (const auto& [source, destination] : RandomEdges(1'000, 400)) {
    const auto text = [](int64_t id) {
      // Ids from a few bytes to the longest allowed.
      const size_t size = static_cast<uint64_t>(id) % kMaxIdBytes + 1;
      std::string text = absl::StrCat(id, "-");
      text.resize(std::max(size, text.size()), 'x');
      return text;
    };
    edges.emplace_back(text(source), text(destination));
  }
  std::set<std::string> ids;
  for (const auto& [source, destination] : edges) {
    ids.insert({source, destination});
  }
  const Pairs expected = Expected(edges);
  for (const uint64_t memory : {400'000, 1'000'000, 10'000'000}) {
    const auto numbered = Number(edges, memory);
    ASSERT_TRUE(numbered.ok()) << memory << numbered.status();
    EXPECT_EQ(numbered->text, absl::StrJoin(ids, "\n"));
    EXPECT_TRUE(numbered->edges == expected) << memory;
  }
}

TEST_F(NodeNumberingTest, TooLittleMemoryIsToldWithTheNumbers) {
  const absl::Status status =
      Number(RandomEdges(20'000, 20'000), 20'000).status();
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("edges.txt: numbering the ids takes more than 4"));
}

TEST_F(NodeNumberingTest, AFullDiskIsTold) {
  files_.Inject({.status = absl::UnknownError("statvfs"),
                 .only = io::Operation::kFreeBytes});
  EXPECT_TRUE(absl::IsUnknown(Number<int64_t>({{1, 2}}).status()));
}

TEST_F(NodeNumberingTest, EveryFaultIsAnError) {
  const Edges<int64_t> edges = RandomEdges(2'000, 2'000);
  bool hit = true;
  for (int64_t nth = 1; hit; ++nth) {
    files_.Inject({.nth = nth});
    const absl::Status status = Number(edges, 60'000).status();
    hit = files_.hits() > 0;
    EXPECT_EQ(status.ok(), !hit) << nth << status;
  }
}

TEST_F(NodeNumberingTest, EveryFlippedBitIsDataLossButOfTheFinishedIds) {
  const Edges<int64_t> edges = RandomEdges(2'000, 2'000);
  const auto expected = Number(edges, 60'000);
  ASSERT_TRUE(expected.ok()) << expected.status();
  bool hit = true;
  int found = 0;
  for (int64_t nth = 1; hit; ++nth) {
    files_.Inject({.nth = nth,
                   .effect = io::Effect::kCorruptRead,
                   .only = io::Operation::kRead});
    const auto numbered = Number(edges, 60'000);
    hit = files_.hits() > 0;
    if (numbered.ok()) {
      EXPECT_EQ(numbered->edges, expected->edges) << nth;
      continue;
    }
    EXPECT_TRUE(absl::IsDataLoss(numbered.status())) << numbered.status();
    ++found;
  }
  EXPECT_GT(found, 10);
}

TEST_F(NodeNumberingTest, CanBeCancelledAndTellsHowFarItIs) {
  std::stop_source stop;
  const io::ScratchDirectory folder;
  uint64_t done = 0, total = 0;
  progress_ = [&](absl::string_view phase, uint64_t now, uint64_t all) {
    EXPECT_EQ(phase, "numbering");
    EXPECT_GE(now, done);
    done = now;
    total = all;
  };
  ImportContext context(files_, 1 << 20, folder.Path("scratch"), progress_,
                        stop.get_token());
  const auto number = [&] {
    auto numbering =
        *NodeNumbering::Create(context, IdKind::kNumbers, "edges.txt");
    EXPECT_TRUE(numbering->Add(5, 6).ok());
    return numbering->Finish().status();
  };
  EXPECT_TRUE(number().ok());
  // Two ids of 16 bytes and an edge of 8.
  EXPECT_EQ(done, 40u);
  EXPECT_EQ(total, 40u);
  stop.request_stop();
  EXPECT_TRUE(absl::IsCancelled(number()));
}

}  // namespace
}  // namespace hearth::ingest
