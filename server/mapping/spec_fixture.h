#ifndef HEARTH_SERVER_MAPPING_SPEC_FIXTURE_H_
#define HEARTH_SERVER_MAPPING_SPEC_FIXTURE_H_

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <string>

#include "absl/strings/str_cat.h"
#include "hearth/v1/spec.pb.h"
#include "server/mapping/spec_mapping.h"

/// Job specs as text, for the tests of their mapping.

namespace hearth::server {

inline const SpecLimits& kLimits = *new SpecLimits{.processors = 8};

inline v1::JobSpec Parse(const std::string& text) {
  v1::JobSpec spec;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &spec))
      << text;
  return spec;
}

/// Train job with further fields of its data and its model.
inline std::string Train(const std::string& data, const std::string& train) {
  return absl::StrCat("train { data { dataset: 'wordnet' mmap {} ", data,
                      " } trains { ", train, " } }");
}

/// Train with fields of the job, and further ones of its data and its model.
inline std::string Machines(const std::string& job,
                            const std::string& data = "",
                            const std::string& train = "sage {}") {
  const std::string spec = Train(data, train);
  return absl::StrCat(spec.substr(0, spec.rfind('}')), job, " }");
}

/// A FeedNodes whose digest has 64 times the digit.
inline std::string Nodes(const std::string& split, int count, char digit) {
  return absl::StrCat("nodes { split: '", split, "' count: ", count,
                      " sha256: '", std::string(64, digit), "' } ");
}

/// Feed with further fields of its data and its own.
inline std::string Feed(const std::string& data, const std::string& feed) {
  return absl::StrCat("feed { data { dataset: 'wordnet' mmap {} ", data, " } ",
                      feed, " }");
}

/// Neighbor sampling with `count` layers.
inline std::string Fanouts(int count) {
  std::string text;
  for (int i = 0; i < count; ++i) absl::StrAppend(&text, " fanouts: 1");
  return absl::StrCat("neighbor {", text, " }");
}

}  // namespace hearth::server

#endif  // HEARTH_SERVER_MAPPING_SPEC_FIXTURE_H_
