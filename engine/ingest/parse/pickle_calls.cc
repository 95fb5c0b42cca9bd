#include "engine/ingest/parse/pickle_calls.h"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/base/status.h"
#include "engine/ingest/parse/pickle_value.h"
#include "engine/store/array_type.h"

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

namespace {

// numpy's own limit on dimensions is 64.
constexpr size_t kMaxDimensions = 64;

// Parsers of the arguments that a pickle gives its functions. Errors are
// INVALID_ARGUMENT "gets ..."; the caller adds the name of the function.

using Arguments = absl::Span<const PickleValue* const>;

absl::Status Refused(absl::string_view what) {
  return absl::InvalidArgumentError(what);
}

/// Items of `value`, a tuple of `least` to `most` items.
absl::StatusOr<Arguments> TupleOf(const PickleValue& value, size_t least,
                                  size_t most) {
  const auto* const tuple = value.As<PickleTuple>();
  if (tuple == nullptr || tuple->items.size() < least ||
      tuple->items.size() > most) {
    return Refused("gets arguments that its writers never give it");
  }
  return Arguments(tuple->items);
}

/// `value` as a T; `wanted` names a T in the message.
template <typename T>
absl::StatusOr<const T*> Need(const PickleValue& value,
                              absl::string_view wanted) {
  const auto* const found = value.As<T>();
  if (found == nullptr) {
    return Refused(absl::StrCat("gets ", value.KindName(), " where ", wanted,
                                " should be"));
  }
  return found;
}

/// `value` as an int of 0 or more.
absl::StatusOr<int64_t> NeedCount(const PickleValue& value) {
  HEARTH_ASSIGN_OR_RETURN(const int64_t* number,
                          Need<int64_t>(value, "a count"));
  if (*number < 0) return Refused(absl::StrCat("gets a count of ", *number));
  return *number;
}

/// `value` as a tuple of counts: a shape or strides.
absl::StatusOr<std::vector<int64_t>> NeedCounts(const PickleValue& value) {
  HEARTH_ASSIGN_OR_RETURN(const auto* tuple,
                          Need<PickleTuple>(value, "a tuple of counts"));
  if (tuple->items.size() > kMaxDimensions) {
    return Refused(absl::StrCat("gets ", tuple->items.size(), " dimensions"));
  }
  std::vector<int64_t> counts;
  for (const PickleValue* item : tuple->items) {
    HEARTH_ASSIGN_OR_RETURN(const int64_t count, NeedCount(*item));
    counts.push_back(count);
  }
  return counts;
}

absl::Status ChargeShape(PickleArena& arena,
                         const std::vector<int64_t>& shape) {
  return arena.Charge(shape.size() * sizeof(int64_t));
}

absl::StatusOr<PickleValue*> CallOrderedDict(PickleArena& arena,
                                             const PickleValue& arguments) {
  HEARTH_RETURN_IF_ERROR(TupleOf(arguments, 0, 0).status());
  return arena.New(PickleDict{});
}

absl::StatusOr<PickleValue*> CallSize(PickleArena& arena,
                                      const PickleValue& arguments) {
  HEARTH_ASSIGN_OR_RETURN(const Arguments given, TupleOf(arguments, 1, 1));
  HEARTH_ASSIGN_OR_RETURN(const auto* tuple,
                          Need<PickleTuple>(*given[0], "a tuple"));
  // The copy is as large as the tuple.
  HEARTH_RETURN_IF_ERROR(arena.Charge(8 * tuple->items.size()));
  return arena.New(*tuple);
}

absl::StatusOr<PickleValue*> CallBytes(PickleArena& arena,
                                       const PickleValue& arguments) {
  HEARTH_RETURN_IF_ERROR(TupleOf(arguments, 0, 0).status());
  return arena.New(PickleBytes{});
}

/// Encodes UTF-8 text as Latin-1; nullopt for code points beyond 255.
std::optional<std::string> EncodeLatin1(absl::string_view text) {
  std::string bytes;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<uint8_t>(text[i]);
    if (byte < 0x80) {
      bytes.push_back(text[i]);
      continue;
    }
    if ((byte != 0xC2 && byte != 0xC3) || i + 1 == text.size()) return {};
    const auto low = static_cast<uint8_t>(text[++i]);
    if ((low & 0xC0) != 0x80) return {};
    bytes.push_back(static_cast<char>((byte & 0x03) << 6 | (low & 0x3F)));
  }
  return bytes;
}

absl::StatusOr<PickleValue*> CallEncode(PickleArena& arena,
                                        const PickleValue& arguments) {
  HEARTH_ASSIGN_OR_RETURN(const Arguments given, TupleOf(arguments, 2, 2));
  HEARTH_ASSIGN_OR_RETURN(const auto* text,
                          Need<std::string>(*given[0], "a string"));
  HEARTH_ASSIGN_OR_RETURN(const auto* encoding,
                          Need<std::string>(*given[1], "\"latin1\""));
  if (*encoding != "latin1") return Refused("gets an encoding but latin1");
  HEARTH_RETURN_IF_ERROR(arena.Charge(text->size()));
  std::optional<std::string> bytes = EncodeLatin1(*text);
  if (!bytes.has_value()) return Refused("gets text that is not latin1");
  return arena.New(PickleBytes{*std::move(bytes)});
}

/// Whether all elements of the tensor lie within its storage.
bool IsWithin(const TorchTensor& tensor) {
  // Refuses shapes beyond any real array, so that the sums below do not
  // overflow.
  if (!store::ArrayBytes(tensor.shape, ItemBytes(tensor.type())).has_value()) {
    return false;
  }
  __int128 last = tensor.storage_offset;
  for (size_t i = 0; i < tensor.shape.size(); ++i) {
    if (tensor.shape[i] == 0) {
      return tensor.storage_offset <= tensor.storage->num_elements;
    }
    last += static_cast<__int128>(tensor.shape[i] - 1) * tensor.strides[i];
  }
  return last < tensor.storage->num_elements;
}

absl::StatusOr<PickleValue*> CallRebuildTensor(PickleArena& arena,
                                               const PickleValue& arguments) {
  // Arguments: storage, offset, shape and strides; version 2 adds
  // requires_grad, hooks and metadata (of conjugated and negated views).
  HEARTH_ASSIGN_OR_RETURN(const Arguments given, TupleOf(arguments, 4, 7));
  TorchTensor tensor;
  HEARTH_ASSIGN_OR_RETURN(tensor.storage,
                          Need<TorchStorage>(*given[0], "a storage"));
  HEARTH_ASSIGN_OR_RETURN(tensor.storage_offset, NeedCount(*given[1]));
  HEARTH_ASSIGN_OR_RETURN(tensor.shape, NeedCounts(*given[2]));
  HEARTH_ASSIGN_OR_RETURN(tensor.strides, NeedCounts(*given[3]));
  if (given.size() == 7 && given[6]->As<std::monostate>() == nullptr) {
    return Refused("gets a tensor that is a conjugated or negated view");
  }
  if (tensor.shape.size() != tensor.strides.size() || !IsWithin(tensor)) {
    return Refused(absl::StrCat(
        "gets a tensor of shape ", store::FormatShape(tensor.shape),
        ", strides ", store::FormatShape(tensor.strides), " and offset ",
        tensor.storage_offset, ", which a storage of ",
        tensor.storage->num_elements, " elements does not hold"));
  }
  HEARTH_RETURN_IF_ERROR(ChargeShape(arena, tensor.shape));
  HEARTH_RETURN_IF_ERROR(ChargeShape(arena, tensor.strides));
  return arena.New(std::move(tensor));
}

absl::StatusOr<PickleValue*> CallRebuildParameter(
    PickleArena& arena, const PickleValue& arguments) {
  HEARTH_ASSIGN_OR_RETURN(const Arguments given, TupleOf(arguments, 3, 3));
  HEARTH_ASSIGN_OR_RETURN(const auto* tensor,
                          Need<TorchTensor>(*given[0], "a tensor"));
  HEARTH_RETURN_IF_ERROR(ChargeShape(arena, tensor->shape));
  HEARTH_RETURN_IF_ERROR(ChargeShape(arena, tensor->strides));
  return arena.New(*tensor);
}

absl::StatusOr<PickleValue*> CallNumpyType(PickleArena& arena,
                                           const PickleValue& arguments) {
  HEARTH_ASSIGN_OR_RETURN(const Arguments given, TupleOf(arguments, 1, 3));
  HEARTH_ASSIGN_OR_RETURN(const auto* code,
                          Need<std::string>(*given[0], "a type's code"));
  static constexpr struct {
    absl::string_view code;
    store::ElementType type;
  } kTypes[] = {
      {"b1", {store::ElementType::Kind::kBool, 1}},
      {"i1", {store::ElementType::Kind::kInt, 1}},
      {"i2", {store::ElementType::Kind::kInt, 2}},
      {"i4", {store::ElementType::Kind::kInt, 4}},
      {"i8", {store::ElementType::Kind::kInt, 8}},
      {"u1", {store::ElementType::Kind::kUint, 1}},
      {"u2", {store::ElementType::Kind::kUint, 2}},
      {"u4", {store::ElementType::Kind::kUint, 4}},
      {"u8", {store::ElementType::Kind::kUint, 8}},
      {"f2", {store::ElementType::Kind::kFloat, 2}},
      {"f4", {store::ElementType::Kind::kFloat, 4}},
      {"f8", {store::ElementType::Kind::kFloat, 8}},
  };
  for (const auto& known : kTypes) {
    if (*code == known.code) return arena.New(NumpyType{known.type});
  }
  return Refused(absl::StrCat(
      "gets the element type \"", absl::CEscape(code->substr(0, 40)),
      "\"; readable are bool, int, uint and float of up to 8 bytes"));
}

/// An empty array, whose contents Build sets.
absl::StatusOr<PickleValue*> CallReconstruct(PickleArena& arena,
                                             const PickleValue& arguments) {
  HEARTH_ASSIGN_OR_RETURN(const Arguments given, TupleOf(arguments, 3, 3));
  HEARTH_ASSIGN_OR_RETURN(const auto* type,
                          Need<PickleGlobal>(*given[0], "numpy.ndarray"));
  if (type->name != "numpy.ndarray") return Refused("gets another class");
  NumpyArray array;
  array.type = {store::ElementType::Kind::kUint, 1};
  array.shape = {0};
  return arena.New(std::move(array));
}

absl::StatusOr<NumpyArray> MakeArray(const PickleValue& type,
                                     std::vector<int64_t> shape,
                                     const PickleValue& bytes,
                                     bool fortran_order) {
  HEARTH_ASSIGN_OR_RETURN(const auto* dtype,
                          Need<NumpyType>(type, "a numpy type"));
  HEARTH_ASSIGN_OR_RETURN(const auto* data, Need<PickleBytes>(bytes, "bytes"));
  const auto size = store::ArrayBytes(shape, dtype->type.item_bytes);
  if (!size.has_value() || static_cast<uint64_t>(*size) != data->data.size()) {
    return Refused(absl::StrCat("gets ", data->data.size(), " bytes for shape ",
                                store::FormatShape(shape), " of ",
                                Name(dtype->type)));
  }
  return NumpyArray{dtype->type, std::move(shape), fortran_order, data->data};
}

absl::StatusOr<PickleValue*> CallScalar(PickleArena& arena,
                                        const PickleValue& arguments) {
  HEARTH_ASSIGN_OR_RETURN(const Arguments given, TupleOf(arguments, 2, 2));
  HEARTH_ASSIGN_OR_RETURN(NumpyArray array,
                          MakeArray(*given[0], {}, *given[1], false));
  return arena.New(std::move(array));
}

/// Protocol 5; arguments: bytes, type, shape, "C" or "F".
absl::StatusOr<PickleValue*> CallFromBuffer(PickleArena& arena,
                                            const PickleValue& arguments) {
  HEARTH_ASSIGN_OR_RETURN(const Arguments given, TupleOf(arguments, 4, 4));
  HEARTH_ASSIGN_OR_RETURN(std::vector<int64_t> shape, NeedCounts(*given[2]));
  HEARTH_ASSIGN_OR_RETURN(const auto* order,
                          Need<std::string>(*given[3], "\"C\" or \"F\""));
  if (*order != "C" && *order != "F") return Refused("gets another order");
  HEARTH_RETURN_IF_ERROR(ChargeShape(arena, shape));
  HEARTH_ASSIGN_OR_RETURN(
      NumpyArray array,
      MakeArray(*given[1], std::move(shape), *given[0], *order == "F"));
  return arena.New(std::move(array));
}

using Function = absl::StatusOr<PickleValue*> (*)(PickleArena&,
                                                  const PickleValue&);

/// A class or function of the allow-list, and what may be done with it: at most
/// one of the three is set.
struct Global {
  absl::string_view name;
  Function call = nullptr;
  /// Whether objects of the class may be made and given a state.
  bool is_object = false;
  std::optional<TorchType> storage = {};
};

// The allow-list. Names are as in the pickle: module and name joined.
constexpr Global kGlobals[] = {
    {"__builtin__.bytes", CallBytes},
    {"_codecs.encode", CallEncode},
    {"builtins.bytes", CallBytes},
    {"collections.OrderedDict", CallOrderedDict},
    {"dgl.graphbolt.impl.csc_sampling_graph.CSCSamplingGraph", nullptr, true},
    {"dgl.graphbolt.impl.fused_csc_sampling_graph.FusedCSCSamplingGraph",
     nullptr, true},
    {"numpy._core.multiarray._reconstruct", CallReconstruct},
    {"numpy._core.multiarray.scalar", CallScalar},
    {"numpy._core.numeric._frombuffer", CallFromBuffer},
    {"numpy.core.multiarray._reconstruct", CallReconstruct},
    {"numpy.core.multiarray.scalar", CallScalar},
    {"numpy.core.numeric._frombuffer", CallFromBuffer},
    {"numpy.dtype", CallNumpyType},
    {"numpy.ndarray"},
    {"torch.BFloat16Storage", nullptr, false, TorchType::kBFloat16},
    {"torch.BoolStorage", nullptr, false, TorchType::kBool},
    {"torch.ByteStorage", nullptr, false, TorchType::kUint8},
    {"torch.CharStorage", nullptr, false, TorchType::kInt8},
    {"torch.DoubleStorage", nullptr, false, TorchType::kFloat64},
    {"torch.FloatStorage", nullptr, false, TorchType::kFloat32},
    {"torch.HalfStorage", nullptr, false, TorchType::kFloat16},
    {"torch.IntStorage", nullptr, false, TorchType::kInt32},
    {"torch.LongStorage", nullptr, false, TorchType::kInt64},
    {"torch.ScriptObject", nullptr, true},
    {"torch.ShortStorage", nullptr, false, TorchType::kInt16},
    {"torch.Size", CallSize},
    {"torch._utils._rebuild_parameter", CallRebuildParameter},
    {"torch._utils._rebuild_tensor", CallRebuildTensor},
    {"torch._utils._rebuild_tensor_v2", CallRebuildTensor},
};

const Global* Look(absl::string_view name) {
  for (const Global& global : kGlobals) {
    if (global.name == name) return &global;
  }
  return nullptr;
}

/// The entry of `value` in the allow-list; the error says what kind of value it
/// is instead.
absl::StatusOr<const Global*> NeedGlobal(const PickleValue& value) {
  const auto* const global = value.As<PickleGlobal>();
  if (global == nullptr) {
    return Refused(absl::StrCat("calls ", value.KindName()));
  }
  return Look(global->name);
}

/// State: (version, byte order, ...); the rest belongs to types that are not
/// read.
absl::Status BuildType(const NumpyType& target, const PickleValue& state) {
  HEARTH_ASSIGN_OR_RETURN(const Arguments given, TupleOf(state, 2, 16));
  HEARTH_ASSIGN_OR_RETURN(const auto* order,
                          Need<std::string>(*given[1], "a byte order"));
  if (*order == "<" || *order == "|" || *order == "=") return absl::OkStatus();
  return Refused(absl::StrCat("has ", *order == ">" ? "big-endian" : "other",
                              " ", Name(target.type),
                              " elements; little-endian are read"));
}

/// State: (version, shape, type, whether in Fortran order, bytes).
absl::Status BuildArray(PickleArena& arena, NumpyArray& target,
                        const PickleValue& state) {
  HEARTH_ASSIGN_OR_RETURN(const Arguments given, TupleOf(state, 5, 5));
  HEARTH_ASSIGN_OR_RETURN(std::vector<int64_t> shape, NeedCounts(*given[1]));
  const auto* const is_fortran = given[3]->As<bool>();
  const auto* const number = given[3]->As<int64_t>();
  if (is_fortran == nullptr && number == nullptr) {
    return Refused("gets an order that is no bool");
  }
  const bool fortran = is_fortran != nullptr ? *is_fortran : *number != 0;
  HEARTH_RETURN_IF_ERROR(ChargeShape(arena, shape));
  HEARTH_ASSIGN_OR_RETURN(
      target, MakeArray(*given[2], std::move(shape), *given[4], fortran));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<PickleGlobal> FindGlobal(absl::string_view module,
                                        absl::string_view name) {
  const std::string full = absl::StrCat(module, ".", name);
  const Global* const global = Look(full);
  if (global == nullptr) {
    return Refused(absl::StrCat("uses ", absl::CEscape(full.substr(0, 200)),
                                ", which is not among what is read"));
  }
  return PickleGlobal{global->name};
}

absl::StatusOr<PickleValue*> Call(PickleArena& arena,
                                  const PickleValue& callable,
                                  const PickleValue& arguments) {
  HEARTH_ASSIGN_OR_RETURN(const Global* global, NeedGlobal(callable));
  if (global->call == nullptr) {
    return Refused(absl::StrCat("calls ", global->name));
  }
  auto result = global->call(arena, arguments);
  if (absl::IsInvalidArgument(result.status())) {
    return Refused(absl::StrCat(global->name, " ", result.status().message()));
  }
  return result;
}

absl::StatusOr<PickleValue*> Make(PickleArena& arena, const PickleValue& type,
                                  const PickleValue& arguments) {
  HEARTH_ASSIGN_OR_RETURN(const Global* global, NeedGlobal(type));
  if (!global->is_object) {
    return Refused(absl::StrCat("makes an object of ", global->name));
  }
  HEARTH_RETURN_IF_ERROR(TupleOf(arguments, 0, 0).status());
  return arena.New(PickleObject{global->name, nullptr});
}

absl::Status Build(PickleArena& arena, PickleValue& target,
                   const PickleValue& state) {
  if (auto* const array = std::get_if<NumpyArray>(&target.data)) {
    return BuildArray(arena, *array, state);
  }
  if (const auto* const type = target.As<NumpyType>()) {
    return BuildType(*type, state);
  }
  // Attributes of an OrderedDict are versions of a state dict: dropped.
  if (target.As<PickleDict>() != nullptr) {
    return Need<PickleDict>(state, "attributes").status();
  }
  auto* const object = std::get_if<PickleObject>(&target.data);
  if (object == nullptr || object->state != nullptr) {
    return Refused(absl::StrCat("gives a state to ", target.KindName()));
  }
  object->state = &state;
  return absl::OkStatus();
}

absl::StatusOr<PickleValue*> FindStorage(PickleArena& arena,
                                         const PickleValue& id) {
  // ("storage", type, key, device, elements); the format before zip adds the
  // view of another storage, which is None since torch 0.4.
  HEARTH_ASSIGN_OR_RETURN(const Arguments given, TupleOf(id, 5, 6));
  const auto* const tag = given[0]->As<std::string>();
  const auto* const type = given[1]->As<PickleGlobal>();
  const auto* const key = given[2]->As<std::string>();
  const Global* const global = type == nullptr ? nullptr : Look(type->name);
  if (tag == nullptr || *tag != "storage" || key == nullptr ||
      global == nullptr || !global->storage.has_value()) {
    return Refused("refers to something that is no storage");
  }
  if (given.size() == 6 && given[5]->As<std::monostate>() == nullptr) {
    return Refused("refers to a view of a storage");
  }
  HEARTH_ASSIGN_OR_RETURN(const int64_t count, NeedCount(*given[4]));
  HEARTH_RETURN_IF_ERROR(arena.Charge(key->size()));
  return arena.New(TorchStorage{*key, *global->storage, count});
}

}  // namespace hearth::ingest
