#include "engine/store/testing/numpy_folder.h"

#include <filesystem>
#include <fstream>
#include <iterator>

namespace hearth::store {

std::string NpyHeaderText(const std::string& dictionary, char version) {
  const size_t prelude = version == 1 ? 10 : 12;
  std::string padded = dictionary;
  while ((prelude + padded.size() + 1) % 64 != 0) padded += ' ';
  padded += '\n';
  std::string text = "\x93NUMPY";
  text += version;
  text += '\0';
  for (size_t i = 0; i < prelude - 8; ++i) {
    text += static_cast<char>(padded.size() >> (8 * i) & 0xFF);
  }
  return text + padded;
}

std::string ToBytes(const NpyText& file) {
  return NpyHeaderText("{'descr': '" + file.descr + "', 'fortran_order': " +
                           (file.fortran_order ? "True" : "False") +
                           ", 'shape': " + file.shape + ", }",
                       file.version) +
         file.data;
}

const std::vector<int64_t>& NumpyFolder::Sources() {
  static const std::vector<int64_t> sources = {0, 3, 1, 5, 2, 0, 4};
  return sources;
}

const std::vector<int64_t>& NumpyFolder::Destinations() {
  static const std::vector<int64_t> destinations = {2, 2, 0, 2, 5, 4, 2};
  return destinations;
}

const std::vector<float>& NumpyFolder::Features() {
  static const std::vector<float> features = [] {
    std::vector<float> values;
    for (int64_t i = 0; i < kNumNodes * kDim; ++i) {
      values.push_back(static_cast<float>(i) / 4 - 1);
    }
    return values;
  }();
  return features;
}

NumpyFolder::NumpyFolder() : path_(scratch_.Path("source")) {
  std::filesystem::create_directory(path_);
  Write("edge_index.npy", {.descr = "<i8",
                           .shape = "(2, 7)",
                           .data = Raw(Sources()) + Raw(Destinations())});
  Write("node_feat.npy", {.shape = "(6, 3)", .data = Raw(Features())});
  Write("node_label.npy", {.descr = "<i8",
                           .shape = "(6,)",
                           .data = Raw<int64_t>({0, 1, 2, 0, 1, -1})});
  Write("train_idx.npy",
        {.descr = "<i8", .shape = "(2,)", .data = Raw<int64_t>({4, 0})});
  Write("valid_idx.npy",
        {.descr = "<i8", .shape = "(1,)", .data = Raw<int64_t>({2})});
  Write("test_idx.npy",
        {.descr = "<i8", .shape = "(2,)", .data = Raw<int64_t>({1, 3})});
}

void NumpyFolder::Write(const std::string& name, const std::string& bytes) {
  std::ofstream(Path(name), std::ios::binary | std::ios::trunc) << bytes;
}

void NumpyFolder::Remove(const std::string& name) {
  std::filesystem::remove_all(Path(name));
}

std::string NumpyFolder::Read(const std::string& name) const {
  std::ifstream file(Path(name), std::ios::binary);
  return std::string(std::istreambuf_iterator<char>(file), {});
}

void NumpyFolder::UseCsc() {
  Remove("edge_index.npy");
  Write("indptr.npy", {.descr = "<i8",
                       .shape = "(7,)",
                       .data = Raw<int64_t>({0, 1, 1, 5, 5, 6, 7})});
  Write("indices.npy", {.descr = "<i8",
                        .shape = "(7,)",
                        .data = Raw<int64_t>({1, 0, 3, 5, 4, 0, 2})});
}

}  // namespace hearth::store
