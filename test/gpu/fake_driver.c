/* SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
 *
 * A libcuda.so.1 without a GPU: memory is the host's, kernels do nothing, except that decode writes
 * zeros to its output, that plan tells of lengths that are too large, and that the BF16 baseline of
 * kvq-bench attends. A graph replays plan and decode. With KVQ_FAKE_DRIVER_WRONG set, the first
 * element of the baseline's output is wrong, and graphs replay nothing. What is launched is written
 * to the file named by KVQ_FAKE_DRIVER_LOG. With KVQ_FAKE_DRIVER_FAULT set, the first launch of a
 * process is a fault that lasts, as on a device.
 */
#include "kvq/kernel_abi.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef int CUresult;
typedef uint64_t Pointer;

enum { kOutOfMemory = 2, kIllegalAddress = 700 };

static struct {
  char name[32];
} functions[64];
static int functionCount;
static CUresult fault;

CUresult cuInit(unsigned flags) { return (void)flags, 0; }
CUresult cuDriverGetVersion(int *version) { return *version = 13000, 0; }
CUresult cuGetErrorName(CUresult error, const char **name) {
  *name = error == kIllegalAddress ? "CUDA_ERROR_ILLEGAL_ADDRESS" : "CUDA_ERROR";
  return 0;
}
CUresult cuGetErrorString(CUresult error, const char **text) {
  return (void)error, *text = "a fake error", 0;
}

CUresult cuDeviceGet(int *device, int index) { return *device = index, 0; }
CUresult cuDeviceGetName(char *name, int bytes, int device) {
  return (void)device, snprintf(name, (size_t)bytes, "fake GPU"), 0;
}
CUresult cuDeviceGetAttribute(int *value, int attribute, int device) {
  (void)device;
  *value = attribute == 16 ? 132 : attribute == 75 ? 9 : attribute == 76 ? 0 : 232448;
  return 0;
}
CUresult cuDevicePrimaryCtxRetain(void **context, int device) {
  return (void)device, *context = functions, 0;
}
CUresult cuDevicePrimaryCtxRelease_v2(int device) { return (void)device, 0; }
CUresult cuCtxGetCurrent(void **context) { return *context = functions, 0; }
CUresult cuCtxGetDevice(int *device) { return *device = 0, 0; }
CUresult cuCtxPushCurrent_v2(void *context) { return (void)context, 0; }
CUresult cuCtxPopCurrent_v2(void **context) { return *context = functions, 0; }
CUresult cuCtxSetCurrent(void *context) { return (void)context, 0; }
CUresult cuCtxSynchronize(void) { return fault; }

CUresult cuModuleLoadDataEx(void **module, const void *image, unsigned options, int *keys,
                            void **values) {
  (void)image, (void)options, (void)keys, (void)values;
  return *module = functions, 0;
}
CUresult cuModuleUnload(void *module) { return (void)module, 0; }
CUresult cuModuleGetFunction(void **function, void *module, const char *name) {
  (void)module;
  snprintf(functions[functionCount].name, sizeof functions[0].name, "%s", name);
  *function = &functions[functionCount];
  functionCount = (functionCount + 1) % 64;
  return 0;
}
CUresult cuFuncGetAttribute(int *value, int attribute, void *function) {
  return (void)function, *value = attribute == 0 ? 1024 : 0, 0;
}
CUresult cuFuncSetAttribute(void *function, int attribute, int value) {
  return (void)function, (void)attribute, (void)value, 0;
}

static void decode(const kvq_decode_kernel_args *args) {
  for (int64_t i = 0; i < args->batch * args->q_length; ++i)
    memset((char *)args->out + i * args->out_token_stride, 0, (size_t)args->out_token_stride);
}

/* Arguments of bf16_decode (tools/kvq-bench/bf16_decode.cu). */
struct Bf16Arguments {
  const uint16_t *pool;
  const int32_t *table;
  const uint16_t *queries;
  uint16_t *out;
  float *partial;
  uint32_t *counters;
  int32_t columns, length, segments;
};

static float ofBf16(uint16_t bits) {
  const uint32_t wide = (uint32_t)bits << 16;
  float value;
  memcpy(&value, &wide, sizeof value);
  return value;
}

/* One query row of 128 channels over the pages of a KV head. */
static void bf16Row(const struct Bf16Arguments *args, int row) {
  enum { kDim = 128, kPage = 64, kHeads = 8, kGroup = 4 };
  const int segment = row / kGroup, sequence = segment / kHeads;
  float sum = 0, out[kDim] = {0};
  for (int token = 0; token < args->length; ++token) {
    const int64_t page = args->table[sequence * args->columns + token / kPage];
    const uint16_t *key =
        args->pool + (((page * kHeads + segment % kHeads) * 2) * kPage + token % kPage) * kDim;
    float score = 0;
    for (int i = 0; i < kDim; ++i)
      score += ofBf16(args->queries[row * kDim + i]) * ofBf16(key[i]);
    const float weight = expf(score / sqrtf(kDim));
    sum += weight;
    for (int i = 0; i < kDim; ++i)
      out[i] += weight * ofBf16(key[kPage * kDim + i]);
  }
  for (int i = 0; i < kDim; ++i) {
    const float value = out[i] / sum;
    uint32_t bits;
    memcpy(&bits, &value, sizeof bits);
    args->out[row * kDim + i] = (uint16_t)((bits + 0x8000) >> 16);
  }
}

static void bf16Decode(const struct Bf16Arguments *args) {
  for (int row = 0; row < 4 * args->segments; ++row)
    bf16Row(args, row);
  if (getenv("KVQ_FAKE_DRIVER_WRONG"))
    args->out[0] ^= 0x8000;
}

static void plan(const kvq_gpu_decode_args *args) {
  for (int64_t i = 0; i < args->common.batch; ++i)
    if (args->common.lengths[i] > args->common.max_length)
      *args->faults |= 1;
}

/* A launch of plan or decode. */
struct Launch {
  char name[32];
  kvq_gpu_decode_args args;
};

struct Graph {
  int count;
  struct Launch *launches;
};

static struct Graph *captured; /* while a stream is captured */

static void run(const struct Launch *launch) {
  if (!strcmp(launch->name, "kvq_plan"))
    plan(&launch->args);
  else
    decode(&launch->args.common);
}

static struct Graph *copyGraph(const struct Graph *from) {
  struct Graph *graph = calloc(1, sizeof *graph);
  graph->count = from->count;
  graph->launches = calloc((size_t)from->count + 1, sizeof *graph->launches);
  for (int i = 0; i < from->count; ++i)
    graph->launches[i] = from->launches[i];
  return graph;
}

static void freeGraph(struct Graph *graph) {
  if (graph)
    free(graph->launches);
  free(graph);
}

/* Runs a plan or a decode, or notes it in the graph that is being captured. */
static void launch(const char *name, const kvq_gpu_decode_args *args) {
  struct Launch launch;
  snprintf(launch.name, sizeof launch.name, "%s", name);
  launch.args = *args;
  if (!captured) {
    run(&launch);
    return;
  }
  const size_t bytes = ((size_t)captured->count + 1) * sizeof launch;
  captured->launches = realloc(captured->launches, bytes);
  captured->launches[captured->count++] = launch;
}

CUresult cuLaunchKernelEx(const void *config, void *function, void **parameters, void **extra) {
  (void)config, (void)extra;
  const char *name = (const char *)function, *path = getenv("KVQ_FAKE_DRIVER_LOG");
  FILE *log = path ? fopen(path, "a") : NULL;
  if (log) {
    fprintf(log, "%s\n", name);
    fclose(log);
  }
  if (getenv("KVQ_FAKE_DRIVER_FAULT"))
    fault = kIllegalAddress;
  if (!strcmp(name, "kvq_decode") || !strcmp(name, "kvq_plan"))
    launch(name, (const kvq_gpu_decode_args *)parameters[0]);
  if (!strcmp(name, "bf16_decode"))
    bf16Decode((const struct Bf16Arguments *)parameters[0]);
  return 0;
}

CUresult cuMemAlloc_v2(Pointer *pointer, size_t bytes) {
  void *memory = aligned_alloc(256, (bytes + 255) / 256 * 256);
  *pointer = (Pointer)memory;
  return fault ? fault : memory ? 0 : kOutOfMemory;
}
CUresult cuMemFree_v2(Pointer pointer) { return free((void *)pointer), 0; }
CUresult cuMemGetInfo_v2(size_t *free, size_t *all) { return *free = *all = (size_t)1 << 37, 0; }
CUresult cuMemcpyHtoD_v2(Pointer to, const void *from, size_t bytes) {
  return memcpy((void *)to, from, bytes), fault;
}
CUresult cuMemcpyDtoH_v2(void *to, Pointer from, size_t bytes) {
  return memcpy(to, (const void *)from, bytes), fault;
}
CUresult cuMemcpyDtoD_v2(Pointer to, Pointer from, size_t bytes) {
  return memcpy((void *)to, (const void *)from, bytes), fault;
}
CUresult cuMemcpyAsync(Pointer to, Pointer from, size_t bytes, void *stream) {
  return (void)stream, memcpy((void *)to, (const void *)from, bytes), fault;
}
CUresult cuMemsetD8Async(Pointer to, unsigned char byte, size_t bytes, void *stream) {
  return (void)stream, memset((void *)to, byte, bytes), fault;
}
CUresult cuMemsetD8_v2(Pointer to, unsigned char byte, size_t bytes) {
  return memset((void *)to, byte, bytes), fault;
}

CUresult cuStreamCreate(void **stream, unsigned flags) {
  return (void)flags, *stream = functions, 0;
}
CUresult cuStreamSynchronize(void *stream) { return (void)stream, fault; }
CUresult cuStreamBeginCapture_v2(void *stream, int mode) {
  (void)stream, (void)mode;
  captured = calloc(1, sizeof *captured);
  return 0;
}
CUresult cuStreamEndCapture(void *stream, void **graph) {
  (void)stream, *graph = captured;
  captured = NULL;
  return 0;
}
CUresult cuGraphInstantiateWithFlags(void **exec, void *graph, unsigned long long flags) {
  return (void)flags, *exec = copyGraph(graph), 0;
}
CUresult cuGraphLaunch(void *exec, void *stream) {
  (void)stream;
  const struct Graph *graph = exec;
  for (int i = 0; i < graph->count && !getenv("KVQ_FAKE_DRIVER_WRONG"); ++i)
    run(&graph->launches[i]);
  return fault;
}
CUresult cuGraphExecDestroy(void *exec) { return freeGraph(exec), 0; }
CUresult cuGraphDestroy(void *graph) { return freeGraph(graph), 0; }
CUresult cuEventCreate(void **event, unsigned flags) { return (void)flags, *event = functions, 0; }
CUresult cuEventDestroy_v2(void *event) { return (void)event, 0; }
CUresult cuEventRecord(void *event, void *stream) { return (void)event, (void)stream, 0; }
CUresult cuEventSynchronize(void *event) { return (void)event, fault; }
CUresult cuEventElapsedTime(float *milliseconds, void *start, void *end) {
  return (void)start, (void)end, *milliseconds = 0.5f, 0;
}
