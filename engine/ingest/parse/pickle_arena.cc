#include "engine/ingest/parse/pickle_arena.h"

#include <utility>

#include "absl/strings/str_cat.h"

namespace hearth::ingest {

absl::StatusOr<PickleValue*> PickleArena::New(
    decltype(PickleValue::data) data) {
  if (--values_left_ < 0) {
    return absl::ResourceExhaustedError("has too many values to be read");
  }
  tree_.values.push_back({std::move(data)});
  return &tree_.values.back();
}

absl::Status PickleArena::Charge(uint64_t count) {
  if (count > bytes_left_) {
    return absl::ResourceExhaustedError(
        absl::StrCat("has strings and arrays that take ", count - bytes_left_,
                     " bytes more than are read"));
  }
  bytes_left_ -= count;
  return absl::OkStatus();
}

PickleTree PickleArena::Release(const PickleValue* root) {
  tree_.root = root;
  return std::move(tree_);
}

}  // namespace hearth::ingest
