#include "engine/base/sha256.h"

#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "gtest/gtest.h"

namespace hearth {
namespace {

std::string DigestOf(const std::string& text) {
  Sha256 digest;
  digest.Update(text);
  return digest.HexDigest();
}

// FIPS 180-2, appendix B.
TEST(Sha256Test, TellsWhatCanBeADigest) {
  const std::string digest = Sha256().HexDigest();
  EXPECT_TRUE(Sha256::IsHexDigest(digest));
  EXPECT_FALSE(Sha256::IsHexDigest(digest + "0"));
  EXPECT_FALSE(Sha256::IsHexDigest(digest.substr(1)));
  EXPECT_FALSE(Sha256::IsHexDigest(digest.substr(1) + "g"));
  EXPECT_FALSE(Sha256::IsHexDigest(digest.substr(1) + "A"));
}

TEST(Sha256Test, PublishedVectors) {
  EXPECT_EQ(DigestOf(""),
            "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855");
  EXPECT_EQ(DigestOf("abc"),
            "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  EXPECT_EQ(
      DigestOf("abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq"),
      "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1");
  EXPECT_EQ(DigestOf(std::string(1'000'000, 'a')),
            "cdc76e5c9914fb9281a1c7e284d73e67f1809a48a497200e046d39ccc7112cd0");
}

TEST(Sha256Test, GoesOnAfterADigest) {
  Sha256 digest;
  digest.Update("a");
  EXPECT_EQ(digest.HexDigest(), DigestOf("a"));
  EXPECT_EQ(digest.HexDigest(), DigestOf("a"));
  const std::vector<std::byte> rest = {std::byte{'b'}, std::byte{'c'}};
  digest.Update(rest);
  EXPECT_EQ(digest.HexDigest(), DigestOf("abc"));
}

TEST(Sha256Test, MovesWithItsState) {
  Sha256 digest;
  digest.Update("ab");
  Sha256 moved = std::move(digest);
  moved.Update("c");
  EXPECT_EQ(moved.HexDigest(), DigestOf("abc"));
}

// Blocks have 64 bytes.
TEST(Sha256Test, GoesOnFromASavedStateOfConstantSize) {
  const std::string message(200, 'x');
  for (const size_t cut : {0u, 1u, 63u, 64u, 65u, 128u, 199u, 200u}) {
    Sha256 first;
    first.Update(message.substr(0, cut));
    const std::string state = first.SaveState();
    EXPECT_EQ(state.size(), Sha256::kStateBytes);
    std::optional<Sha256> second = Sha256::Restore(state);
    ASSERT_TRUE(second.has_value());
    second->Update(message.substr(cut));
    EXPECT_EQ(second->HexDigest(), DigestOf(message)) << cut;
    EXPECT_EQ(first.HexDigest(), DigestOf(message.substr(0, cut)));
  }
}

TEST(Sha256Test, RefusesWhatIsNoState) {
  const std::string state = Sha256().SaveState();
  EXPECT_FALSE(Sha256::Restore("").has_value());
  EXPECT_FALSE(Sha256::Restore(state + "x").has_value());
  std::string half_a_byte = state;
  half_a_byte[32] = 3;
  EXPECT_FALSE(Sha256::Restore(half_a_byte).has_value());
}

}  // namespace
}  // namespace hearth
