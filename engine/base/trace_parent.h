#ifndef HEARTH_ENGINE_BASE_TRACE_PARENT_H_
#define HEARTH_ENGINE_BASE_TRACE_PARENT_H_

#include <string>

#include "absl/strings/string_view.h"

/// The "traceparent" metadata by which a call names the trace that it belongs
/// to (W3C Trace Context): VERSION-TRACE-PARENT-FLAGS in lower-case hexadecimal
/// digits; TRACE has 32 digits.

namespace hearth {

/// TRACE of a traceparent; empty if `text` is not one.
std::string TraceIdOf(absl::string_view text);

/// A traceparent of a new random trace, with the flag "sampled" off.
std::string NewTraceParent();

}  // namespace hearth

#endif  // HEARTH_ENGINE_BASE_TRACE_PARENT_H_
