#ifndef HEARTH_ENGINE_BASE_STATUS_MACROS_H_
#define HEARTH_ENGINE_BASE_STATUS_MACROS_H_

#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"

/// Returns from the enclosing function if `expression`, an absl::Status, is an
/// error.
#define HEARTH_RETURN_IF_ERROR(expression)                                  \
  do {                                                                      \
    if (absl::Status hearth_status_ = (expression); !hearth_status_.ok()) { \
      return hearth_status_;                                                \
    }                                                                       \
  } while (false)

/// Evaluates `expression`, an absl::StatusOr<T>; assigns its value to `target`
/// (which may declare a variable) or returns its error.
#define HEARTH_ASSIGN_OR_RETURN(target, expression)                        \
  HEARTH_ASSIGN_OR_RETURN_IMPL_(HEARTH_CONCATENATE_(hearth_or_, __LINE__), \
                                target, expression)

#define HEARTH_ASSIGN_OR_RETURN_IMPL_(statusor, target, expression) \
  auto statusor = (expression);                                     \
  if (!statusor.ok()) return std::move(statusor).status();          \
  target = *std::move(statusor)

#define HEARTH_CONCATENATE_(a, b) HEARTH_CONCATENATE_IMPL_(a, b)
#define HEARTH_CONCATENATE_IMPL_(a, b) a##b

#endif  // HEARTH_ENGINE_BASE_STATUS_MACROS_H_
