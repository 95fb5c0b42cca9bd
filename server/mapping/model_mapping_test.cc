#include "server/mapping/model_mapping.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <gtest/gtest.h>

#include <variant>

namespace hearth::server {
namespace {

TEST(ModelMappingTest, EveryModelOfTheContractHasOptionsOfItsName) {
  const auto* models = v1::TrainSpec::descriptor()->FindOneofByName("model");
  ASSERT_EQ(models->field_count(), std::variant_size_v<train::ModelOptions>);
  for (int i = 0; i < models->field_count(); ++i) {
    v1::TrainSpec train;
    google::protobuf::Message* message =
        train.GetReflection()->MutableMessage(&train, models->field(i));
    const auto* hidden = message->GetDescriptor()->FindFieldByName("hidden");
    const auto* heads = message->GetDescriptor()->FindFieldByName("heads");
    if (hidden != nullptr) {
      message->GetReflection()->SetUInt32(message, hidden, 24);
    }
    const auto* bases = message->GetDescriptor()->FindFieldByName("bases");
    if (heads != nullptr) {
      message->GetReflection()->SetUInt32(message, heads, 3);
    }
    if (bases != nullptr) {
      message->GetReflection()->SetUInt32(message, bases, 5);
    }

    std::visit(
        [&](const auto& model) {
          EXPECT_EQ(model.kName, models->field(i)->name());
          if constexpr (requires { model.hidden; }) {
            EXPECT_EQ(model.hidden, 24);
          }
          if constexpr (requires { model.heads; }) {
            EXPECT_EQ(model.heads, 3);
          }
          if constexpr (requires { model.bases; }) {
            EXPECT_EQ(model.bases, 5);
          }
          EXPECT_EQ(
              requires { model.bases; }, bases != nullptr);
          EXPECT_EQ(
              requires { model.hidden; }, hidden != nullptr);
          EXPECT_EQ(
              requires { model.heads; }, heads != nullptr);
        },
        ToModelOptions(train));
  }
}

TEST(ModelMappingTest, NamesTheModelWhoseHeadsDoNotDivideItsWidth) {
  v1::TrainSpec train;
  train.mutable_gatv2()->set_hidden(10);
  train.mutable_gatv2()->set_heads(4);
  FieldViolations violations;
  CheckModel("train.trains[0]", train, violations);
  EXPECT_EQ(violations.ToStatus().message(),
            "train.trains[0].gatv2.hidden: must be a multiple of heads (4), "
            "not 10");
}

}  // namespace
}  // namespace hearth::server
