// Starts the program that links this anew with LibTorch's environment before
// any library is initialized: LibTorch takes 0.3 s for that, which would
// otherwise be spent twice.

#include "engine/model/torch_environment.h"

namespace hearth::model {
namespace {

// Before AddressSanitizer and others have set themselves up, too.
__attribute__((no_sanitize("address", "thread", "undefined"))) void Start(
    int /*argc*/, char** argv, char** environment) {
  StartWithTorchEnvironment(argv, environment);
}

__attribute__((section(".preinit_array"),
               used)) void (*const kStart)(int, char**, char**) = Start;

}  // namespace
}  // namespace hearth::model
