#include "engine/ingest/export/torch_writer.h"

#include <zlib.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "engine/base/status.h"
#include "engine/ingest/export/output_folder.h"
#include "engine/ingest/export/source_output.h"
#include "engine/io/file_system.h"
#include "engine/store/array_type.h"

namespace hearth::ingest {

namespace {

/// Writes a zip file of stored members, with zip64 where sizes need it.
/// Single-owner.
class ZipWriter {
 public:
  explicit ZipWriter(std::unique_ptr<io::WritableFile> file)
      : file_(std::move(file)) {}

  /// Adds a member of exactly `size` bytes, which `write` appends (otherwise
  /// INTERNAL). They begin at a multiple of `alignment` bytes.
  absl::Status AddMember(absl::string_view name, uint64_t size,
                         uint64_t alignment,
                         absl::FunctionRef<absl::Status(ByteSink&)> write);

  /// Adds a member with the bytes of `text`.
  absl::Status AddText(absl::string_view name, absl::string_view text,
                       uint64_t alignment);

  /// Writes the directory; syncs and closes the file.
  absl::Status Finish();

 private:
  struct Member {
    std::string name;
    uint64_t size = 0;
    uint32_t crc32 = 0;
    uint64_t offset = 0;
  };

  /// Header before a member's data, padded by an extra field.
  std::string LocalHeader(const Member& member, uint64_t alignment) const;
  absl::Status Append(absl::string_view text);

  const std::unique_ptr<io::WritableFile> file_;
  std::vector<Member> members_;
  uint64_t written_ = 0;
};

// PKWARE's APPNOTE.TXT, 4.3: for each member a local header and its data; then
// the central directory with a header for each member; then the end record,
// preceded, if a number does not fit it, by zip64's end record and locator.

constexpr uint32_t kLocalSignature = 0x04034B50;
constexpr uint32_t kCentralSignature = 0x02014B50;
constexpr uint32_t kZip64EndSignature = 0x06064B50;
constexpr uint32_t kZip64LocatorSignature = 0x07064B50;
constexpr uint32_t kEndSignature = 0x06054B50;
constexpr uint16_t kZip64Tag = 0x0001;
// torch's tag for its padding.
constexpr uint16_t kPaddingTag = 0x4246;
constexpr uint16_t kVersion = 45;
// 1980-01-01, the first day that the format can express.
constexpr uint16_t kDate = 0x0021;
constexpr uint32_t kIn64 = 0xFFFFFFFF;
constexpr uint64_t kCrcOffset = 14;
// zlib counts the bytes of one call in 32 bits.
constexpr size_t kMaxInput = 1 << 30;

template <typename Number>
void Put(Number number, std::string& out) {
  for (size_t i = 0; i < sizeof(Number); ++i) {
    out.push_back(static_cast<char>(number >> (8 * i) & 0xFF));
  }
}

uint32_t Short(uint64_t number) {
  return number < kIn64 ? static_cast<uint32_t>(number) : kIn64;
}

/// Passes bytes on to the file; counts them and sums their CRC.
class MemberSink : public ByteSink {
 public:
  MemberSink(io::WritableFile& file, uint64_t size)
      : file_(file), size_(size) {}

  absl::Status Append(absl::Span<const std::byte> data) override {
    if (data.size() > size_ - written_) {
      return absl::InternalError("a zip member is longer than was said");
    }
    written_ += data.size();
    HEARTH_RETURN_IF_ERROR(file_.Append(data));
    while (!data.empty()) {
      const auto part = data.first(std::min(data.size(), kMaxInput));
      crc32_ = static_cast<uint32_t>(
          ::crc32(crc32_, reinterpret_cast<const Bytef*>(part.data()),
                  static_cast<uInt>(part.size())));
      data.remove_prefix(part.size());
    }
    return absl::OkStatus();
  }

  absl::Status Finish() override {
    if (written_ == size_) return absl::OkStatus();
    return absl::InternalError("a zip member is shorter than was said");
  }

  uint32_t crc32() const { return crc32_; }

 private:
  io::WritableFile& file_;
  const uint64_t size_;
  uint64_t written_ = 0;
  uint32_t crc32_ = 0;
};

/// Fields that both headers of a member have after their version.
void PutCommon(uint32_t crc32, uint32_t size, std::string& out) {
  Put<uint16_t>(0, out);  // Flags.
  Put<uint16_t>(0, out);  // Stored.
  Put<uint16_t>(0, out);  // Time.
  Put<uint16_t>(kDate, out);
  Put<uint32_t>(crc32, out);
  Put<uint32_t>(size, out);
  Put<uint32_t>(size, out);
}

std::string ZipWriter::LocalHeader(const Member& member,
                                   uint64_t alignment) const {
  std::string extra;
  if (member.size >= kIn64) {
    Put<uint16_t>(kZip64Tag, extra);
    Put<uint16_t>(16, extra);
    Put<uint64_t>(member.size, extra);
    Put<uint64_t>(member.size, extra);
  }
  std::string header;
  Put<uint32_t>(kLocalSignature, header);
  Put<uint16_t>(kVersion, header);
  PutCommon(0, Short(member.size), header);
  Put<uint16_t>(static_cast<uint16_t>(member.name.size()), header);
  // The padding has a header of four bytes itself.
  const uint64_t end =
      member.offset + header.size() + 2 + member.name.size() + extra.size() + 4;
  const uint64_t padding = (alignment - end % alignment) % alignment;
  Put<uint16_t>(kPaddingTag, extra);
  Put<uint16_t>(static_cast<uint16_t>(padding), extra);
  extra.append(padding, 'Z');
  Put<uint16_t>(static_cast<uint16_t>(extra.size()), header);
  return absl::StrCat(header, member.name, extra);
}

absl::Status ZipWriter::AddMember(
    absl::string_view name, uint64_t size, uint64_t alignment,
    absl::FunctionRef<absl::Status(ByteSink&)> write) {
  Member member{std::string(name), size, 0, written_};
  HEARTH_RETURN_IF_ERROR(Append(LocalHeader(member, alignment)));
  MemberSink sink(*file_, size);
  HEARTH_RETURN_IF_ERROR(write(sink));
  HEARTH_RETURN_IF_ERROR(sink.Finish());
  written_ += size;
  member.crc32 = sink.crc32();
  std::string crc;
  Put<uint32_t>(member.crc32, crc);
  HEARTH_RETURN_IF_ERROR(file_->Write(
      member.offset + kCrcOffset,
      absl::MakeConstSpan(reinterpret_cast<const std::byte*>(crc.data()),
                          crc.size())));
  members_.push_back(std::move(member));
  return absl::OkStatus();
}

absl::Status ZipWriter::AddText(absl::string_view name, absl::string_view text,
                                uint64_t alignment) {
  return AddMember(name, text.size(), alignment,
                   [&](ByteSink& sink) { return sink.AppendText(text); });
}

absl::Status ZipWriter::Finish() {
  std::string directory;
  for (const Member& member : members_) {
    std::string extra;
    if (member.size >= kIn64) {
      Put<uint64_t>(member.size, extra);
      Put<uint64_t>(member.size, extra);
    }
    if (member.offset >= kIn64) Put<uint64_t>(member.offset, extra);
    Put<uint32_t>(kCentralSignature, directory);
    Put<uint16_t>(kVersion, directory);
    Put<uint16_t>(kVersion, directory);
    PutCommon(member.crc32, Short(member.size), directory);
    Put<uint16_t>(static_cast<uint16_t>(member.name.size()), directory);
    Put<uint16_t>(static_cast<uint16_t>(extra.empty() ? 0 : extra.size() + 4),
                  directory);
    Put<uint16_t>(0, directory);  // Comment.
    Put<uint16_t>(0, directory);  // Disk.
    Put<uint16_t>(0, directory);  // Internal attributes.
    Put<uint32_t>(0, directory);  // External attributes.
    Put<uint32_t>(Short(member.offset), directory);
    directory += member.name;
    if (extra.empty()) continue;
    Put<uint16_t>(kZip64Tag, directory);
    Put<uint16_t>(static_cast<uint16_t>(extra.size()), directory);
    directory += extra;
  }
  const uint64_t start = written_;
  std::string end;
  if (start + directory.size() >= kIn64) {
    Put<uint32_t>(kZip64EndSignature, end);
    Put<uint64_t>(44, end);  // Size of the rest of this record.
    Put<uint16_t>(kVersion, end);
    Put<uint16_t>(kVersion, end);
    Put<uint32_t>(0, end);
    Put<uint32_t>(0, end);
    Put<uint64_t>(members_.size(), end);
    Put<uint64_t>(members_.size(), end);
    Put<uint64_t>(directory.size(), end);
    Put<uint64_t>(start, end);
    Put<uint32_t>(kZip64LocatorSignature, end);
    Put<uint32_t>(0, end);
    Put<uint64_t>(start + directory.size(), end);
    Put<uint32_t>(1, end);
  }
  Put<uint32_t>(kEndSignature, end);
  Put<uint16_t>(0, end);
  Put<uint16_t>(0, end);
  Put<uint16_t>(static_cast<uint16_t>(members_.size()), end);
  Put<uint16_t>(static_cast<uint16_t>(members_.size()), end);
  Put<uint32_t>(static_cast<uint32_t>(directory.size()), end);
  Put<uint32_t>(Short(start), end);
  Put<uint16_t>(0, end);
  HEARTH_RETURN_IF_ERROR(Append(directory));
  HEARTH_RETURN_IF_ERROR(Append(end));
  HEARTH_RETURN_IF_ERROR(file_->Sync());
  return file_->Close();
}

absl::Status ZipWriter::Append(absl::string_view text) {
  written_ += text.size();
  return file_->Append(absl::MakeConstSpan(
      reinterpret_cast<const std::byte*>(text.data()), text.size()));
}

constexpr uint64_t kAlignment = 64;
constexpr std::array<const char*, 3> kSplitNames = {"train", "valid", "test"};
/// The version by which GraphBolt recognizes its own graphs.
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
    case store::DType::kScaledInt8:
      break;
  }
  return "";
}

/// Writes a pickle of protocol 2. Needs no memo, since nothing occurs twice.
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

  /// LONG1 of eight bytes: for every number of 0 or more.
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

TensorOutput IntegerTensor(ImportContext& context, std::string name,
                           store::DType dtype, ArrayReader& integers) {
  return {std::move(name),
          dtype,
          {integers.header().NumElements()},
          [&context, dtype, &integers](ByteSink& sink) {
            return WriteIntegers(context, integers, dtype, sink);
          }};
}

absl::Status WriteTorchSplit(ImportContext& context, SourceNodes& nodes,
                             OutputFolder& folder, const std::string& path) {
  std::vector<TensorOutput> parts;
  for (size_t i = 0; i < kSplitNames.size(); ++i) {
    parts.push_back(IntegerTensor(context, kSplitNames[i], store::DType::kInt64,
                                  *nodes.split[i]));
  }
  return WriteTorchDict(folder, path, parts);
}

}  // namespace hearth::ingest
