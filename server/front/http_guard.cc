#include "server/front/http_guard.h"

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"

namespace hearth::server {
namespace {

constexpr absl::string_view kEnd = "\r\n\r\n";

class HttpGuard final : public Guard {
 public:
  absl::Status OnClientBytes(absl::string_view bytes) override {
    bytes_ += bytes.size();
    for (const char c : bytes) {
      if (matched_ == kEnd.size()) break;
      matched_ = c == kEnd[matched_] ? matched_ + 1 : (c == kEnd[0] ? 1 : 0);
    }
    if (bytes_ <= kMaxHttpRequestBytes) return absl::OkStatus();
    return absl::ResourceExhaustedError(absl::StrCat(
        "its request has more than ", kMaxHttpRequestBytes, " bytes"));
  }

  absl::Status OnServerBytes(absl::string_view) override {
    return absl::OkStatus();
  }

  bool HasOpened() const override { return matched_ == kEnd.size(); }
  // It has asked, and gets its answer.
  bool IsIdle() const override { return false; }

 private:
  size_t bytes_ = 0;
  // Bytes of kEnd that came last.
  size_t matched_ = 0;
};

}  // namespace

std::unique_ptr<Guard> NewHttpGuard() { return std::make_unique<HttpGuard>(); }

}  // namespace hearth::server
