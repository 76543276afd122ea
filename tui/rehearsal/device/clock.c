/* Streams, kernels, events and graphs in virtual time: each stream knows when its work will
 * be done, work of one engine follows one after the other, and whoever waits sleeps until then. */
#include "simulated.h"
#include "cuda_types.h"
#include <sched.h>
#include <stdlib.h>
#include <time.h>

#define NEVER UINT64_MAX

struct CUstream_st { uint64_t ready; int device, capturing; struct CUgraph_st *graph; };
struct CUevent_st { uint64_t at; int recorded, timing, device; };
struct CUgraph_st { uint64_t ns; int nodes, lost; };
struct CUgraphExec_st { uint64_t ns; };

static struct CUstream_st defaults[MOST_DEVICES];
static int captures;
static struct CUgraph_st *capturing; /* what is captured into, on whichever stream */
static uint64_t engines[MOST_DEVICES][ENGINES]; /* when the work that each was given will be done */

static struct CUstream_st *stream_of(cudaStream_t stream) {
    if ((uintptr_t)stream > 2) return stream;
    defaults[sim_current()].device = sim_current();
    return &defaults[sim_current()];
}

/* SIMULATED_GPU_FAIL_LAUNCH=N:CODE: the Nth piece of work fails for good; CODE 0: it never ends. */
int sim_work(void *stream, enum engine engine, uint64_t ns) {
    struct CUstream_st *s = stream_of(stream);
    int code = 0;
    TRY(sim_context(s->device));
    /* A rehearsal asks for no times and waits for none; still, no division by them may fail. */
    if (ns > 500 && !sim_option("SIMULATED_GPU_TIMED", 1)) ns = 500;
    pthread_mutex_lock(&sim_mutex);
    if (s->capturing) {
        s->graph->ns += ns;
        s->graph->nodes++;
    } else if (sim_fault_is_due(LAUNCH, &code)) {
        if (code) sim_sticky = code; else s->ready = engines[s->device][engine] = NEVER;
    } else if (s->ready != NEVER) {
        uint64_t begin = sim_now(), *engine_ready = &engines[s->device][engine];
        if (s->ready > begin) begin = s->ready;
        if (*engine_ready > begin) begin = *engine_ready;
        s->ready = *engine_ready = begin + ns;
        if (engine == COMPUTE) sim_note_busy(sim_shared(), sim_physical(s->device), ns);
    }
    pthread_mutex_unlock(&sim_mutex);
    return 0;
}

static void wait_until(uint64_t at) {
    for (uint64_t now; (now = sim_now()) < at;) {
        uint64_t left = at - now;
        if (left > 300000) { /* a sleep ends some 50 us late, so the rest is waited for awake */
            struct timespec t = { (time_t)((left - 200000) / 1000000000ull), (long)((left - 200000) % 1000000000ull) };
            nanosleep(&t, NULL);
        } else sched_yield();
    }
}

/* ---- streams ---- */

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *stream, unsigned flags, int priority) {
    READY;
    *stream = calloc(1, sizeof **stream);
    (*stream)->device = sim_current();
    return 0;
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned flags) { return cudaStreamCreateWithPriority(stream, flags, 0); }
cudaError_t cudaStreamCreate(cudaStream_t *stream) { return cudaStreamCreateWithPriority(stream, 0, 0); }
cudaError_t cudaStreamDestroy(cudaStream_t stream) { free(stream); return 0; }
cudaError_t cudaStreamGetPriority(cudaStream_t stream, int *priority) { *priority = 0; return 0; }
cudaError_t cudaStreamQuery(cudaStream_t stream) { READY; return stream_of(stream)->ready <= sim_now() ? 0 : cudaErrorNotReady; }
/* Nothing is done yet of what is captured: to wait for it is refused, and the capture is lost. */
static int refused(struct CUgraph_st *graph) { return graph ? graph->lost = 1, cudaErrorStreamCaptureUnsupported : 0; }
cudaError_t cudaStreamSynchronize(cudaStream_t stream) { READY; TRY(refused(stream_of(stream)->graph)); wait_until(stream_of(stream)->ready); return sim_fail(sim_sticky); }
cudaError_t cudaDeviceSynchronize(void) {
    READY; TRY(refused(capturing));
    for (int engine = 0; engine < ENGINES; engine++) wait_until(engines[sim_current()][engine]);
    return sim_fail(sim_sticky);
}
cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
    READY;
    struct CUstream_st *s = stream_of(stream);
    if (!s->capturing && event->recorded && event->at > s->ready) s->ready = event->at;
    return 0;
}

/* ---- kernels: they take time and have no effect ---- */

/* torch registers its kernels as it is loaded; nothing needs to be known of them. */
void **__cudaRegisterFatBinary(void *binary) { static void *handle; return &handle; }
char __cudaInitModule(void **handle) { return 1; }

/* The shape of a launch is given by one call and taken by the next. */
static __thread struct { struct dim3 grid, block; size_t shared; void *stream; } shape;
unsigned __cudaPushCallConfiguration(struct dim3 grid, struct dim3 block, size_t shared, void *stream) {
    shape.grid = grid; shape.block = block; shape.shared = shared; shape.stream = stream;
    return 0;
}
cudaError_t __cudaPopCallConfiguration(struct dim3 *grid, struct dim3 *block, size_t *shared, void *stream) {
    *grid = shape.grid; *block = shape.block; *shared = shape.shared; *(void **)stream = shape.stream;
    return 0;
}

/* A thread is taken to read and write four elements of four bytes. */
int sim_launch(void *stream, uint64_t blocks, uint64_t threads_each) {
    uint64_t threads = blocks * threads_each;
    READY;
    if (!threads || threads_each > 1024) return sim_fail(cudaErrorInvalidConfiguration);
    sim_note_launch();
    return sim_work(stream, COMPUTE, 1800 + threads * 32 / (uint64_t)sim_option("SIMULATED_GPU_MEMORY_GB_S", 4000));
}
static int launch(const void *kernel, struct dim3 grid, struct dim3 block, cudaStream_t stream) {
    return sim_launch(stream, (uint64_t)grid.x * grid.y * grid.z, (uint64_t)block.x * block.y * block.z);
}
cudaError_t cudaLaunchKernel(const void *kernel, struct dim3 grid, struct dim3 block, void **arguments, size_t shared, cudaStream_t stream) { return launch(kernel, grid, block, stream); }
cudaError_t cudaLaunchCooperativeKernel(const void *kernel, struct dim3 grid, struct dim3 block, void **arguments, size_t shared, cudaStream_t stream) { return launch(kernel, grid, block, stream); }
cudaError_t cudaLaunchKernelExC(const cudaLaunchConfig_t *c, const void *kernel, void **arguments) { return launch(kernel, c->gridDim, c->blockDim, c->stream); }
cudaError_t __cudaGetKernel(cudaKernel_t *kernel, const void *host) { *kernel = (cudaKernel_t)host; return 0; }
cudaError_t __cudaLaunchKernel(cudaKernel_t kernel, struct dim3 grid, struct dim3 block, void **arguments, size_t shared, cudaStream_t stream) { return launch(kernel, grid, block, stream); }
cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *about, const void *kernel) {
    READY;
    *about = (struct cudaFuncAttributes){ .maxThreadsPerBlock = 1024, .numRegs = 32, .ptxVersion = 90, .binaryVersion = 90, .maxDynamicSharedSizeBytes = 232448 };
    return 0;
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, const void *kernel, int threads, size_t shared, unsigned flags) { READY; int most = (int)sim_option("SIMULATED_GPU_SM_THREADS", 2048); *blocks = threads < 64 ? most / 64 : threads > most ? 1 : most / threads; return 0; }
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *kernel, int threads, size_t shared) { return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, kernel, threads, shared, 0); }

/* ---- events ---- */

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned flags) {
    READY;
    *event = calloc(1, sizeof **event);
    **event = (struct CUevent_st){ .timing = !(flags & cudaEventDisableTiming), .device = sim_current() };
    return 0;
}
cudaError_t cudaEventCreate(cudaEvent_t *event) { return cudaEventCreateWithFlags(event, 0); }
cudaError_t cudaEventDestroy(cudaEvent_t event) { free(event); return 0; }
cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags) {
    struct CUstream_st *s = stream_of(stream);
    if (s->device != event->device) return sim_fail(cudaErrorInvalidResourceHandle);
    if (s->capturing) return 0;
    TRY(sim_work(stream, COMPUTE, 200));
    event->at = s->ready;
    event->recorded = 1;
    return 0;
}
cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) { return cudaEventRecordWithFlags(event, stream, 0); }
cudaError_t cudaEventQuery(cudaEvent_t event) { READY; return !event->recorded || event->at <= sim_now() ? 0 : cudaErrorNotReady; }
cudaError_t cudaEventSynchronize(cudaEvent_t event) { READY; if (event->recorded) wait_until(event->at); return sim_fail(sim_sticky); }
cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t start, cudaEvent_t end) {
    READY;
    if (!start->recorded || !end->recorded || !start->timing || !end->timing) return sim_fail(cudaErrorInvalidResourceHandle);
    if (start->at > sim_now() || end->at > sim_now()) return sim_fail(cudaErrorNotReady);
    *ms = (float)((double)((int64_t)(end->at - start->at) / 500) * 0.0005); /* in steps of half a microsecond, as in truth */
    return 0;
}

/* ---- graphs: what was captured counts as one piece of work ---- */

cudaError_t cudaStreamGetCaptureInfo(cudaStream_t stream, enum cudaStreamCaptureStatus *status, unsigned long long *id, cudaGraph_t *graph, const cudaGraphNode_t **dependencies, const cudaGraphEdgeData **edges, size_t *count) {
    struct CUstream_st *s = stream_of(stream);
    if (sim_physical(sim_current()) < 0) return sim_fail(cudaErrorInitializationError);
    *status = !s->graph ? cudaStreamCaptureStatusNone : s->graph->lost ? cudaStreamCaptureStatusInvalidated : cudaStreamCaptureStatusActive;
    if (id) *id = (unsigned long long)s->capturing;
    if (graph) *graph = s->graph;
    if (dependencies) *dependencies = NULL;
    if (edges) *edges = NULL;
    if (count) *count = 0;
    return 0;
}
#if CUDA_VERSION < 13000
cudaError_t cudaStreamGetCaptureInfo_v2(cudaStream_t stream, enum cudaStreamCaptureStatus *status, unsigned long long *id, cudaGraph_t *graph, const cudaGraphNode_t **dependencies, size_t *count) { return cudaStreamGetCaptureInfo(stream, status, id, graph, dependencies, NULL, count); }
cudaError_t cudaStreamGetCaptureInfo_v3(cudaStream_t stream, enum cudaStreamCaptureStatus *status, unsigned long long *id, cudaGraph_t *graph, const cudaGraphNode_t **dependencies, const cudaGraphEdgeData **edges, size_t *count) { return cudaStreamGetCaptureInfo(stream, status, id, graph, dependencies, edges, count); }
#endif
cudaError_t cudaStreamIsCapturing(cudaStream_t stream, enum cudaStreamCaptureStatus *status) { return cudaStreamGetCaptureInfo(stream, status, NULL, NULL, NULL, NULL, NULL); }
cudaError_t cudaStreamBeginCaptureToGraph(cudaStream_t stream, cudaGraph_t graph, const cudaGraphNode_t *d, const cudaGraphEdgeData *e, size_t n, enum cudaStreamCaptureMode mode) {
    if ((uintptr_t)stream <= 2) return sim_fail(cudaErrorStreamCaptureUnsupported);
    stream->capturing = ++captures;
    stream->graph = capturing = graph;
    return 0;
}
cudaError_t cudaStreamBeginCapture(cudaStream_t stream, enum cudaStreamCaptureMode mode) { READY; return cudaStreamBeginCaptureToGraph(stream, calloc(1, sizeof(struct CUgraph_st)), NULL, NULL, 0, mode); }
cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t *graph) {
    struct CUstream_st *s = stream_of(stream);
    if (!s->capturing) return sim_fail(cudaErrorIllegalState);
    int lost = (*graph = s->graph)->lost;
    s->capturing = 0;
    s->graph = capturing = NULL;
    return sim_fail(lost ? cudaErrorStreamCaptureInvalidated : 0);
}
cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t *nodes, size_t *count) {
    if (nodes) for (size_t i = 0; i < *count; i++) nodes[i] = NULL;
    *count = (size_t)graph->nodes;
    return 0;
}
#if CUDA_VERSION >= 13000
cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t node, cudaGraphNode_t *d, cudaGraphEdgeData *e, size_t *count) { *count = 0; return 0; }
#else
cudaError_t cudaGraphNodeGetDependencies(cudaGraphNode_t node, cudaGraphNode_t *d, size_t *count) { *count = 0; return 0; }
#endif
cudaError_t cudaGraphDestroy(cudaGraph_t graph) { free(graph); return 0; }
cudaError_t cudaGraphInstantiateWithFlags(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long flags) { *exec = malloc(sizeof **exec); (*exec)->ns = graph->ns; return 0; }
#if CUDA_VERSION < 13000
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long flags) { return cudaGraphInstantiateWithFlags(exec, graph, flags); }
#endif
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) { free(exec); return 0; }
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) { READY; sim_note_launch(); return sim_work(stream, COMPUTE, 3000 + exec->ns); }
