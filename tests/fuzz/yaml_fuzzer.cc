#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "client/cli/options/option_values.h"

// Job files.
extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  static const std::vector<std::string> known = {"batch-size", "fanout",
                                                 "dataset", "epochs"};
  hearth::cli::ParseYamlOptions(
      std::string(reinterpret_cast<const char*>(data), size), "job.yaml", known)
      .IgnoreError();
  return 0;
}
