#ifndef HEARTH_ENGINE_INGEST_PARSE_PICKLE_VALUE_H_
#define HEARTH_ENGINE_INGEST_PARSE_PICKLE_VALUE_H_

#include <cstdint>
#include <deque>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "absl/status/status.h"
#include "absl/strings/string_view.h"
#include "engine/store/npy.h"

/// The contents of a pickle, as plain values. They belong to a PickleTree, and
/// refer to one another; a value that the pickle uses twice is there once.

namespace hearth::ingest {

struct PickleValue;

enum class TorchType {
  kFloat64,
  kFloat32,
  kFloat16,
  kBFloat16,
  kInt64,
  kInt32,
  kInt16,
  kInt8,
  kUint8,
  kBool,
};

/// "float32", "bfloat16", "bool": torch's name without the module.
const char* Name(TorchType type);
int64_t ItemBytes(TorchType type);

struct PickleBytes {
  std::string data;
};
struct PickleList {
  std::vector<const PickleValue*> items;
};
struct PickleTuple {
  std::vector<const PickleValue*> items;
};
/// In the order of the pickle. Keys are None, bools, numbers, strings or bytes,
/// and all different. OrderedDict is one too; attributes of it are dropped.
struct PickleDict {
  std::vector<std::pair<const PickleValue*, const PickleValue*>> items;
};

/// Bytes kept beside the pickle.
struct TorchStorage {
  std::string key;
  TorchType type = TorchType::kFloat32;
  int64_t num_elements = 0;
};

/// A view into a storage, within its bounds; offset and strides count
/// elements. A Parameter is its tensor.
struct TorchTensor {
  const TorchStorage* storage = nullptr;
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;
  int64_t storage_offset = 0;

  TorchType type() const { return storage->type; }
  /// In C order, without gaps. Dimensions of one element may have any stride.
  bool IsContiguous() const;
};

/// An array in the pickle itself; a numpy scalar has no dimensions.
struct NumpyArray {
  store::ElementType type;
  std::vector<int64_t> shape;
  bool fortran_order = false;
  /// Little-endian; as many bytes as shape and type say.
  absl::string_view data;
};

/// A dtype of numpy.
struct NumpyType {
  store::ElementType type;
};

/// A class or function of the allow-list that was not called: "torch.Size".
struct PickleGlobal {
  absl::string_view name;
};

/// An object of an allow-listed class, and the state it was given, or null.
struct PickleObject {
  absl::string_view class_name;
  const PickleValue* state = nullptr;
};

struct PickleValue {
  std::variant<std::monostate, bool, int64_t, double, std::string, PickleBytes,
               PickleList, PickleTuple, PickleDict, TorchStorage, TorchTensor,
               NumpyArray, NumpyType, PickleGlobal, PickleObject>
      data;

  /// The alternative of that type, or nullptr.
  template <typename T>
  const T* As() const {
    return std::get_if<T>(&data);
  }

  /// The value that a dictionary has under a string; nullptr if it lacks that
  /// or this is no dictionary.
  const PickleValue* Find(absl::string_view key) const;

  /// "a dict", "a tensor": for messages.
  const char* KindName() const;
};

/// Values, and the one that the pickle is. Addresses are stable.
struct PickleTree {
  std::deque<PickleValue> values;
  const PickleValue* root = nullptr;
};

/// Checks that whoever walks the values below `root` comes to an end soon: no
/// cycles, at most `max_depth` containers within one another (both
/// INVALID_ARGUMENT), and at most `max_walk` values where one that is used
/// twice counts twice (RESOURCE_EXHAUSTED). And that the keys of each
/// dictionary are scalars, no two the same (INVALID_ARGUMENT).
absl::Status CheckWalk(const PickleValue& root, int max_depth,
                       int64_t max_walk);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_PARSE_PICKLE_VALUE_H_
