#ifndef HEARTH_ENGINE_INGEST_FORMATS_ARRAY_CONF_H_
#define HEARTH_ENGINE_INGEST_FORMATS_ARRAY_CONF_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "engine/io/file_system.h"
#include "engine/store/array_header.h"
#include "nlohmann/json.hpp"

namespace hearth::ingest {

/// A conf.json that describes arrays without headers beside it: num_nodes, and
/// for an array NAME_shape and NAME_dtype. Errors are INVALID_ARGUMENT and name
/// file and field.
class ArrayConf {
 public:
  /// Reads at most 64 KiB.
  static absl::StatusOr<ArrayConf> Read(io::FileSystem& files,
                                        const std::string& path);

  int64_t num_nodes() const { return num_nodes_; }

  /// The array `name`; its type is called as numpy calls it, perhaps with
  /// `prefix` before.
  absl::StatusOr<store::ArrayHeader> Header(
      const std::string& name, absl::string_view prefix = "") const;

  /// A field of whole numbers of 0 or more.
  absl::StatusOr<int64_t> Number(const char* name) const;

 private:
  ArrayConf(std::string path, nlohmann::json fields)
      : path_(std::move(path)), fields_(std::move(fields)) {}

  std::string path_;
  nlohmann::json fields_;
  int64_t num_nodes_ = 0;
};

}  // namespace hearth::ingest

#endif  // HEARTH_ENGINE_INGEST_FORMATS_ARRAY_CONF_H_
