#ifndef HEARTH_ENGINE_BASE_CATCH_EXCEPTIONS_H_
#define HEARTH_ENGINE_BASE_CATCH_EXCEPTIONS_H_

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"

namespace hearth {

/// Calls `call` and returns its status, or that of the exception that it threw:
/// RESOURCE_EXHAUSTED for a lack of memory, INTERNAL with its text for any
/// other. At the root of every thread, where an exception would end the
/// process.
absl::Status CatchExceptions(absl::FunctionRef<absl::Status()> call);

}  // namespace hearth

#endif  // HEARTH_ENGINE_BASE_CATCH_EXCEPTIONS_H_
