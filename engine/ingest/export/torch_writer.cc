#include "engine/ingest/export/torch_writer.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "engine/base/status_macros.h"
#include "engine/ingest/export/zip_writer.h"
#include "engine/store/shape.h"

namespace hearth::ingest {
namespace {

constexpr uint64_t kAlignment = 64;
/// The number by which GraphBolt knows its own graphs.
constexpr int64_t kCscVersion = 6199;

absl::string_view StorageName(store::DType dtype) {
  switch (dtype) {
    case store::DType::kFloat32:
      return "FloatStorage";
    case store::DType::kFloat16:
      return "HalfStorage";
    case store::DType::kBFloat16:
      return "BFloat16Storage";
    case store::DType::kInt32:
      return "IntStorage";
    case store::DType::kInt64:
      return "LongStorage";
    case store::DType::kUint8:
      return "ByteStorage";
  }
  return "";
}

/// Writes a pickle of protocol 2, without memo: nothing occurs twice.
class Pickle {
 public:
  Pickle() { Op("\x80\x02"); }

  void Op(absl::string_view bytes) { absl::StrAppend(&text_, bytes); }

  void Global(absl::string_view module, absl::string_view name) {
    absl::StrAppend(&text_, "c", module, "\n", name, "\n");
  }

  void Text(absl::string_view text) {
    Op("X");
    Number(text.size(), 4);
    Op(text);
  }

  /// LONG1 of eight bytes: for every number from 0 on.
  void Integer(int64_t number) {
    Op("\x8a\x08");
    Number(static_cast<uint64_t>(number), 8);
  }

  void Integers(const std::vector<int64_t>& numbers) {
    Op("(");
    for (const int64_t number : numbers) Integer(number);
    Op("t");
  }

  /// torch._utils._rebuild_tensor_v2 of storage `key`.
  void Tensor(const TensorOutput& tensor, size_t key) {
    Global("torch._utils", "_rebuild_tensor_v2");
    Op("((");
    Text("storage");
    Global("torch", StorageName(tensor.dtype));
    Text(absl::StrCat(key));
    Text("cpu");
    int64_t count = 1;
    std::vector<int64_t> strides(tensor.shape.size());
    for (size_t i = tensor.shape.size(); i-- > 0;) {
      strides[i] = count;
      count *= tensor.shape[i];
    }
    Integer(count);
    Op("tQ");  // A tuple, for persistent_load.
    Integer(0);
    Integers(tensor.shape);
    Integers(strides);
    Op("\x89");  // requires_grad: False.
    Global("collections", "OrderedDict");
    Op(")RtR");
  }

  void Tensors(absl::Span<const TensorOutput> tensors) {
    Op("}(");
    for (size_t i = 0; i < tensors.size(); ++i) {
      Text(tensors[i].name);
      Tensor(tensors[i], i);
    }
    Op("u");
  }

  std::string Finish() {
    Op(".");
    return std::move(text_);
  }

 private:
  void Number(uint64_t number, int bytes) {
    for (int i = 0; i < bytes; ++i) {
      text_.push_back(static_cast<char>(number >> (8 * i) & 0xFF));
    }
  }

  std::string text_;
};

absl::Status WriteArchive(OutputFolder& folder, const std::string& path,
                          absl::string_view pickle,
                          absl::Span<const TensorOutput> tensors) {
  HEARTH_ASSIGN_OR_RETURN(std::unique_ptr<io::WritableFile> file,
                          folder.NewFile(path));
  ZipWriter zip(std::move(file));
  HEARTH_RETURN_IF_ERROR(zip.AddText("archive/data.pkl", pickle, kAlignment));
  HEARTH_RETURN_IF_ERROR(
      zip.AddText("archive/byteorder", "little", kAlignment));
  for (size_t i = 0; i < tensors.size(); ++i) {
    const TensorOutput& tensor = tensors[i];
    const auto bytes =
        store::ArrayBytes(tensor.shape, store::SizeOf(tensor.dtype));
    if (!bytes.has_value()) {
      return absl::InvalidArgumentError(
          absl::StrCat(path, ": ", tensor.name, ": shape ",
                       store::FormatShape(tensor.shape), " is too large"));
    }
    HEARTH_RETURN_IF_ERROR(zip.AddMember(absl::StrCat("archive/data/", i),
                                         static_cast<uint64_t>(*bytes),
                                         kAlignment, tensor.write));
  }
  HEARTH_RETURN_IF_ERROR(zip.AddText("archive/version", "3\n", kAlignment));
  return zip.Finish();
}

}  // namespace

absl::Status WriteTorchTensor(OutputFolder& folder, const std::string& path,
                              const TensorOutput& tensor) {
  Pickle pickle;
  pickle.Tensor(tensor, 0);
  return WriteArchive(folder, path, pickle.Finish(),
                      absl::MakeConstSpan(&tensor, 1));
}

absl::Status WriteTorchDict(OutputFolder& folder, const std::string& path,
                            absl::Span<const TensorOutput> tensors) {
  Pickle pickle;
  pickle.Tensors(tensors);
  return WriteArchive(folder, path, pickle.Finish(), tensors);
}

absl::Status WriteTorchCounts(
    OutputFolder& folder, const std::string& path,
    absl::Span<const std::pair<std::string, int64_t>> counts) {
  Pickle pickle;
  pickle.Op("}(");
  for (const auto& [name, count] : counts) {
    pickle.Text(name);
    pickle.Integer(count);
  }
  pickle.Op("u");
  return WriteArchive(folder, path, pickle.Finish(), {});
}

absl::Status WriteFusedCscGraph(OutputFolder& folder, const std::string& path,
                                absl::Span<const TensorOutput> tensors) {
  std::vector<TensorOutput> all = {
      {"version_number", store::DType::kInt64, {1}, [](ByteSink& sink) {
         return sink.AppendValues<int64_t>({kCscVersion});
       }}};
  all.insert(all.end(), tensors.begin(), tensors.end());
  Pickle pickle;
  pickle.Global("dgl.graphbolt.impl.fused_csc_sampling_graph",
                "FusedCSCSamplingGraph");
  pickle.Op(")\x81}(");  // An object of no arguments, and its state.
  pickle.Text("_c_csc_graph");
  pickle.Global("torch", "ScriptObject");
  pickle.Op(")\x81}");
  pickle.Text("independent_tensors");
  pickle.Tensors(all);
  pickle.Op("s");
  pickle.Text("__torch__.torch.classes.graphbolt.FusedCSCSamplingGraph");
  pickle.Op("\x86");  // Both make a pair, the state of
  pickle.Op("b");     // the inner object.
  pickle.Text("_node_type_offset_cached_list");
  pickle.Op("Nub");
  return WriteArchive(folder, path, pickle.Finish(), all);
}

}  // namespace hearth::ingest
