#include "engine/base/catch_exceptions.h"

#include <exception>
#include <new>

#include "absl/strings/str_cat.h"

namespace hearth {

absl::Status CatchExceptions(absl::FunctionRef<absl::Status()> call) {
  try {
    return call();
  } catch (const std::bad_alloc&) {
    return absl::ResourceExhaustedError("out of memory");
  } catch (const std::exception& error) {
    return absl::InternalError(absl::StrCat("exception: ", error.what()));
  } catch (...) {
    return absl::InternalError("an exception of unknown type");
  }
}

}  // namespace hearth
