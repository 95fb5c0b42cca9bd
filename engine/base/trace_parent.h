#ifndef HEARTH_ENGINE_BASE_TRACE_PARENT_H_
#define HEARTH_ENGINE_BASE_TRACE_PARENT_H_

#include <string>

#include "absl/strings/string_view.h"

/// The "traceparent" entry by which a call tells what it is a part of (W3C
/// Trace Context): VERSION-TRACE-PARENT-FLAGS, in lower-case hexadecimal digits
/// of which TRACE has 32.

namespace hearth {

/// The trace of a traceparent; empty if `text` is none.
std::string TraceIdOf(absl::string_view text);

/// One of a new random trace, not sampled.
std::string NewTraceParent();

}  // namespace hearth

#endif  // HEARTH_ENGINE_BASE_TRACE_PARENT_H_
