#include "engine/ingest/parse/pickle_reader.h"

#include <string>

#include "absl/strings/str_cat.h"
#include "engine/io/file_system.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"

// torch_file_test reads pickles that torch and numpy wrote; the pickles here
// are handmade.

namespace hearth::ingest {
namespace {

using testing::HasSubstr;

absl::StatusOr<PickleResult> Read(const std::string& opcodes,
                                  const PickleLimits& limits = {}) {
  return ReadPickle(*io::NewMemoryFile("\x80\x02" + opcodes, "p"), 0, limits);
}

std::string Message(const std::string& opcodes,
                    const PickleLimits& limits = {}) {
  return Read(opcodes, limits).status().ToString();
}

/// Opcode of a string of up to 255 bytes.
std::string Text(const std::string& text) {
  return absl::StrCat("\x8c", std::string(1, static_cast<char>(text.size())),
                      text);
}

TEST(PickleReaderTest, ReadsFromAnOffsetAndSaysWhereItEnds) {
  const auto file = io::NewMemoryFile("xx\x80\x02K\x07.yy");
  const auto result = ReadPickle(*file, 2, {});
  ASSERT_TRUE(result.ok()) << result.status();
  EXPECT_EQ(*result->tree.root->As<int64_t>(), 7);
  EXPECT_EQ(result->end, 7u);
}

TEST(PickleReaderTest, ReadsNumbers) {
  const auto number = [](const std::string& opcodes) {
    return *Read(opcodes + ".")->tree.root->As<int64_t>();
  };
  EXPECT_EQ(number("J\xff\xff\xff\xff"), -1);
  EXPECT_EQ(number("M\x01\x80"), 32769);
  EXPECT_EQ(number(std::string("\x8a\0", 2)), 0);
  EXPECT_EQ(number("\x8a\x01\xff"), -1);
  EXPECT_EQ(number(std::string("\x8a\x02\xff\0", 4)), 255);
  EXPECT_EQ(
      *Read(std::string("G\xbf\xe0\0\0\0\0\0\0.", 10))->tree.root->As<double>(),
      -0.5);
  EXPECT_THAT(Message("\x8a\x09"
                      "123456789."),
              HasSubstr("an integer of 9 bytes"));
}

TEST(PickleReaderTest, ReadsPython2Strings) {
  const auto result = Read("U\x02hi.");
  ASSERT_TRUE(result.ok());
  EXPECT_EQ(result->tree.root->As<PickleBytes>()->data, "hi");
}

TEST(PickleReaderTest, OtherGlobalsAreNamedWithTheirOffset) {
  EXPECT_EQ(Message("cposix\nsystem\n(Vls\ntR."),
            "INVALID_ARGUMENT: p: pickle, byte 2: uses posix.system, which is "
            "not among what is read");
  EXPECT_EQ(
      Message(Text("builtins") + Text("ev\nal") + "\x93."),
      "INVALID_ARGUMENT: p: pickle, byte 19: uses builtins.ev\\nal, which "
      "is not among what is read");
  // Module and name joined at another point are refused, too.
  EXPECT_THAT(Message("ctorch._utils._rebuild\ntensor\n."),
              HasSubstr("not among what is read"));
  EXPECT_THAT(Message("c" + std::string(300, 'x') + "\ny\n."),
              HasSubstr("a name of more than 256 bytes"));
}

TEST(PickleReaderTest, EveryOtherOpcodeIsRefused) {
  const std::string known(
      "NJKMGXUCTB(])}asteuqrhjcRbQ."
      "\x80\x88\x89\x8a\x8c\x8d\x8e\x96\x85\x86\x87\x94\x93\x81\x95");
  for (int opcode = 0; opcode < 256; ++opcode) {
    const char byte = static_cast<char>(opcode);
    if (known.find(byte) != std::string::npos) continue;
    EXPECT_EQ(Message(std::string("NN") + byte),
              absl::StrCat("INVALID_ARGUMENT: p: pickle, byte 4: has opcode 0x",
                           absl::Hex(opcode, absl::kZeroPad2),
                           ", which is not read"));
  }
}

struct Malformed {
  const char* name;
  std::string opcodes;
  std::string problem;
};

class MalformedPickleTest : public testing::TestWithParam<Malformed> {};

TEST_P(MalformedPickleTest, IsRefused) {
  const absl::Status status = Read(GetParam().opcodes).status();
  EXPECT_TRUE(absl::IsInvalidArgument(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr(GetParam().problem));
}

const std::string kStorage = "ctorch\nFloatStorage\n";
const std::string kTensor = "ctorch._utils\n_rebuild_tensor_v2\n";
const std::string kDtype = "cnumpy\ndtype\n";
const std::string kArray = "cnumpy.core.multiarray\n_reconstruct\n";
const std::string kEncode = "c_codecs\nencode\n";

std::string Storage(const std::string& count) {
  return absl::StrCat("(", Text("storage"), kStorage, Text("0"), Text("cpu"),
                      count, "tQ");
}

std::string Tensor(const std::string& arguments) {
  return absl::StrCat(kTensor, "(", Storage("K\x06"), arguments, "tR.");
}

const Malformed kMalformed[] = {
    {"nothing_left", ".", "other than one value"},
    {"two_left", "NN.", "other than one value"},
    {"open_mark", "N(.", "other than one value"},
    {"pop_below_mark", "N(\x85.", "takes more values"},
    {"no_mark", "Nt.", "lacks a mark"},
    {"append_nothing", "a.", "takes more values"},
    {"append_to_none", "NNa.", "appends to None"},
    {"appends_without_list", "(Ne.", "takes more values"},
    {"set_of_none", "NNNs.", "sets 2 keys and values of None"},
    {"odd_items", "}(Nu.", "sets 1 keys"},
    {"recall", "h\x05.", "recalls 5"},
    {"memorize_nothing", "q\x01.", "takes more values"},
    {"protocol", "\x80\x06", "has protocol 6"},
    {"global_without_name", "NN\x93.", "without a name"},
    {"call_of_none", "N)R.", "calls None"},
    {"call_of_class", kStorage + ")R.", "calls torch.FloatStorage"},
    {"object_of_function", kTensor + ")\x81.", "makes an object of"},
    {"object_with_arguments", "ctorch\nScriptObject\nN\x85\x81.",
     "arguments that its writers never give"},
    {"state_of_none", "NNb.", "gives a state to None"},
    {"state_twice", "ctorch\nScriptObject\n)\x81NbNb.", "gives a state to"},
    {"ordered_dict_of_items", "ccollections\nOrderedDict\n]\x85R.",
     "collections.OrderedDict gets arguments"},
    {"attributes", "ccollections\nOrderedDict\n)RNb.",
     "gets None where attributes"},
    {"no_storage", "NQ.", "arguments that its writers"},
    {"storage_of_none", "(NNNNNtQ.", "no storage"},
    {"storage_type", "(" + Text("storage") + kTensor + Text("0") + "NK\1tQ.",
     "no storage"},
    {"storage_view",
     "(" + Text("storage") + kStorage + Text("0") + "NK\1N\x85tQ.", "a view"},
    {"storage_count", Storage("J\xff\xff\xff\xff") + ".", "a count of -1"},
    {"tensor_of_none", kTensor + "(NNNNtR.", "gets None where a storage"},
    {"tensor_too_long", Tensor(std::string("K\0K\x07\x85K\1\x85", 8)),
     "does not hold"},
    {"tensor_offset", Tensor("K\1K\x06\x85K\1\x85"), "does not hold"},
    {"tensor_stride",
     Tensor(std::string("K\0K\x02\x85\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f"
                        "\x85",
                        16)),
     "does not hold"},
    {"tensor_product",
     Tensor(std::string("K\0J\xff\xff\xff\x7fJ\xff\xff\xff\x7fJ\xff\xff\xff\x7f"
                        "\x87K\1K\1K\1\x87",
                        25)),
     "does not hold"},
    {"tensor_dimensions", Tensor(std::string("K\0K\1\x85)", 6)),
     "does not hold"},
    {"tensor_metadata", Tensor(std::string("K\0))N}}", 7)), "negated view"},
    {"tensor_shape", Tensor(std::string("K\0N)", 4)), "a tuple of counts"},
    {"parameter", "ctorch._utils\n_rebuild_parameter\nNNN\x87R.", "a tensor"},
    {"object_type", kDtype + Text("O8") + "\x89\x88\x87R.",
     "the element type \"O8\""},
    {"big_endian", kDtype + Text("i4") + "\x85R(K\3" + Text(">") + "tb.",
     "has big-endian int32"},
    {"array_of_other", kArray + "NNN\x87R.", "gets None where numpy.ndarray"},
    {"array_of_class", kArray + kStorage + "NN\x87R.", "another class"},
    {"array_state", kArray + "cnumpy\nndarray\n" + "NN\x87RNb.",
     "arguments that"},
    {"array_bytes",
     absl::StrCat(kArray, "cnumpy\nndarray\n", "NN\x87R(K\1K\2\x85", kDtype,
                  Text("i4"), "\x85R\x89", "C\x02hi", "tb."),
     "2 bytes for shape (2,) of int32"},
    {"array_order",
     absl::StrCat(kArray, "cnumpy\nndarray\n", "NN\x87R(K\1K\2\x85", kDtype,
                  Text("i1"), "\x85RN", "C\x02hi", "tb."),
     "an order"},
    {"buffer_order",
     absl::StrCat("cnumpy.core.numeric\n_frombuffer\n(NN)", Text("A"), "tR."),
     "another order"},
    {"encoding", kEncode + Text("x") + Text("utf8") + "\x86R.", "but latin1"},
    {"latin1", kEncode + Text("\xE2\x82\xAC") + Text("latin1") + "\x86R.",
     "not latin1"},
    {"latin1_cut", kEncode + Text("\xC3") + Text("latin1") + "\x86R.",
     "not latin1"},
    {"latin1_low", kEncode + Text("\xC3z") + Text("latin1") + "\x86R.",
     "not latin1"},
    {"list_as_key", "}]Ns.", "a list among its keys"},
    {"key_twice", "}(K\1N\x88Nu.", "a key twice"},
    {"cycle", "]q\1h\1a.", "contains itself"},
    {"object_cycle", "ctorch\nScriptObject\n)\x81q\1h\1b.", "contains itself"},
    {"deep", std::string(65, ']') + std::string(64, 'a') + ".", "64 deep"},
};

INSTANTIATE_TEST_SUITE_P(Pickles, MalformedPickleTest,
                         testing::ValuesIn(kMalformed), [](const auto& info) {
                           return std::string(info.param.name);
                         });

TEST(PickleReaderTest, DepthUpToTheLimitIsRead) {
  EXPECT_TRUE(Read(std::string(64, ']') + std::string(63, 'a') + ".").ok());
}

TEST(PickleReaderTest, TruncationIsDataLoss) {
  EXPECT_EQ(Message("X\xff\xff\xff\x0fhi"),
            "DATA_LOSS: p: is truncated: the pickle goes on after byte 9");
  EXPECT_EQ(Message(""),
            "DATA_LOSS: p: is truncated: the pickle goes on after byte 2");
  EXPECT_EQ(ReadPickle(*io::NewMemoryFile("", "p"), 9, {}).status().ToString(),
            "DATA_LOSS: p: is truncated: the pickle goes on after byte 0");
  EXPECT_EQ(
      ReadPickle(*io::NewMemoryFile("N.", "p"), 0, {}).status().ToString(),
      "INVALID_ARGUMENT: p: pickle, byte 0: is no pickle");
}

TEST(PickleReaderTest, LimitsAreKept) {
  const auto exhausted = [](const std::string& opcodes, PickleLimits limits) {
    const absl::Status status = Read(opcodes, limits).status();
    EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
    return std::string(status.message());
  };
  EXPECT_THAT(exhausted("NNNN", {.max_opcodes = 3}), HasSubstr("3 opcodes"));
  EXPECT_THAT(exhausted("NNNN", {.max_values = 3}), HasSubstr("many values"));
  EXPECT_THAT(exhausted(Text("abc") + ".", {.max_bytes = 5}),
              HasSubstr("goes on after byte 5"));
  // Each encoding takes memory, but no more bytes of the pickle.
  const std::string latin1 = Text("latin1") + "\x86R";
  std::string encoded = kEncode + Text(std::string(200, 'x')) + "q\1" + latin1;
  for (int i = 0; i < 3; ++i) encoded += kEncode + "h\1" + latin1;
  EXPECT_LT(encoded.size(), 500u);
  EXPECT_THAT(exhausted(encoded, {.max_bytes = 500}),
              HasSubstr("more than are read"));
  // Lists of two equal items, nested: a short pickle with a long walk.
  std::string doubled = "N";
  for (int i = 0; i < 30; ++i) doubled += "q\1h\1\x86";
  EXPECT_THAT(exhausted(doubled + ".", {.max_walk = 1000}),
              HasSubstr("more than 1000 values"));
}

TEST(PickleReaderTest, WhatIsUsedTwiceIsThereOnce) {
  const auto result = Read("]q\1h\1\x86.");
  ASSERT_TRUE(result.ok()) << result.status();
  const auto* const pair = result->tree.root->As<PickleTuple>();
  EXPECT_EQ(pair->items[0], pair->items[1]);
}

}  // namespace
}  // namespace hearth::ingest
