#include "engine/store/array_header.h"

#include "absl/strings/str_cat.h"
#include "engine/store/shape.h"

namespace hearth::store {

std::string Name(ElementType type) {
  switch (type.kind) {
    case ElementType::Kind::kBool:
      return "bool";
    case ElementType::Kind::kInt:
      return absl::StrCat("int", 8 * type.item_bytes);
    case ElementType::Kind::kUint:
      return absl::StrCat("uint", 8 * type.item_bytes);
    case ElementType::Kind::kFloat:
      return absl::StrCat("float", 8 * type.item_bytes);
    case ElementType::Kind::kBFloat:
      return "bfloat16";
  }
  return "";
}

int64_t ArrayHeader::NumElements() const {
  return ArrayBytes(shape, 1).value_or(0);
}

}  // namespace hearth::store
