#include "server/mapping/model_mapping.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"

namespace hearth::server {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using train::ModelOptions;

// The alternative of TrainSpec.model that is set; null without one.
const FieldDescriptor* ModelField(const v1::TrainSpec& train) {
  return train.GetReflection()->GetOneofFieldDescriptor(
      train, v1::TrainSpec::descriptor()->FindOneofByName("model"));
}

int64_t Number(const Message& message, const std::string& name) {
  return message.GetReflection()->GetUInt32(
      message, message.GetDescriptor()->FindFieldByName(name));
}

// Sets `options` to the alternative of this name; false if there is none.
template <size_t... kIndices>
bool Choose(const std::string& name, std::index_sequence<kIndices...>,
            ModelOptions& options) {
  return ((std::variant_alternative_t<kIndices, ModelOptions>::kName == name &&
           (options.emplace<kIndices>(), true)) ||
          ...);
}

}  // namespace

ModelOptions ToModelOptions(const v1::TrainSpec& train) {
  ModelOptions options;
  const FieldDescriptor* field = ModelField(train);
  if (field == nullptr) return options;
  Choose(field->name(),
         std::make_index_sequence<std::variant_size_v<ModelOptions>>(),
         options);
  const Message& message = train.GetReflection()->GetMessage(train, field);
  std::visit(
      [&message](auto& model) {
        if constexpr (requires { model.hidden; }) {
          model.hidden = Number(message, "hidden");
        }
        if constexpr (requires { model.heads; }) {
          model.heads = Number(message, "heads");
        }
        if constexpr (requires { model.bases; }) {
          model.bases = Number(message, "bases");
        }
      },
      options);
  return options;
}

void CheckModel(const std::string& path, const v1::TrainSpec& train,
                FieldViolations& violations) {
  std::visit(
      [&](const auto& model) {
        if constexpr (requires { model.heads; }) {
          if (model.heads > 0 && model.hidden % model.heads == 0) return;
          violations.Add(absl::StrCat(path, ".", model.kName, ".hidden"),
                         absl::StrCat("must be a multiple of heads (",
                                      model.heads, "), not ", model.hidden));
        }
      },
      ToModelOptions(train));
}

}  // namespace hearth::server
