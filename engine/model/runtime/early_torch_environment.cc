// A program that links this file restarts itself with LibTorch's environment
// before any library is initialized: LibTorch's initialization takes 0.3 s,
// which a later restart would spend twice.

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
