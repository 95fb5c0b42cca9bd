// A program that links this starts anew with LibTorch's environment before any
// library is initialized. LibTorch takes 0.3 s for its initialization, which
// would otherwise be spent twice.

#include "engine/model/runtime/torch_startup.h"

namespace hearth::model {
namespace {

void Start(int /*argc*/, char** argv, char** environment) {
  StartWithTorchEnvironment(argv, environment);
}

__attribute__((section(".preinit_array"),
               used)) void (*const kStart)(int, char**, char**) = Start;

}  // namespace
}  // namespace hearth::model
