#include "server/mapping/request_checks.h"

#include <google/protobuf/descriptor.h>
#include <google/protobuf/unknown_field_set.h>

#include <algorithm>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "server/mapping/field_violations.h"

namespace hearth::server {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

bool HasControl(const std::string& text) {
  return std::any_of(text.begin(), text.end(), [](char c) {
    return absl::ascii_iscntrl(static_cast<unsigned char>(c));
  });
}

class RequestChecker {
 public:
  absl::Status Check(const Message& request) {
    CheckMessage(request, "");
    return violations_.ToStatus();
  }

 private:
  void CheckMessage(const Message& message, const std::string& path) {
    const Reflection& reflection = *message.GetReflection();
    const auto& unknown = reflection.GetUnknownFields(message);
    for (int i = 0; i < unknown.field_count(); ++i) {
      violations_.Add(
          path.empty() ? "request" : path,
          absl::StrCat("has field number ", unknown.field(i).number(),
                       ", which this hearthd does not know"));
    }
    std::vector<const FieldDescriptor*> fields;
    reflection.ListFields(message, &fields);
    for (const FieldDescriptor* field : fields) {
      const std::string name = PathOf(path, *field);
      if (!field->is_repeated()) {
        CheckValue(message, *field, -1, name);
        continue;
      }
      for (int i = 0; i < reflection.FieldSize(message, field); ++i) {
        CheckValue(message, *field, i, absl::StrCat(name, "[", i, "]"));
      }
    }
  }

  // The path of a field of the message at `path`.
  static std::string PathOf(const std::string& path,
                            const FieldDescriptor& field) {
    if (path.empty() || path == kSpec) return field.name();
    return absl::StrCat(path, ".", field.name());
  }

  // Checks the value of a field, or its element `index`.
  void CheckValue(const Message& message, const FieldDescriptor& field,
                  int index, const std::string& path) {
    const Reflection& reflection = *message.GetReflection();
    const bool repeated = field.is_repeated();
    switch (field.cpp_type()) {
      case FieldDescriptor::CPPTYPE_MESSAGE:
        CheckMessage(repeated
                         ? reflection.GetRepeatedMessage(message, &field, index)
                         : reflection.GetMessage(message, &field),
                     path);
        break;
      case FieldDescriptor::CPPTYPE_ENUM:
        CheckEnum(field,
                  repeated
                      ? reflection.GetRepeatedEnumValue(message, &field, index)
                      : reflection.GetEnumValue(message, &field),
                  path);
        break;
      case FieldDescriptor::CPPTYPE_STRING:
        if (field.type() == FieldDescriptor::TYPE_BYTES) break;
        if (HasControl(
                repeated ? reflection.GetRepeatedString(message, &field, index)
                         : reflection.GetString(message, &field))) {
          violations_.Add(path, "must have no control characters");
        }
        break;
      default:
        break;
    }
  }

  void CheckEnum(const FieldDescriptor& field, int value,
                 const std::string& path) {
    if (field.enum_type()->FindValueByNumber(value) == nullptr) {
      violations_.Add(path, absl::StrCat("is ", value,
                                         ", which this hearthd does not know"));
    } else if (value == 0 && field.is_repeated()) {
      violations_.Add(path, absl::StrCat("must not be ",
                                         field.enum_type()->value(0)->name()));
    }
  }

  // The field of requests that holds a job's spec.
  static constexpr char kSpec[] = "spec";

  FieldViolations violations_;
};

}  // namespace

absl::Status CheckRequest(const Message& request) {
  return RequestChecker().Check(request);
}

}  // namespace hearth::server
