#include "engine/job/interface/observer.h"

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"

namespace hearth::job {

strategy::PreparationListener ListenFor(Observer& observer) {
  return {
      .log =
          [&observer](const std::string& text) {
            observer.OnLog(Severity::kInfo, text);
          },
      .progress =
          [&observer](absl::string_view phase, uint64_t done, uint64_t total) {
            observer.OnProgress({.phase = std::string(phase),
                                 .done = done,
                                 .total = total,
                                 .loss = {}});
          },
      .durable = [&observer] { observer.OnDurable(); }};
}

}  // namespace hearth::job
