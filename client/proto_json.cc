#include "client/proto_json.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/timestamp.pb.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace hearth::client {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::EnumValueDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using nlohmann::ordered_json;

ordered_json TimestampJson(const google::protobuf::Timestamp& timestamp) {
  const absl::Time time = absl::FromUnixSeconds(timestamp.seconds()) +
                          absl::Nanoseconds(timestamp.nanos());
  return absl::FormatTime("%Y-%m-%d%ET%H:%M:%E*SZ", time, absl::UTCTimeZone());
}

ordered_json EnumJson(const FieldDescriptor& field, int number) {
  const EnumValueDescriptor* value =
      field.enum_type()->FindValueByNumber(number);
  if (value == nullptr) return number;  // A value of a newer daemon.
  return std::string(value->name());
}

ordered_json SingularJson(const Message& message,
                          const FieldDescriptor& field) {
  const Reflection& reflection = *message.GetReflection();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return reflection.GetInt32(message, &field);
    case FieldDescriptor::CPPTYPE_INT64:
      return reflection.GetInt64(message, &field);
    case FieldDescriptor::CPPTYPE_UINT32:
      return reflection.GetUInt32(message, &field);
    case FieldDescriptor::CPPTYPE_UINT64:
      return reflection.GetUInt64(message, &field);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return reflection.GetDouble(message, &field);
    case FieldDescriptor::CPPTYPE_FLOAT:
      return reflection.GetFloat(message, &field);
    case FieldDescriptor::CPPTYPE_BOOL:
      return reflection.GetBool(message, &field);
    case FieldDescriptor::CPPTYPE_ENUM:
      return EnumJson(field, reflection.GetEnumValue(message, &field));
    case FieldDescriptor::CPPTYPE_STRING:
      return reflection.GetString(message, &field);
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return ToJson(reflection.GetMessage(message, &field));
  }
  return nullptr;
}

ordered_json ElementJson(const Message& message, const FieldDescriptor& field,
                         int index) {
  const Reflection& reflection = *message.GetReflection();
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return reflection.GetRepeatedInt32(message, &field, index);
    case FieldDescriptor::CPPTYPE_INT64:
      return reflection.GetRepeatedInt64(message, &field, index);
    case FieldDescriptor::CPPTYPE_UINT32:
      return reflection.GetRepeatedUInt32(message, &field, index);
    case FieldDescriptor::CPPTYPE_UINT64:
      return reflection.GetRepeatedUInt64(message, &field, index);
    case FieldDescriptor::CPPTYPE_DOUBLE:
      return reflection.GetRepeatedDouble(message, &field, index);
    case FieldDescriptor::CPPTYPE_FLOAT:
      return reflection.GetRepeatedFloat(message, &field, index);
    case FieldDescriptor::CPPTYPE_BOOL:
      return reflection.GetRepeatedBool(message, &field, index);
    case FieldDescriptor::CPPTYPE_ENUM:
      return EnumJson(field,
                      reflection.GetRepeatedEnumValue(message, &field, index));
    case FieldDescriptor::CPPTYPE_STRING:
      return reflection.GetRepeatedString(message, &field, index);
    case FieldDescriptor::CPPTYPE_MESSAGE:
      return ToJson(reflection.GetRepeatedMessage(message, &field, index));
  }
  return nullptr;
}

ordered_json FieldJson(const Message& message, const FieldDescriptor& field) {
  const Reflection& reflection = *message.GetReflection();
  if (field.is_repeated()) {
    ordered_json elements = ordered_json::array();
    for (int i = 0; i < reflection.FieldSize(message, &field); ++i) {
      elements.push_back(ElementJson(message, field, i));
    }
    return elements;
  }
  if (field.has_presence() && !reflection.HasField(message, &field)) {
    return nullptr;
  }
  return SingularJson(message, field);
}

std::vector<const FieldDescriptor*> FieldsByNumber(const Descriptor& type) {
  std::vector<const FieldDescriptor*> fields;
  for (int i = 0; i < type.field_count(); ++i) fields.push_back(type.field(i));
  std::sort(fields.begin(), fields.end(), [](const auto* a, const auto* b) {
    return a->number() < b->number();
  });
  return fields;
}

}  // namespace

ordered_json ToJson(const Message& message) {
  if (message.GetDescriptor() == google::protobuf::Timestamp::descriptor()) {
    return TimestampJson(
        static_cast<const google::protobuf::Timestamp&>(message));
  }
  ordered_json object = ordered_json::object();
  for (const FieldDescriptor* field :
       FieldsByNumber(*message.GetDescriptor())) {
    object[std::string(field->name())] = FieldJson(message, *field);
  }
  return object;
}

ordered_json JobToJson(const v1::Job& job) {
  ordered_json object = ToJson(job);
  ordered_json report = nullptr;
  for (const auto& [kind, value] : object["report"].items()) {
    if (!value.is_null()) report = value;
  }
  object["report"] = report;
  return object;
}

}  // namespace hearth::client
