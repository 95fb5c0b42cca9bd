#include "engine/store/npy.h"

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/escaping.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "engine/base/status.h"
#include "engine/store/array_type.h"

// The format: "\x93NUMPY", major and minor version, the length of the rest of
// the header (2 bytes little-endian in version 1, else 4), a Python dictionary
// padded with spaces and ended by a newline, the elements.

namespace hearth::store {

namespace {

// The dictionary in the header of an .npy file.
struct NpyDictionary {
  std::string descr;
  bool fortran_order = false;
  std::vector<int64_t> shape;
};

// numpy's own limit.
constexpr size_t kMaxDimensions = 32;

class Parser {
 public:
  explicit Parser(absl::string_view text) : text_(text) {}

  absl::StatusOr<NpyDictionary> Parse() {
    if (!Take('{')) return Malformed("'{'");
    while (!Take('}')) {
      HEARTH_RETURN_IF_ERROR(ParseItem());
      if (Take('}')) break;
      if (!Take(',')) return Malformed("',' or '}'");
    }
    SkipSpace();
    if (position_ != text_.size()) return Malformed("nothing more");
    for (const char* key : {"descr", "fortran_order", "shape"}) {
      if (keys_.count(key) == 0) {
        return absl::InvalidArgumentError(
            absl::StrCat("the header lacks '", key, "'"));
      }
    }
    return std::move(dictionary_);
  }

 private:
  absl::Status ParseItem() {
    HEARTH_ASSIGN_OR_RETURN(const std::string key, ParseString());
    if (!Take(':')) return Malformed("':'");
    if (!keys_.insert(key).second) {
      return absl::InvalidArgumentError(
          absl::StrCat("the header has '", absl::CEscape(key), "' twice"));
    }
    if (key == "descr") return ParseDescr();
    if (key == "fortran_order") return ParseBool();
    if (key == "shape") return ParseShape();
    return absl::InvalidArgumentError(
        absl::StrCat("the header has an unknown '", absl::CEscape(key), "'"));
  }

  absl::Status ParseDescr() {
    SkipSpace();
    if (position_ < text_.size() && text_[position_] == '[') {
      return absl::InvalidArgumentError(
          "has a structured element type; plain numbers are needed");
    }
    HEARTH_ASSIGN_OR_RETURN(dictionary_.descr, ParseString());
    return absl::OkStatus();
  }

  absl::Status ParseBool() {
    SkipSpace();
    if (TakeWord("True")) {
      dictionary_.fortran_order = true;
    } else if (TakeWord("False")) {
      dictionary_.fortran_order = false;
    } else {
      return Malformed("True or False");
    }
    return absl::OkStatus();
  }

  absl::Status ParseShape() {
    if (!Take('(')) return Malformed("'('");
    while (!Take(')')) {
      HEARTH_ASSIGN_OR_RETURN(const int64_t dimension, ParseDimension());
      dictionary_.shape.push_back(dimension);
      if (dictionary_.shape.size() > kMaxDimensions) {
        return absl::InvalidArgumentError(
            absl::StrCat("has more than ", kMaxDimensions, " dimensions"));
      }
      if (Take(')')) {
        // In Python, (3) is a number.
        if (dictionary_.shape.size() == 1) return Malformed("',' before ')'");
        break;
      }
      if (!Take(',')) return Malformed("',' or ')'");
    }
    return absl::OkStatus();
  }

  absl::StatusOr<int64_t> ParseDimension() {
    SkipSpace();
    size_t end = position_;
    while (end < text_.size() && absl::ascii_isdigit(text_[end])) ++end;
    const absl::string_view digits = text_.substr(position_, end - position_);
    if (digits.empty()) return Malformed("a number of elements");
    int64_t value = 0;
    if (!absl::SimpleAtoi(digits, &value)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "has a dimension of ", digits.substr(0, 40), " elements"));
    }
    position_ = end;
    // Python 2 wrote long integers so.
    TakeWord("L");
    return value;
  }

  absl::StatusOr<std::string> ParseString() {
    SkipSpace();
    if (position_ >= text_.size()) return Malformed("a string");
    const char quote = text_[position_];
    if (quote != '\'' && quote != '"') return Malformed("a string");
    const size_t end = text_.find(quote, position_ + 1);
    if (end == absl::string_view::npos) return Malformed("a whole string");
    const absl::string_view value =
        text_.substr(position_ + 1, end - position_ - 1);
    if (absl::StrContains(value, '\\')) {
      return Malformed("a string without escapes");
    }
    position_ = end + 1;
    return std::string(value);
  }

  void SkipSpace() {
    while (position_ < text_.size() && absl::ascii_isspace(text_[position_])) {
      ++position_;
    }
  }

  bool Take(char wanted) {
    SkipSpace();
    return TakeWord(absl::string_view(&wanted, 1));
  }

  bool TakeWord(absl::string_view wanted) {
    if (!absl::StartsWith(text_.substr(position_), wanted)) return false;
    position_ += wanted.size();
    return true;
  }

  absl::Status Malformed(absl::string_view expected) const {
    return absl::InvalidArgumentError(absl::StrCat(
        "the header has \"", absl::CEscape(text_.substr(position_, 20)),
        "\" at ", position_, " where ", expected, " should be"));
  }

  const absl::string_view text_;
  size_t position_ = 0;
  std::set<std::string> keys_;
  NpyDictionary dictionary_;
};

// Parses a Python literal such as
// {'descr': '<f4', 'fortran_order': False, 'shape': (3, 4), }
// with exactly these three keys, in any order. INVALID_ARGUMENT with the
// position of the first character that does not fit. Nothing is evaluated.
absl::StatusOr<NpyDictionary> ParseNpyDictionary(absl::string_view text) {
  return Parser(text).Parse();
}

constexpr absl::string_view kMagic("\x93NUMPY", 6);
constexpr uint64_t kShortPrelude = 10;
constexpr uint64_t kLongPrelude = 12;

constexpr std::array<ElementType, 12> kReadableTypes = {{
    {ElementType::Kind::kBool, 1},
    {ElementType::Kind::kInt, 1},
    {ElementType::Kind::kInt, 2},
    {ElementType::Kind::kInt, 4},
    {ElementType::Kind::kInt, 8},
    {ElementType::Kind::kUint, 1},
    {ElementType::Kind::kUint, 2},
    {ElementType::Kind::kUint, 4},
    {ElementType::Kind::kUint, 8},
    {ElementType::Kind::kFloat, 2},
    {ElementType::Kind::kFloat, 4},
    {ElementType::Kind::kFloat, 8},
}};

char CodeOf(ElementType::Kind kind) {
  switch (kind) {
    case ElementType::Kind::kBool:
      return 'b';
    case ElementType::Kind::kInt:
      return 'i';
    case ElementType::Kind::kUint:
      return 'u';
    case ElementType::Kind::kFloat:
      return 'f';
    case ElementType::Kind::kBFloat:
      break;  // numpy has no code for it.
  }
  return '?';
}

absl::StatusOr<ElementType> ParseDescr(const std::string& descr) {
  const std::string shown = absl::StrCat("\"", absl::CEscape(descr), "\"");
  if (absl::StrContains(descr, 'O')) {
    return absl::InvalidArgumentError(
        absl::StrCat("is an object array (", shown, "), which is never read"));
  }
  for (const ElementType type : kReadableTypes) {
    const std::string code =
        absl::StrCat(std::string(1, CodeOf(type.kind)), type.item_bytes);
    const bool one_byte = type.item_bytes == 1;
    if (descr == absl::StrCat("<", code)) return type;
    if (one_byte && descr == absl::StrCat("|", code)) return type;
    if (!one_byte && descr == absl::StrCat(">", code)) {
      return absl::InvalidArgumentError(absl::StrCat(
          "is big-endian (", shown, "); write it with little-endian elements"));
    }
  }
  return absl::InvalidArgumentError(absl::StrCat(
      "has elements of type ", shown,
      "; readable are bool and little-endian int, uint and float of up to 8 "
      "bytes"));
}

const char* AsChars(const std::byte* bytes) {
  return reinterpret_cast<const char*>(bytes);
}

uint64_t LittleEndian(absl::Span<const std::byte> bytes) {
  uint64_t value = 0;
  for (size_t i = bytes.size(); i > 0; --i) {
    value = value << 8 | std::to_integer<uint64_t>(bytes[i - 1]);
  }
  return value;
}

/// Place of the dictionary in the file.
struct Extent {
  uint64_t begin = 0;
  uint64_t size = 0;
};

absl::StatusOr<Extent> ReadPrelude(io::ReadableFile& file, uint64_t file_size) {
  std::array<std::byte, kLongPrelude> prelude{};
  const uint64_t count = std::min(file_size, kLongPrelude);
  HEARTH_RETURN_IF_ERROR(file.Read(0, absl::MakeSpan(prelude).first(count)));
  const absl::string_view start(AsChars(prelude.data()),
                                std::min<uint64_t>(count, kMagic.size()));
  if (!absl::StartsWith(kMagic, start)) {
    return absl::InvalidArgumentError(
        "is not an .npy file: it begins with other bytes");
  }
  const int major = std::to_integer<int>(prelude[6]);
  const int minor = std::to_integer<int>(prelude[7]);
  const uint64_t begin = major == 1 ? kShortPrelude : kLongPrelude;
  if (file_size < begin) {
    return absl::DataLossError(absl::StrCat("is truncated: ", file_size,
                                            " bytes do not hold a header"));
  }
  if (major < 1 || major > 3 || minor != 0) {
    return absl::InvalidArgumentError(absl::StrCat(
        "has .npy version ", major, ".", minor, "; readable are 1.0 to 3.0"));
  }
  return Extent{begin,
                LittleEndian(absl::MakeSpan(prelude).subspan(8, begin - 8))};
}

absl::StatusOr<std::string> ReadDictionary(io::ReadableFile& file,
                                           uint64_t file_size, Extent extent) {
  if (extent.size > kMaxNpyHeaderBytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("has a header of ", extent.size, " bytes; at most ",
                     kMaxNpyHeaderBytes, " are read"));
  }
  if (extent.size > file_size - extent.begin) {
    return absl::DataLossError(
        absl::StrCat("is truncated within its header, at byte ", file_size));
  }
  std::string text(extent.size, '\0');
  HEARTH_RETURN_IF_ERROR(file.Read(
      extent.begin,
      absl::MakeSpan(reinterpret_cast<std::byte*>(text.data()), text.size())));
  return text;
}

absl::Status CheckSize(const ArrayHeader& header, uint64_t file_size) {
  const std::string what = absl::StrCat("shape ", FormatShape(header.shape),
                                        " of ", Name(header.type));
  const auto bytes = ArrayBytes(header.shape, header.type.item_bytes);
  if (!bytes.has_value()) {
    return absl::InvalidArgumentError(
        absl::StrCat("is impossibly large: ", what));
  }
  const uint64_t present = file_size - header.data_offset;
  const auto wanted = static_cast<uint64_t>(*bytes);
  if (present < wanted) {
    return absl::DataLossError(absl::StrCat("is truncated: ", what, " takes ",
                                            wanted, " bytes after the header, ",
                                            present, " are there"));
  }
  if (present > wanted) {
    return absl::InvalidArgumentError(absl::StrCat(
        "has ", present - wanted, " bytes beyond its elements: ", what,
        " ends at byte ", header.data_offset + wanted));
  }
  return absl::OkStatus();
}

absl::StatusOr<ArrayHeader> ReadUnnamed(io::ReadableFile& file) {
  HEARTH_ASSIGN_OR_RETURN(const io::FileInfo info, file.Info());
  HEARTH_ASSIGN_OR_RETURN(const Extent extent,
                          ReadPrelude(file, info.size_bytes));
  HEARTH_ASSIGN_OR_RETURN(const std::string text,
                          ReadDictionary(file, info.size_bytes, extent));
  HEARTH_ASSIGN_OR_RETURN(NpyDictionary dictionary, ParseNpyDictionary(text));
  ArrayHeader header;
  HEARTH_ASSIGN_OR_RETURN(header.type, ParseDescr(dictionary.descr));
  header.fortran_order = dictionary.fortran_order;
  header.shape = std::move(dictionary.shape);
  header.data_offset = extent.begin + extent.size;
  HEARTH_RETURN_IF_ERROR(CheckSize(header, info.size_bytes));
  return header;
}

const char* DescrOf(DType dtype) {
  switch (dtype) {
    case DType::kFloat32:
      return "<f4";
    case DType::kFloat16:
      return "<f2";
    case DType::kBFloat16:
      return "<u2";
    case DType::kInt32:
      return "<i4";
    case DType::kInt64:
      return "<i8";
    case DType::kUint8:
      return "|u1";
    case DType::kScaledInt8:
      break;  // Written as uint8, scales included (converted_rows.h).
  }
  return "";
}

}  // namespace

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

absl::StatusOr<ArrayHeader> ReadNpyHeader(io::ReadableFile& file) {
  absl::StatusOr<ArrayHeader> header = ReadUnnamed(file);
  const absl::Status& status = header.status();
  if (absl::IsInvalidArgument(status) || absl::IsDataLoss(status)) {
    return Annotate(status, file.path());
  }
  return header;
}

std::string FormatNpyHeader(DType dtype, absl::Span<const int64_t> shape,
                            uint64_t alignment) {
  std::string dictionary = absl::StrCat(
      "{'descr': '", DescrOf(dtype),
      "', 'fortran_order': False, 'shape': ", FormatShape(shape), ", }");
  const uint64_t needed = kShortPrelude + dictionary.size() + 1;
  const uint64_t size = (needed + alignment - 1) / alignment * alignment;
  dictionary.resize(size - kShortPrelude - 1, ' ');
  const uint64_t length = size - kShortPrelude;
  return absl::StrCat(kMagic, absl::string_view("\x01\x00", 2),
                      std::string(1, static_cast<char>(length & 0xFF)),
                      std::string(1, static_cast<char>(length >> 8)),
                      dictionary, "\n");
}

}  // namespace hearth::store
