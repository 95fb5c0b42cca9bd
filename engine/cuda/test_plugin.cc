// Plug-ins for device_test: BUILD defines what each has.

#include <cstdint>
#include <cstdio>

#include "kernels/cuda/hearth_cuda.h"

namespace {

const char* ErrorText(int /*error*/) { return "no driver today"; }

int DeviceCount(int* count) {
  *count = TEST_DEVICES;
  return TEST_DEVICES_ERROR;
}

int DeviceName(int device, char* name, size_t size) {
  std::snprintf(name, size, "test device %d", device);
  return 0;
}

HearthCudaTable Table() {
  HearthCudaTable table = {};
  table.version = HEARTH_CUDA_VERSION;
  table.table_bytes = sizeof(HearthCudaTable) - TEST_MISSING_BYTES;
  table.error_text = ErrorText;
  table.device_count = DeviceCount;
  table.device_name = DeviceName;
  return table;
}

}  // namespace

extern "C" __attribute__((visibility("default"))) const HearthCudaTable*
TEST_SYMBOL(uint32_t version) {
  static const HearthCudaTable table = Table();
  return version == TEST_VERSION ? &table : nullptr;
}
