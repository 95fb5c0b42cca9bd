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
#define HEARTH_CUDA_VERSION 2

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

/* Edges by row, on the device. Forward, rows are destinations, and indices name
 * sources; transposed, it is the other way round. */
typedef struct HearthCudaEdges {
  const int64_t* indptr;  /* [num_rows + 1] ascending from 0 */
  const int32_t* indices; /* [num_edges] the row at each edge's other end */
  /* [num_edges] where each edge stands in arrays with an entry for each edge,
   * or null: at its own place. */
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

/* What the score of an edge depends on: that of head h is attention[h] times
 * LeakyReLU (slope 0.2) of group h of own[r] + other[s], summed over its
 * channels. A row of own or other begins `stride` elements after the last. */
typedef struct HearthCudaScored {
  HearthCudaEdges edges;
  const float* own;       /* [num_rows, stride] */
  const float* other;     /* [any, stride] */
  const float* attention; /* [heads, channels], or null: all are 1 */
  int64_t heads;
  int64_t channels;
  int64_t stride;
} HearthCudaScored;

/* For edges that stand at their own places. */
typedef struct HearthCudaScores {
  HearthCudaScored scored;
  float* scores; /* [num_edges, heads] */
} HearthCudaScores;

/* Values for each edge and head, for edges that stand at their own places:
 * their softmax over the edges of each row takes their place; or, for the
 * softmax and the gradient by it, the gradient by the values takes the
 * latter's. */
typedef struct HearthCudaSoftmax {
  HearthCudaEdges edges;
  int64_t heads;
  const float* softmax; /* [num_edges, heads]; of the gradient alone */
  float* values;        /* [num_edges, heads] */
} HearthCudaSoftmax;

/* For the gradient by the scores, [num_edges, heads]: that by `own` or `other`,
 * whichever the rows of the edges are, and where it is wanted what each row's
 * edges add to that by `attention`. */
typedef struct HearthCudaScoreGradient {
  HearthCudaScored scored;
  const float* by_scores;
  float* by_own;       /* [num_rows, scored.stride] */
  float* by_attention; /* [num_rows, heads * channels], or null */
  /* Whether by_own is added to, instead of written. */
  int32_t adds;
} HearthCudaScoreGradient;

/* LeakyReLU of that slope (0: ReLU), then dropout, in place; the pattern of
 * what is dropped depends on the elements' places alone. Words of Philox4x32-10
 * are drawn with `key`, and counters that end with `nonce`, for tiles of 64
 * elements: word j of block b decides on element 16 j + b. Below `threshold`,
 * an element is dropped: none is where it is 0. The others are multiplied with
 * `scale`. */
typedef struct HearthCudaActivation {
  float slope;
  float scale;
  uint32_t threshold;
  uint32_t key[2];
  uint32_t nonce[2];
} HearthCudaActivation;

/* For `count` elements: activates `output` in place; or, where `output` is what
 * that gave, `result` = the gradient through it of `gradient`. */
typedef struct HearthCudaActivate {
  HearthCudaActivation activation;
  int64_t count;
  float* output;
  const float* gradient; /* of the gradient alone, as `result` is */
  float* result;
} HearthCudaActivate;

/* The edges of one type, by destination, and how many of them a layer draws.
 * Destinations, and sources, are numbered from 0 within their type. */
typedef struct HearthCudaRelation {
  const int64_t* indptr; /* [destinations + 1] ascending from 0 */
  const void* indices;   /* [num_edges] sources, signed */
  int64_t num_edges;
  /* The numbers of the first destination and of the first source among the
   * nodes of all types. */
  int64_t first_destination;
  int64_t first_source;
  int64_t num_sources;
  uint64_t prefix;     /* of draws (HearthCudaSampleLayer) */
  int32_t fanout;      /* negative: all edges are kept */
  int32_t index_bytes; /* of each: 4 or 8 */
} HearthCudaRelation;

/* A graph of one node type and one edge type, or of several, whose nodes share
 * one numbering. A node has a list of neighbors for each edge type that leads
 * to its type; all nodes have as many lists, of which some may be none. All
 * arrays are on the device but for those that relations name. */
typedef struct HearthCudaGraph {
  const HearthCudaRelation* relations; /* [num_relations] */
  /* Nodes of type t are those from type_firsts[t] up to type_firsts[t + 1]. */
  const int64_t* type_firsts; /* [num_types + 1] ascending from 0 */
  /* The relation of each list of the nodes of a type; -1: there is none. */
  const int32_t* lists; /* [num_types, lists_per_node] */
  int64_t num_nodes;
  int32_t num_relations;
  int32_t num_types;
  int32_t lists_per_node;
} HearthCudaGraph;

/* The position of each node met in a batch: a hash table with open addressing,
 * on the device. Its types are those that a GPU has atomic functions for. */
typedef struct HearthCudaNodeTable {
  unsigned long long* nodes; /* [slots] */
  uint32_t* positions;       /* [slots] */
  int64_t slots; /* a power of two, at most 2^31, and more than nodes are met */
} HearthCudaNodeTable;

/* Where a graph that leads out of itself was noticed first, on the device; all
 * ones: nowhere. What was sampled since is of no use then. */
typedef struct HearthCudaDamage {
  unsigned long long list; /* list l of the node at position i without bounds:
                            * i * lists_per_node + l */
  unsigned long long edge; /* an edge of the layer whose source is no node */
} HearthCudaDamage;

/* Makes `table` one in which nodes[i], all of them distinct, has position i,
 * and of no other node; sets `damage` to none. */
typedef struct HearthCudaFillTable {
  HearthCudaNodeTable table;
  const int64_t* nodes; /* [count] */
  int64_t count;
  HearthCudaDamage* damage;
} HearthCudaFillTable;

/* For the lists of nodes at positions `first` up to `count`, one node's after
 * the other's: where each one's edges start in its relation, and how many there
 * are. */
typedef struct HearthCudaLookUp {
  HearthCudaGraph graph;
  const int64_t* nodes; /* [count] */
  int64_t first;
  int64_t count;
  int64_t* starts;     /* [count, graph.lists_per_node] */
  int64_t* degrees;    /* [count, graph.lists_per_node] */
  int64_t* in_degrees; /* [count] the degrees of each node in all, or null */
  HearthCudaDamage* damage;
} HearthCudaLookUp;

/* Elements of scratch memory with which so many numbers are added up. */
#define HEARTH_CUDA_SCAN_ROOM(count) ((count) / 32 + 64)

/* indptr[l] = the edges that lists before list l keep, each of them all it has,
 * but at most the fan-out of its relation where that is not negative; `lists`
 * are count * graph.lists_per_node. */
typedef struct HearthCudaCountEdges {
  HearthCudaGraph graph;
  const int64_t* nodes;   /* [count] */
  const int64_t* degrees; /* [lists] */
  int64_t count;
  int64_t* indptr; /* [lists + 1] */
  /* [count + 1] the same before the first list of each node, or null */
  int64_t* node_indptr;
  int64_t* scratch; /* [HEARTH_CUDA_SCAN_ROOM(lists + 1)] */
} HearthCudaCountEdges;

/* Draws the edges of a layer and numbers their sources.
 *
 * A list with at most as many edges as the fan-out of its relation, or where
 * that is negative, keeps all. Others draw a subset (Floyd's algorithm), with
 * words of Philox4x32-10 under `key`: where x = mix(prefix ^ (layer << 48 |
 * node)), of counters (0, 1, ...; low and high half of x; low half of mix(x)),
 * mix being the finalizer of SplitMix64 after its increment. Edges stand in the
 * order of their lists, and in one in their order in the relation. A source
 * that was not met before gets the next position, in the order of the edges. */
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
  /* Those at positions below num_destinations, with room for the new ones. */
  int64_t* nodes;
  int32_t* indices; /* [num_edges] the position of each edge's source */
  int64_t* sources; /* [num_edges] scratch, and then the sources */
  /* [num_edges] each edge's relation; null where there is one alone. */
  uint16_t* edge_relations;
  /* [num_edges + 1 + HEARTH_CUDA_SCAN_ROOM(num_edges + 1)] scratch; the element
   * at num_edges is then how many nodes are new. */
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

  /* Makes a stream of the CUDA runtime's (cudaStream_t), of `device`, known
   * here. stream_destroy leaves it as it is. */
  int (*stream_wrap)(int device, void* native, HearthCudaStream** stream);

  /* What models compute along edges and between layers. Every element is made
   * by one thread in an order that is given, so that results repeat bit for
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

  /* Bytes of the device's memory that nobody has allocated, and that it has in
   * all. Makes the process known to the device, which takes some of them. */
  int (*memory_info)(int device, size_t* free_bytes, size_t* total_bytes);

  /* Pins memory of the host that somebody else owns, so that `device` reaches
   * it as it is, over its bus, until it is unregistered, which comes before it
   * is given back. No two such pieces overlap. Both may wait for the device. */
  int (*host_register)(int device, void* memory, size_t bytes);
  int (*host_unregister)(int device, void* memory);

  /* The steps of sampling a batch. All pointers must be reachable from the
   * stream's device; nodes are numbered in the order in which they are met, so
   * that results repeat bit for bit. */
  int (*fill_table)(const HearthCudaFillTable* fill, HearthCudaStream* stream);
  int (*look_up_nodes)(const HearthCudaLookUp* look_up,
                       HearthCudaStream* stream);
  int (*count_edges)(const HearthCudaCountEdges* count,
                     HearthCudaStream* stream);
  int (*sample_layer)(const HearthCudaSampleLayer* layer,
                      HearthCudaStream* stream);
} HearthCudaTable;

/* The only symbol of the plug-in, under this name: the table of `version`, or
 * null if the plug-in has another. */
const HearthCudaTable* hearth_cuda_table(uint32_t version);

#define HEARTH_CUDA_TABLE_SYMBOL "hearth_cuda_table"

#ifdef __cplusplus
} /* extern "C" */
#endif

#endif /* HEARTH_KERNELS_CUDA_HEARTH_CUDA_H_ */
