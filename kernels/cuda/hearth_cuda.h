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
 * is queued on the given stream, and no function waits for the device unless
 * its comment says so. The calling thread's current device stays. Thread-safe;
 * a stream or event may be used by one thread at a time. */

#ifdef __cplusplus
extern "C" {
#endif

/* Raised when a function is changed or removed; functions are only ever
 * appended to the table otherwise, which `table_bytes` tells. */
#define HEARTH_CUDA_VERSION 2

/* Error code of an allocation when memory is short. */
#define HEARTH_CUDA_OUT_OF_MEMORY 2

/* A stream and an event, each on one device. */
typedef struct HearthCudaStream HearthCudaStream;
typedef struct HearthCudaEvent HearthCudaEvent;

typedef enum HearthCudaElement {
  HEARTH_CUDA_FLOAT32 = 0,
  HEARTH_CUDA_FLOAT16 = 1,
  HEARTH_CUDA_BFLOAT16 = 2,
  /* int8, with a float32 behind each row, of any alignment: its scale */
  HEARTH_CUDA_SCALED_INT8 = 3
} HearthCudaElement;

/* out[i] = row indices[i] of source, widened to float32, for i < count.
 * All pointers must be reachable from the stream's device and aligned to their
 * elements; rows and output aligned to 16 bytes are faster. Indices are not
 * checked. */
typedef struct HearthCudaGather {
  const void* source; /* [any, dim] */
  int32_t element;    /* a HearthCudaElement */
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

/* All parts at once, widened, with pointers as for a gather. Parts in host
 * memory should come first, since they take the longest. No position may occur
 * twice; rows of out without a position stay. */
typedef struct HearthCudaScatter {
  HearthCudaScatterPart parts[HEARTH_CUDA_SCATTER_PARTS]; /* may be empty */
  int32_t element; /* a HearthCudaElement */
  int64_t dim;
  float* out; /* [any, dim] */
} HearthCudaScatter;

/* Edges by row, on the device. Forward, rows are destinations and indices are
 * sources; transposed, rows are sources and indices are destinations. */
typedef struct HearthCudaEdges {
  const int64_t* indptr;  /* [num_rows + 1] ascending from 0 */
  const int32_t* indices; /* [num_edges] the row at each edge's other end */
  /* [num_edges] index of each edge in arrays with an entry for each edge, or
   * null if that is its index in `indices`. */
  const int64_t* edges;
  int64_t num_rows;
} HearthCudaEdges;

/* Group h of out[r] = the sum over the edges (s, e) of row r, in their order,
 * of weights[e, h] times group h of source[s]; zero without edges. */
typedef struct HearthCudaSum {
  HearthCudaEdges edges;
  const float* weights; /* [num_edges, heads] */
  const float* source;  /* [any, heads * channels] */
  int64_t heads;
  int64_t channels;
  float* out; /* [num_rows, heads * channels] */
} HearthCudaSum;

/* out[e, h] = the dot product of group h of own[r] and group h of other[s] for
 * each edge (s, e) of each row r. */
typedef struct HearthCudaDots {
  HearthCudaEdges edges;
  const float* own;   /* [num_rows, heads * channels] */
  const float* other; /* [any, heads * channels] */
  int64_t heads;
  int64_t channels;
  float* out; /* [num_edges, heads] */
} HearthCudaDots;

/* Inputs of the scores of edges: the score of edge (s, e) of row r and head h
 * is the sum over the head's channels of attention[h] times LeakyReLU (slope
 * 0.2) of group h of own[r] + other[s]. Rows of own and other begin `stride`
 * elements apart. */
typedef struct HearthCudaScored {
  HearthCudaEdges edges;
  const float* own;       /* [num_rows, stride] */
  const float* other;     /* [any, stride] */
  const float* attention; /* [heads, channels], or null: all are 1 */
  int64_t heads;
  int64_t channels;
  int64_t stride;
} HearthCudaScored;

/* Computes the scores. REQUIRES: scored.edges.edges is null. */
typedef struct HearthCudaScores {
  HearthCudaScored scored;
  float* scores; /* [num_edges, heads] */
} HearthCudaScores;

/* Softmax, in place: replaces `values` by their softmax over the edges of each
 * row, per head. Its gradient, in place: given `softmax`, replaces `values`,
 * the gradient by the softmax, by the gradient by its inputs. REQUIRES:
 * edges.edges is null. */
typedef struct HearthCudaSoftmax {
  HearthCudaEdges edges;
  int64_t heads;
  const float* softmax; /* [num_edges, heads]; for the gradient only */
  float* values;        /* [num_edges, heads] */
} HearthCudaSoftmax;

/* Given the gradient by the scores, [num_edges, heads]: the gradient by `own`
 * or `other`, whichever the rows of the edges are; and, unless null, the part
 * that the edges of each row add to the gradient by `attention`. */
typedef struct HearthCudaScoreGradient {
  HearthCudaScored scored;
  const float* by_scores;
  float* by_own;       /* [num_rows, scored.stride] */
  float* by_attention; /* [num_rows, heads * channels], or null */
  /* 0: by_own is written; otherwise the gradient is added to it. */
  int32_t adds;
} HearthCudaScoreGradient;

/* LeakyReLU of `slope` (0: ReLU), then dropout, in place. Which elements are
 * dropped depends on their indices alone. Words of Philox4x32-10 are drawn with
 * `key`, and counters that end with `nonce`, for tiles of 64 elements: word j
 * of block b decides on element 16 j + b. An element whose word is below
 * `threshold` is dropped; the others are multiplied by `scale`. */
typedef struct HearthCudaActivation {
  float slope;
  float scale;
  uint32_t threshold;
  uint32_t key[2];
  uint32_t nonce[2];
} HearthCudaActivation;

/* For `count` elements. Activation: activates `output` in place. Its gradient:
 * given the activated `output`, result = `gradient` through the activation. */
typedef struct HearthCudaActivate {
  HearthCudaActivation activation;
  int64_t count;
  float* output;
  const float* gradient; /* for the gradient only, as `result` */
  float* result;
} HearthCudaActivate;

/* The edges of one type, by destination, and how many of them a layer draws.
 * Destinations and sources are numbered from 0 within their types. */
typedef struct HearthCudaRelation {
  const int64_t* indptr; /* [destinations + 1] ascending from 0 */
  const void* indices;   /* [num_edges] sources, signed */
  int64_t num_edges;
  /* The numbers of the first destination and of the first source among the
   * nodes of all types. */
  int64_t first_destination;
  int64_t first_source;
  int64_t num_sources;
  uint64_t prefix;     /* of random draws (HearthCudaSampleLayer) */
  int32_t fanout;      /* negative: all edges are kept */
  int32_t index_bytes; /* bytes of an index: 4 or 8 */
} HearthCudaRelation;

/* A graph of one or several node and edge types, whose nodes share one
 * numbering. A node has a list of neighbors for each edge type that leads to
 * its type; all nodes have lists_per_node lists, some of which may be absent.
 * The arrays of relations may be in host memory; all others are on the device.
 */
typedef struct HearthCudaGraph {
  const HearthCudaRelation* relations; /* [num_relations] */
  /* Nodes of type t are type_firsts[t] .. type_firsts[t + 1] - 1. */
  const int64_t* type_firsts; /* [num_types + 1] ascending from 0 */
  /* The relation of each list of the nodes of a type; -1: absent. */
  const int32_t* lists; /* [num_types, lists_per_node] */
  int64_t num_nodes;
  int32_t num_relations;
  int32_t num_types;
  int32_t lists_per_node;
} HearthCudaGraph;

/* The position of each node met in a batch: a hash table with open addressing,
 * on the device. Element types are types of CUDA's atomic functions. */
typedef struct HearthCudaNodeTable {
  unsigned long long* nodes; /* [slots] */
  uint32_t* positions;       /* [slots] */
  int64_t slots; /* a power of two, at most 2^31, and more than nodes are met */
} HearthCudaNodeTable;

/* Place, on the device, of the first damage that was found in a graph; all
 * ones: none. The sampled batch is then invalid. */
typedef struct HearthCudaDamage {
  unsigned long long list; /* list l of the node at position i without bounds:
                            * i * lists_per_node + l */
  unsigned long long edge; /* an edge of the layer whose source is no node */
} HearthCudaDamage;

/* Fills `table` with the distinct `nodes`, position i for nodes[i]; sets
 * `damage` to none. */
typedef struct HearthCudaFillTable {
  HearthCudaNodeTable table;
  const int64_t* nodes; /* [count] */
  int64_t count;
  HearthCudaDamage* damage;
} HearthCudaFillTable;

/* Looks up the lists of the nodes at positions first .. count - 1, node by
 * node: where the edges of each list start in its relation, and how many they
 * are. */
typedef struct HearthCudaLookUp {
  HearthCudaGraph graph;
  const int64_t* nodes; /* [count] */
  int64_t first;
  int64_t count;
  int64_t* starts;     /* [count, graph.lists_per_node] */
  int64_t* degrees;    /* [count, graph.lists_per_node] */
  int64_t* in_degrees; /* [count] sum of each node's degrees, or null */
  HearthCudaDamage* damage;
} HearthCudaLookUp;

/* Elements of scratch memory to scan `count` numbers. */
#define HEARTH_CUDA_SCAN_SCRATCH(count) ((count) / 32 + 64)

/* indptr[l] = the number of edges that the lists before list l keep. A list
 * keeps all its edges, but at most the fan-out of its relation unless that is
 * negative. `lists` = count * graph.lists_per_node. */
typedef struct HearthCudaCountEdges {
  HearthCudaGraph graph;
  const int64_t* nodes;   /* [count] */
  const int64_t* degrees; /* [lists] */
  int64_t count;
  int64_t* indptr; /* [lists + 1] */
  /* [count + 1] indptr of the first list of each node, or null */
  int64_t* node_indptr;
  int64_t* scratch; /* [HEARTH_CUDA_SCAN_SCRATCH(lists + 1)] */
} HearthCudaCountEdges;

/* Draws the edges of a layer and numbers their sources.
 *
 * A list keeps all edges if they are at most the fan-out of its relation, or
 * that is negative. Other lists draw a subset (Floyd's algorithm), with
 * words of Philox4x32-10 under `key`: where x = mix(prefix ^ (layer << 48 |
 * node)), of counters (0, 1, ...; low and high half of x; low half of mix(x)),
 * mix being the finalizer of SplitMix64 after its increment. Edges are in the
 * order of their lists and, within a list, in the order of the relation.
 * Sources that were not met before get the next positions, in the order of the
 * edges. */
typedef struct HearthCudaSampleLayer {
  HearthCudaGraph graph;
  const int64_t* starts;  /* [num_destinations, graph.lists_per_node] */
  const int64_t* degrees; /* [num_destinations, graph.lists_per_node] */
  int64_t num_destinations;
  uint32_t key[2];
  uint64_t layer;
  const int64_t* indptr; /* of HearthCudaCountEdges */
  int64_t num_edges;     /* below 2^32, together with num_destinations */
  HearthCudaNodeTable table;
  /* Nodes at positions below num_destinations; new nodes are appended, for
   * which the array must have room. */
  int64_t* nodes;
  int32_t* indices; /* [num_edges] the position of each edge's source */
  int64_t* sources; /* [num_edges] scratch; sources on return */
  /* [num_edges] each edge's relation; null if there is only one. */
  uint16_t* edge_relations;
  /* [num_edges + 1 + HEARTH_CUDA_SCAN_SCRATCH(num_edges + 1)] scratch; the
   * element at num_edges is then how many nodes are new. */
  uint32_t* ranks;
  HearthCudaDamage* damage;
} HearthCudaSampleLayer;

typedef struct HearthCudaTable {
  uint32_t version;
  uint32_t table_bytes;

  /* A text that lives as long as the plug-in. */
  const char* (*error_text)(int error);

  int (*device_count)(int* count);
  /* At most `size` bytes with the terminating zero. */
  int (*device_name)(int device, char* name, size_t size);

  /* Device memory. Both functions may wait for the device. */
  int (*allocate)(int device, size_t bytes, void** memory);
  int (*release)(int device, void* memory);

  int (*stream_create)(int device, HearthCudaStream** stream);
  /* Queued work still runs. */
  int (*stream_destroy)(HearthCudaStream* stream);

  int (*event_create)(int device, HearthCudaEvent** event);
  int (*event_destroy)(HearthCudaEvent* event);
  /* The event happens once all work queued on `stream` so far is done. */
  int (*event_record)(HearthCudaEvent* event, HearthCudaStream* stream);
  /* Work queued on `stream` from now on waits until the event has happened. */
  int (*stream_wait_event)(HearthCudaStream* stream, HearthCudaEvent* event);
  /* The calling thread waits until the event has happened; returns the error of
   * the work before it, if it failed. */
  int (*event_synchronize)(HearthCudaEvent* event);

  /* From host or device to host or device. Pageable host memory makes the copy
   * wait. */
  int (*copy)(void* to, const void* from, size_t bytes,
              HearthCudaStream* stream);

  int (*gather_rows)(const HearthCudaGather* gather, HearthCudaStream* stream);

  int (*scatter_rows)(const HearthCudaScatter* scatter,
                      HearthCudaStream* stream);

  /* Host memory, aligned to a page, that `device` reaches in place, over its
   * bus, and that copies do not wait for. Both functions may wait for the
   * device. */
  int (*allocate_pinned)(int device, size_t bytes, void** memory);
  int (*release_pinned)(int device, void* memory);

  /* Wraps a stream of the CUDA runtime (cudaStream_t) on `device`.
   * stream_destroy does not destroy the wrapped stream. */
  int (*stream_wrap)(int device, void* native, HearthCudaStream** stream);

  /* Operations of models, along edges and between layers. Every element is
   * computed by one thread in a fixed order, so that results repeat bit for
   * bit. All pointers must be reachable from the stream's device. */
  int (*sum_edges)(const HearthCudaSum* sum, HearthCudaStream* stream);
  int (*dot_edges)(const HearthCudaDots* dots, HearthCudaStream* stream);
  int (*score_edges)(const HearthCudaScores* scores, HearthCudaStream* stream);
  int (*softmax_edges)(const HearthCudaSoftmax* softmax,
                       HearthCudaStream* stream);
  int (*softmax_gradient)(const HearthCudaSoftmax* softmax,
                          HearthCudaStream* stream);
  int (*score_gradient)(const HearthCudaScoreGradient* gradient,
                        HearthCudaStream* stream);
  int (*activate)(const HearthCudaActivate* activate, HearthCudaStream* stream);
  int (*activation_gradient)(const HearthCudaActivate* activate,
                             HearthCudaStream* stream);

  /* Free and total bytes of the device's memory. Makes the process known to the
   * device, which takes some memory. */
  int (*memory_info)(int device, size_t* free_bytes, size_t* total_bytes);

  /* Pins host memory that somebody else owns, so that `device` reaches it in
   * place, over its bus, until it is unregistered, which must be before it is
   * freed. Registered ranges must not overlap. Both functions may wait for the
   * device. */
  int (*host_register)(int device, void* memory, size_t bytes);
  int (*host_unregister)(int device, void* memory);

  /* The steps of sampling a batch. Nodes are numbered in the order in which
   * they are met, so that results repeat bit for bit. All pointers must be
   * reachable from the stream's device. */
  int (*fill_table)(const HearthCudaFillTable* fill, HearthCudaStream* stream);
  int (*look_up_nodes)(const HearthCudaLookUp* look_up,
                       HearthCudaStream* stream);
  int (*count_edges)(const HearthCudaCountEdges* count,
                     HearthCudaStream* stream);
  int (*sample_layer)(const HearthCudaSampleLayer* layer,
                      HearthCudaStream* stream);
} HearthCudaTable;

/* The only symbol of the plug-in (HEARTH_CUDA_TABLE_SYMBOL): the table of
 * `version`, or null if the plug-in has another version. */
const HearthCudaTable* hearth_cuda_table(uint32_t version);

#define HEARTH_CUDA_TABLE_SYMBOL "hearth_cuda_table"

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* HEARTH_KERNELS_CUDA_HEARTH_CUDA_H_ */
