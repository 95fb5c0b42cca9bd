#include "server/storage/dataset_catalog.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "server/storage/data_dir.h"
#include "server/storage/disk_space.h"
#include "tests/fixtures/graphs.h"

namespace hearth::server {
namespace {

namespace fs = std::filesystem;
using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class DatasetCatalogTest : public ::testing::Test {
 protected:
  DatasetCatalogTest() {
    fs::remove_all(root_);
    data_dir_ = *DataDir::Open(files_, root_ + "/data");
  }

  // Imports a graph under `name`.
  void Add(const std::string& name) {
    const std::string work = root_ + "/work_" + name;
    fs::create_directories(work);
    const auto path = hearth::testing::ImportPlantedGraph({}, work);
    ASSERT_TRUE(path.ok()) << path.status();
    fs::rename(*path, data_dir_->DatasetPath(name));
  }

  const std::string root_ = ::testing::TempDir() + "/dataset_catalog_test";
  io::FileSystem& files_ = io::FileSystem::Posix();
  std::unique_ptr<DataDir> data_dir_;
};

TEST_F(DatasetCatalogTest, DatasetsAreNamedByTheirFolders) {
  Add("zebra");
  Add("ant");
  const DatasetCatalog catalog(files_, *data_dir_);
  const auto list = catalog.List();
  ASSERT_TRUE(list.ok()) << list.status();
  ASSERT_EQ(list->size(), 2u);
  EXPECT_EQ((*list)[0].name(), "ant");
  EXPECT_EQ((*list)[1].name(), "zebra");
  EXPECT_EQ(*catalog.Count(), 2);
  EXPECT_EQ(catalog.Get("ant")->node_types(0).num_nodes(), 600u);
}

TEST_F(DatasetCatalogTest, UnfinishedAndForeignFoldersAreNone) {
  fs::create_directories(data_dir_->DatasetPath("half.tmp"));
  fs::create_directories(data_dir_->DatasetPath(".hidden"));
  const DatasetCatalog catalog(files_, *data_dir_);
  EXPECT_EQ(*catalog.Count(), 0);
  EXPECT_TRUE(absl::IsNotFound(catalog.Get("half.tmp").status()));
}

TEST_F(DatasetCatalogTest, ADamagedManifestIsNamedAndHidesNoOther) {
  Add("good");
  Add("bad");
  const std::string manifest = data_dir_->DatasetPath("bad") + "/manifest.json";
  fs::resize_file(manifest, 10);
  const DatasetCatalog catalog(files_, *data_dir_);
  EXPECT_TRUE(absl::IsDataLoss(catalog.Get("bad").status()));
  EXPECT_THAT(std::string(catalog.Get("bad").status().message()),
              HasSubstr(manifest));
  EXPECT_EQ(catalog.List()->size(), 1u);
}

TEST_F(DatasetCatalogTest, UnknownNamesAreAnsweredWithTheKnownOnes) {
  const DatasetCatalog catalog(files_, *data_dir_);
  for (int i = 10; i < 35; ++i) {
    fs::create_directories(data_dir_->DatasetPath(absl::StrCat("graph", i)));
  }
  const std::string message(catalog.Get("x\n").status().message());
  EXPECT_THAT(message,
              AllOf(HasSubstr("\"x\\n\""), HasSubstr("graph10"),
                    HasSubstr("and 5 more"), Not(HasSubstr("graph30"))));
}

TEST_F(DatasetCatalogTest, DeletingRemovesTheFolderAlone) {
  Add("graph");
  Add("other");
  const DatasetCatalog catalog(files_, *data_dir_);
  Trash trash(files_, data_dir_->TrashPath(), [] {});
  ASSERT_TRUE(catalog.Delete("graph", trash).ok());
  EXPECT_FALSE(fs::exists(data_dir_->DatasetPath("graph")));
  EXPECT_TRUE(catalog.Get("other").ok());
  EXPECT_TRUE(absl::IsNotFound(catalog.Delete("graph", trash)));
  EXPECT_TRUE(absl::IsNotFound(catalog.Delete("..", trash)));
  EXPECT_TRUE(fs::exists(data_dir_->JobsPath()));
}

}  // namespace
}  // namespace hearth::server
