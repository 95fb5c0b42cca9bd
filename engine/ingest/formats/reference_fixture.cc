#include "engine/ingest/formats/reference_fixture.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <memory>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "engine/ingest/formats/formats.h"
#include "engine/ingest/inspect/statistics.h"
#include "engine/ingest/source/array_reader.h"
#include "engine/io/file_system.h"
#include "engine/store/dataset.h"
#include "gtest/gtest.h"

namespace hearth::ingest {
namespace {

namespace fs = std::filesystem;

constexpr char kFixtures[] = "tests/importers/fixtures/";

using Edges = std::vector<std::pair<int64_t, int64_t>>;

std::unique_ptr<ArrayReader> Open(const std::string& path) {
  auto reader = ArrayReader::OpenNpy(io::FileSystem::Posix(), path);
  EXPECT_TRUE(reader.ok()) << reader.status();
  return *std::move(reader);
}

/// Elements in C order, from either order in the file.
template <typename T>
std::vector<T> InRows(const store::ArrayHeader& header,
                      const std::vector<T>& file) {
  if (!header.fortran_order || header.shape.size() < 2) return file;
  const auto rows = static_cast<size_t>(header.shape[0]);
  std::vector<T> by_row(file.size());
  for (size_t i = 0; i < file.size(); ++i) {
    by_row[i % rows * (file.size() / rows) + i / rows] = file[i];
  }
  return by_row;
}

std::vector<double> Numbers(const std::string& path) {
  const auto reader = Open(path);
  const auto count = static_cast<size_t>(reader->header().NumElements());
  std::vector<double> numbers(count);
  if (reader->header().type.IsFloat()) {
    EXPECT_TRUE(reader->ReadFloats(0, absl::MakeSpan(numbers)).ok());
    return InRows(reader->header(), numbers);
  }
  std::vector<int64_t> ints(count);
  EXPECT_TRUE(reader->ReadInts(0, absl::MakeSpan(ints)).ok());
  numbers.assign(ints.begin(), ints.end());
  return InRows(reader->header(), numbers);
}

std::vector<int64_t> Ints(const std::string& path) {
  const auto reader = Open(path);
  std::vector<int64_t> ints(
      static_cast<size_t>(reader->header().NumElements()));
  EXPECT_TRUE(reader->ReadInts(0, absl::MakeSpan(ints)).ok());
  return InRows(reader->header(), ints);
}

/// Edges as (destination, source), ascending.
Edges StoredEdges(const std::string& folder, const store::EdgeTypeEntry& type) {
  const std::vector<int64_t> indptr =
      Ints(io::JoinPath(folder, type.indptr.path));
  const std::vector<int64_t> indices =
      Ints(io::JoinPath(folder, type.indices.path));
  Edges edges;
  for (size_t node = 0; node + 1 < indptr.size(); ++node) {
    for (int64_t i = indptr[node]; i < indptr[node + 1]; ++i) {
      edges.emplace_back(node, indices[static_cast<size_t>(i)]);
    }
  }
  std::sort(edges.begin(), edges.end());
  return edges;
}

Edges ExpectedEdges(const std::string& path) {
  const std::vector<int64_t> ends = Ints(path);
  const size_t count = ends.size() / 2;
  Edges edges;
  for (size_t i = 0; i < count; ++i) {
    edges.emplace_back(ends[count + i], ends[i]);
  }
  return edges;
}

/// Name of a file of expected/: "edges.paper___cites___paper.npy".
std::string FileOf(const std::string& what, const std::string& type,
                   bool homogeneous) {
  if (homogeneous) return absl::StrCat(what, ".npy");
  return absl::StrCat(what, ".", absl::StrReplaceAll(type, {{":", "___"}}),
                      ".npy");
}

}  // namespace

FixtureFolder::FixtureFolder(const std::string& fixture) {
  fs::copy(absl::StrCat(kFixtures, fixture), scratch_.Path("source"),
           fs::copy_options::recursive);
  for (const auto& entry :
       fs::recursive_directory_iterator(scratch_.Path("source"))) {
    fs::permissions(entry.path(), fs::perms::owner_write,
                    fs::perm_options::add);
  }
}

std::string FixtureFolder::Path(const std::string& name) const {
  return absl::StrCat(scratch_.Path("source"), "/", name);
}

void FixtureFolder::Write(const std::string& name,
                          const std::string& bytes) const {
  fs::create_directories(fs::path(Path(name)).parent_path());
  std::ofstream(Path(name), std::ios::binary) << bytes;
}

std::string FixtureFolder::Read(const std::string& name) const {
  std::ifstream file(Path(name), std::ios::binary);
  EXPECT_TRUE(file.good()) << name;
  return {std::istreambuf_iterator<char>(file), {}};
}

void FixtureFolder::Remove(const std::string& name) const {
  EXPECT_GT(fs::remove_all(Path(name)), 0u) << name;
}

void FixtureFolder::Move(const std::string& from, const std::string& to) const {
  fs::rename(Path(from), Path(to));
}

absl::StatusOr<ImportResult> FixtureFolder::Import(const std::string& source,
                                                   const std::string& format,
                                                   const FormatOptions& options,
                                                   bool in_place) const {
  ImportOptions import;
  import.source = Path(source);
  import.name = "test";
  import.destination = Destination();
  import.in_place = in_place;
  return ImportDataset(io::FileSystem::Posix(), {format, options}, import,
                       nullptr, {});
}

std::vector<std::string> FixtureFolder::Warnings() const {
  const auto statistics =
      LoadStatistics(io::FileSystem::Posix(), Destination());
  EXPECT_TRUE(statistics.ok() && statistics->has_value());
  return (*statistics)->warnings;
}

absl::Status FixtureFolder::ImportError(const std::string& source,
                                        const std::string& format,
                                        const FormatOptions& options) const {
  const absl::Status status = Import(source, format, options).status();
  EXPECT_FALSE(status.ok());
  EXPECT_FALSE(fs::exists(Destination()));
  EXPECT_FALSE(fs::exists(Destination() + ".tmp"));
  return status;
}

void FixtureFolder::ExpectAsExpected(
    const std::map<std::string, std::string>& names) const {
  const auto dataset =
      store::Dataset::Open(io::FileSystem::Posix(), Destination());
  ASSERT_TRUE(dataset.ok()) << dataset.status();
  const store::Manifest& manifest = (*dataset)->manifest();
  const bool homogeneous = manifest.node_types.size() == 1;
  std::set<std::string> compared = {"facts.json"};
  const auto expected = [&](const std::string& what, const std::string& type) {
    const std::string file = FileOf(what, type, homogeneous);
    compared.insert(file);
    return Path(absl::StrCat("expected/", file));
  };
  const auto stored = [&](const store::ArrayFile& file) {
    return file.in_place ? file.path : io::JoinPath(Destination(), file.path);
  };
  for (const store::NodeTypeEntry& type : manifest.node_types) {
    SCOPED_TRACE(type.name);
    if (!type.features.path.empty()) {
      const std::string path = expected("features", type.name);
      EXPECT_EQ(Numbers(stored(type.features)), Numbers(path));
      EXPECT_EQ(type.features.shape, Open(path)->header().shape);
    }
    if (!type.labels.path.empty()) {
      std::vector<double> labels = Numbers(expected("labels", type.name));
      for (double& label : labels) {
        if (std::isnan(label)) label = -1;
      }
      EXPECT_EQ(Numbers(stored(type.labels)), labels);
    }
    for (const auto& [part, file] :
         {std::pair("train", &type.train), std::pair("valid", &type.valid),
          std::pair("test", &type.test)}) {
      if (file->path.empty()) continue;
      const auto name = names.find(part);
      EXPECT_EQ(
          Ints(stored(*file)),
          Ints(expected(name == names.end() ? part : name->second, type.name)));
    }
  }
  for (const store::EdgeTypeEntry& type : manifest.edge_types) {
    EXPECT_EQ(StoredEdges(Destination(), type),
              ExpectedEdges(expected("edges", type.name)))
        << type.name;
  }
  for (const auto& entry : fs::directory_iterator(Path("expected"))) {
    const std::string file = entry.path().filename();
    EXPECT_TRUE(compared.count(file) > 0 || file.find("test-") == 0)
        << "the dataset lacks " << file;
  }
}

}  // namespace hearth::ingest
