#ifndef HEARTH_KERNELS_CUDA_HEARTH_CUDA_H_
#define HEARTH_KERNELS_CUDA_HEARTH_CUDA_H_

#include <stddef.h>
#include <stdint.h>

/* The interface of libhearth_cuda.so: a versioned table of C functions, so that
 * nothing but this header ties the daemon to CUDA. The plug-in links the CUDA
 * runtime statically and needs the driver only once its functions are called:
 * without one, it loads, and they return an error.
 *
 * Functions return 0 or a CUDA error code, which `error_text` explains. Work
 * is queued on the stream that is given and no function waits for the device,
 * except where it says so. The calling thread's current device is left as it
 * was. Thread-safe; a stream or event may be used by one thread at a time. */

#ifdef __cplusplus
extern "C" {
#endif

/* Raised when a function is changed or removed; functions are only ever
 * appended to the table otherwise, which `table_bytes` tells. */
#define HEARTH_CUDA_VERSION 1

/* The error code of an allocation for which there is no memory. */
#define HEARTH_CUDA_OUT_OF_MEMORY 2

/* A stream and an event, each on one device. */
typedef struct HearthCudaStream HearthCudaStream;
typedef struct HearthCudaEvent HearthCudaEvent;

typedef enum HearthCudaElement {
  HEARTH_CUDA_FLOAT32 = 0,
  HEARTH_CUDA_FLOAT16 = 1,
  HEARTH_CUDA_BFLOAT16 = 2
} HearthCudaElement;

/* out[i] = row indices[i] of source, widened exactly to float32, for i < count.
 * All pointers must be reachable from the stream's device and aligned to their
 * elements; rows and output aligned to 16 bytes are faster. Indices are not
 * checked. */
typedef struct HearthCudaGather {
  const void* source; /* [any, dim] */
  HearthCudaElement element;
  int64_t dim;
  const int64_t* indices; /* [count] */
  int64_t count;
  float* out; /* [count, dim] */
} HearthCudaGather;

/* Row positions[i] of out = row slots[i] of rows, or row i where slots is null,
 * for i < count. */
typedef struct HearthCudaScatterPart {
  const void* rows;         /* [any, dim] */
  const int64_t* slots;     /* [count], or null */
  const int32_t* positions; /* [count] */
  int64_t count;
} HearthCudaScatterPart;

#define HEARTH_CUDA_SCATTER_PARTS 4

/* All parts at once, widened and with pointers as those of a gather. Parts in
 * host memory had better come first, since they take the longest. No position
 * may be named twice; rows of out that none names stay. */
typedef struct HearthCudaScatter {
  HearthCudaScatterPart parts[HEARTH_CUDA_SCATTER_PARTS]; /* may be empty */
  HearthCudaElement element;
  int64_t dim;
  float* out; /* [any, dim] */
} HearthCudaScatter;

typedef struct HearthCudaTable {
  uint32_t version;
  uint32_t table_bytes;

  /* A text that lives as long as the plug-in. */
  const char* (*error_text)(int error);

  int (*device_count)(int* count);
  /* At most `size` bytes with the terminating zero. */
  int (*device_name)(int device, char* name, size_t size);

  /* Device memory. Both may wait for the device. */
  int (*allocate)(int device, size_t bytes, void** memory);
  int (*release)(int device, void* memory);

  int (*stream_create)(int device, HearthCudaStream** stream);
  /* Work that was queued still runs. */
  int (*stream_destroy)(HearthCudaStream* stream);

  int (*event_create)(int device, HearthCudaEvent** event);
  int (*event_destroy)(HearthCudaEvent* event);
  /* The event happens once all work queued on `stream` so far is done. */
  int (*event_record)(HearthCudaEvent* event, HearthCudaStream* stream);
  /* Work queued on `stream` from now on waits until the event has happened. */
  int (*stream_wait_event)(HearthCudaStream* stream, HearthCudaEvent* event);
  /* The calling thread waits until the event has happened; returns what the
   * work before it failed with, if it did. */
  int (*event_synchronize)(HearthCudaEvent* event);

  /* From host or device to host or device. Pageable host memory makes the copy
   * wait. */
  int (*copy)(void* to, const void* from, size_t bytes,
              HearthCudaStream* stream);

  int (*gather_rows)(const HearthCudaGather* gather, HearthCudaStream* stream);

  int (*scatter_rows)(const HearthCudaScatter* scatter,
                      HearthCudaStream* stream);

  /* Host memory, aligned to a page, that `device` also reaches as it is, over
   * its bus, and that copies do not wait for. Both may wait for the device. */
  int (*allocate_pinned)(int device, size_t bytes, void** memory);
  int (*release_pinned)(int device, void* memory);
} HearthCudaTable;

/* The only symbol of the plug-in, under this name: the table of `version`, or
 * null if the plug-in has another. */
const HearthCudaTable* hearth_cuda_table(uint32_t version);

#define HEARTH_CUDA_TABLE_SYMBOL "hearth_cuda_table"

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* HEARTH_KERNELS_CUDA_HEARTH_CUDA_H_ */
