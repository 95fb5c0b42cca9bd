#include "client/request_id.h"

#include <random>

#include "absl/strings/str_format.h"

namespace hearth::client {

std::string NewRequestId() {
  std::random_device random;
  const uint32_t version_word = (random() & 0xffff0fffu) | 0x4000u;
  const uint32_t variant_word = (random() & 0x3fffffffu) | 0x80000000u;
  return absl::StrFormat("%08x-%04x-%04x-%04x-%04x%08x", random(),
                         version_word >> 16, version_word & 0xffffu,
                         variant_word >> 16, variant_word & 0xffffu, random());
}

}  // namespace hearth::client
