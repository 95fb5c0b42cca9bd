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

/// Contents of a pickle as plain values. A PickleTree owns the values, which
/// point to one another; a value that the pickle uses twice exists once.

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

/// Name of the type without torch's module: "float32", "bfloat16", "bool".
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
/// A dict, in the order of the pickle. Keys are None, bools, numbers, strings
/// or bytes, all different. An OrderedDict is a PickleDict, too; its attributes
/// are dropped.
struct PickleDict {
  std::vector<std::pair<const PickleValue*, const PickleValue*>> items;
};

/// Elements stored outside the pickle, of which it has the key and size.
struct TorchStorage {
  std::string key;
  TorchType type = TorchType::kFloat32;
  int64_t num_elements = 0;
};

/// A view into a storage, within its bounds; offset and strides count elements.
/// A Parameter becomes its tensor.
struct TorchTensor {
  const TorchStorage* storage = nullptr;
  std::vector<int64_t> shape;
  std::vector<int64_t> strides;
  int64_t storage_offset = 0;

  TorchType type() const { return storage->type; }
  /// Whether the elements lie in C order without gaps. Strides of dimensions of
  /// one element do not matter.
  bool IsContiguous() const;
};

/// An array inside the pickle. A numpy scalar is an array without dimensions.
struct NumpyArray {
  store::ElementType type;
  std::vector<int64_t> shape;
  bool fortran_order = false;
  /// Elements, little-endian; exactly as many bytes as shape and type say.
  absl::string_view data;
};

/// A numpy dtype.
struct NumpyType {
  store::ElementType type;
};

/// A class or function of the allow-list that was not called, such as
/// "torch.Size".
struct PickleGlobal {
  absl::string_view name;
};

/// An object of a class of the allow-list, and its state or null.
struct PickleObject {
  absl::string_view class_name;
  const PickleValue* state = nullptr;
};

struct PickleValue {
  std::variant<std::monostate, bool, int64_t, double, std::string, PickleBytes,
               PickleList, PickleTuple, PickleDict, TorchStorage, TorchTensor,
               NumpyArray, NumpyType, PickleGlobal, PickleObject>
      data;

  /// The value as a T; null if it has another type.
  template <typename T>
  const T* As() const {
    return std::get_if<T>(&data);
  }

  /// The value under the string `key`; null if there is none, or if this is no
  /// dictionary.
  const PickleValue* Find(absl::string_view key) const;

  /// Kind of the value for messages: "a dict", "a tensor".
  const char* KindName() const;
};

/// All values of a pickle, and the value that it stands for. Addresses of
/// values are stable.
struct PickleTree {
  std::deque<PickleValue> values;
  const PickleValue* root = nullptr;
};

/// Checks that walking the values below `root` ends soon: INVALID_ARGUMENT for
/// cycles, for more than `max_depth` nested containers, and for dictionaries
/// whose keys are not scalars or not distinct; RESOURCE_EXHAUSTED if a walk,
/// which visits a value used twice twice, visits more than `max_walk` values.
absl::Status CheckWalk(const PickleValue& root, int max_depth,
                       int64_t max_walk);

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_PARSE_PICKLE_VALUE_H_
