/* Errors, devices and contexts of the CUDA runtime. */
#include "simulated.h"
#include "cuda_types.h"
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

int sim_sticky;
static __thread int last; /* what cudaGetLastError returns, once */
/* A process that was forked from one that used CUDA cannot use it: every call says so. */
static int forked, used;
static __thread int current;
static int visible[MOST_DEVICES], visible_count = -1, has_context[MOST_DEVICES];

pthread_mutex_t sim_mutex = PTHREAD_MUTEX_INITIALIZER;
static void in_child(void) { forked = used; pthread_mutex_init(&sim_mutex, NULL); }
__attribute__((constructor)) static void loaded(void) { pthread_atfork(NULL, NULL, in_child); }

int sim_fail(int code) { if (code) last = code; return code; }
cudaError_t cudaGetLastError(void) { int code = sim_sticky ? sim_sticky : last; last = 0; return code; }
cudaError_t cudaPeekAtLastError(void) { return sim_sticky ? sim_sticky : last; }

/* CUDA_VISIBLE_DEVICES names devices by index or by the beginning of a UUID. Of a partitioned GPU,
 * CUDA shows one instance: the first, or the one that is named. */
static void look(void) {
    struct shared *s = sim_shared();
    const char *text = getenv("CUDA_VISIBLE_DEVICES");
    char copy[512], uuid[48], *rest = copy, *word;
    if (visible_count >= 0) return;
    visible_count = 0;
    snprintf(copy, sizeof copy, "%s", text ? text : "0,1,2,3,4,5,6,7");
    while ((word = strtok_r(rest, ",", &rest)) && visible_count < (s->mig ? 1 : MOST_DEVICES)) {
        int index = -1;
        if (*word == 'G' || *word == 'M') {
            for (int i = 0; i < s->devices; i++) {
                sim_uuid(s->mig, i, uuid);
                if (!strncmp(uuid, word, strlen(word))) index = i;
            }
        } else index = atoi(word);
        if (index < 0 || index >= s->devices) break; /* what follows an unknown one is not seen */
        visible[visible_count++] = index;
    }
}

static int refused(int device) {
    if (forked) return cudaErrorInitializationError;
    look();
    if (!visible_count) return cudaErrorNoDevice;
    return device < 0 || device >= visible_count ? cudaErrorInvalidDevice : 0;
}

int sim_current(void) { return current; }
int sim_physical(int device) { return refused(device) ? -1 : visible[device]; }

static void note_peak(struct shared *s, int place, uint64_t used) { /* under the lock */
    uint64_t allocated = 0, contexts = 0, nccl = 0;
    for (struct holder *h = s->holders; h < s->holders + MOST_HOLDERS; h++) {
        allocated += h->allocated[place];
        contexts += h->context[place] > 0;
        nccl += h->nccl[place];
    }
    if (used > s->record.peak[place]) s->record.peak[place] = used;
    if (allocated > s->record.allocated[place]) s->record.allocated[place] = allocated;
    if (contexts > s->record.contexts[place]) s->record.contexts[place] = contexts;
    if (nccl > s->record.nccl[place]) s->record.nccl[place] = nccl;
}

static uint64_t *counter(struct holder *own, int place, enum purpose purpose) {
    return &(purpose == CONTEXT ? own->context : purpose == NCCL ? own->nccl : own->allocated)[place];
}

int sim_take(int device, uint64_t bytes, enum purpose purpose) {
    struct shared *s = sim_shared();
    struct holder *own;
    int place = visible[device], code = cudaErrorMemoryAllocation;
    if (purpose == ALLOCATED && sim_fault_is_due(ALLOCATION, &code)) return code;
    code = 0;
    sim_lock(s);
    uint64_t used = sim_used(s, place);
    if (s->total - s->reserved - used < bytes || !(own = sim_own(s, 1))) {
        code = cudaErrorMemoryAllocation;
        s->record.refused[place]++;
    } else {
        *counter(own, place, purpose) += bytes;
        note_peak(s, place, used + bytes);
    }
    sim_unlock(s);
    return code;
}

void sim_give_back(int device, uint64_t bytes, enum purpose purpose) {
    struct shared *s = sim_shared();
    struct holder *own;
    sim_lock(s);
    if ((own = sim_own(s, 0))) *counter(own, visible[device], purpose) -= bytes;
    sim_unlock(s);
}

int sim_context(int device) {
    struct timespec t = { 0, 1000000 * sim_option("SIMULATED_GPU_CONTEXT_MS", 150) };
    TRY(refused(device));
    if (sim_sticky) return sim_sticky;
    if (has_context[device]) return 0;
    used = 1;
    TRY(sim_take(device, (uint64_t)sim_option("SIMULATED_GPU_CONTEXT_MIB", 500) * MIB, CONTEXT));
    has_context[device] = 1;
    nanosleep(&t, NULL);
    return 0;
}
int sim_ready(void) { return sim_context(current); }
void sim_note_estimate(void) { if (!sim_ready()) __atomic_fetch_add(&sim_shared()->record.estimated[sim_physical(current)], 1, __ATOMIC_RELAXED); }

cudaError_t cudaGetDeviceCount(int *count) {
    if (forked) return sim_fail(cudaErrorInitializationError);
    look();
    used = 1;
    *count = visible_count;
    return visible_count ? 0 : sim_fail(cudaErrorNoDevice);
}
cudaError_t cudaGetDevice(int *device) { TRY(refused(current)); *device = current; return 0; }
cudaError_t cudaSetDevice(int device) { TRY(refused(device)); current = device; return sim_context(device); }
cudaError_t cudaDriverGetVersion(int *version) { *version = 13000; return 0; } /* newer than some runtimes, as drivers may be */
cudaError_t cudaRuntimeGetVersion(int *version) { *version = CUDA_VERSION; return 0; }
cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer) { *can = device != peer; return 0; }
cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest) { *least = 0; *greatest = -5; return 0; }

/* What torch and its libraries choose their kernels and launches by; an H200 unless told otherwise. */
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *p, int device) {
    struct shared *s = sim_shared();
    int capability = (int)sim_option("SIMULATED_GPU_CAPABILITY", 90);
    size_t shared = (size_t)sim_option("SIMULATED_GPU_BLOCK_KIB", 227) << 10;
    TRY(refused(device));
    *p = (struct cudaDeviceProp){
        .totalGlobalMem = s->total - s->reserved, .sharedMemPerBlock = 49152, .regsPerBlock = 65536, .warpSize = 32,
        .maxThreadsPerBlock = 1024, .maxThreadsDim = { 1024, 1024, 64 },
        .maxGridSize = { 0x7fffffff, 65535, 65535 }, .totalConstMem = 65536, .major = capability / 10, .minor = capability % 10,
        .multiProcessorCount = (int)sim_option("SIMULATED_GPU_SM_COUNT", 132), .concurrentKernels = 1, .ECCEnabled = 1, .asyncEngineCount = 3,
        .pciBusID = sim_bus(s->mig ? 0 : visible[device]), .unifiedAddressing = 1, .memoryBusWidth = 6144,
        .l2CacheSize = (int)sim_option("SIMULATED_GPU_L2_MIB", 50) << 20, .maxThreadsPerMultiProcessor = (int)sim_option("SIMULATED_GPU_SM_THREADS", 2048), .sharedMemPerMultiprocessor = shared + 1024,
        .regsPerMultiprocessor = 65536, .cooperativeLaunch = 1, .sharedMemPerBlockOptin = shared,
        .maxBlocksPerMultiProcessor = 32, .memoryPoolsSupported = 1,
    };
    snprintf(p->name, sizeof p->name, "%s%s", sim_name(), s->mig ? " MIG 1g" : "");
    unsigned char uuid[] = { 0x51, 0xa4, 0xd1, 0x70, 0, 0, 0x40, 0, 0x80, 0, 0, 0, 0, 0, 0, (unsigned char)(visible[device] + 1) };
    if (s->mig) memcpy(uuid, (unsigned char[]){ 0x0c, 0x4e, 0x8a, 0x27 }, 4);
    memcpy(p->uuid.bytes, uuid, sizeof uuid);
    return 0;
}
#if CUDA_VERSION < 13000
cudaError_t cudaGetDeviceProperties_v2(struct cudaDeviceProp *p, int device) { return cudaGetDeviceProperties(p, device); }
#endif
cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device) {
    struct cudaDeviceProp p;
    TRY(cudaGetDeviceProperties(&p, device));
    /* Libraries divide by some of these; the enumeration's names are those of the properties. */
    const int values[][2] = {
        { 1 /* MaxThreadsPerBlock */, p.maxThreadsPerBlock }, { 2, p.maxThreadsDim[0] }, { 3, p.maxThreadsDim[1] }, { 4, p.maxThreadsDim[2] },
        { 5 /* MaxGridDimX */, p.maxGridSize[0] }, { 6, p.maxGridSize[1] }, { 7, p.maxGridSize[2] },
        { 8 /* MaxSharedMemoryPerBlock */, (int)p.sharedMemPerBlock }, { 9 /* TotalConstantMemory */, (int)p.totalConstMem },
        { cudaDevAttrWarpSize, p.warpSize }, { 12 /* MaxRegistersPerBlock */, p.regsPerBlock },
        { cudaDevAttrClockRate, 1980000 /* kHz */ }, { cudaDevAttrMultiProcessorCount, p.multiProcessorCount },
        { 19 /* CanMapHostMemory */, 1 }, { 31 /* ConcurrentKernels */, p.concurrentKernels }, { 32 /* EccEnabled */, p.ECCEnabled },
        { 33 /* PciBusId */, p.pciBusID }, { cudaDevAttrMemoryClockRate, 3201000 /* kHz */ },
        { 37 /* GlobalMemoryBusWidth */, p.memoryBusWidth }, { 38 /* L2CacheSize */, p.l2CacheSize },
        { 39 /* MaxThreadsPerMultiProcessor */, p.maxThreadsPerMultiProcessor }, { 40 /* AsyncEngineCount */, p.asyncEngineCount },
        { 41 /* UnifiedAddressing */, p.unifiedAddressing },
        { cudaDevAttrComputeCapabilityMajor, p.major }, { cudaDevAttrComputeCapabilityMinor, p.minor },
        { 78 /* StreamPrioritiesSupported */, 1 }, { 81 /* MaxSharedMemoryPerMultiprocessor */, (int)p.sharedMemPerMultiprocessor },
        { 82 /* MaxRegistersPerMultiprocessor */, p.regsPerMultiprocessor }, { 95 /* CooperativeLaunch */, p.cooperativeLaunch },
        { cudaDevAttrMaxSharedMemoryPerBlockOptin, (int)p.sharedMemPerBlockOptin },
        { 106 /* MaxBlocksPerMultiprocessor */, p.maxBlocksPerMultiProcessor }, { 111 /* ReservedSharedMemoryPerBlock */, 1024 },
        { 115 /* MemoryPoolsSupported */, p.memoryPoolsSupported },
    };
    *value = 0;
    for (size_t i = 0; i < sizeof values / sizeof *values; i++) if (values[i][0] == (int)attribute) *value = values[i][1];
    return 0;
}
cudaError_t cudaDeviceGetPCIBusId(char *text, int length, int device) {
    TRY(refused(device));
    snprintf(text, (size_t)length, "0000:%02X:00.0", sim_bus(sim_shared()->mig ? 0 : visible[device]));
    return 0;
}

/* The driver's own functions, as far as torch asks for them before it uses a device. */
int cuDeviceGet(int *device, int index) { *device = index; return sim_physical(index) < 0 ? 101 : 0; }
int cuDeviceGetAttribute(int *value, int attribute, int device) { return cudaDeviceGetAttribute(value, (enum cudaDeviceAttr)attribute, device); }
int cuDevicePrimaryCtxGetState(int device, unsigned *flags, int *active) { if (flags) *flags = 0; *active = has_context[device]; return 0; }
int cuDevicePrimaryCtxRetain(void **context, int device) { *context = (void *)(uintptr_t)(device + 1); return cudaSetDevice(device); }
int cuCtxGetCurrent(void **context) { *context = has_context[current] ? (void *)(uintptr_t)(current + 1) : NULL; return 0; }
int cuCtxSetCurrent(void *context) { return context ? cudaSetDevice((int)(uintptr_t)context - 1) : 0; }
int cuGetErrorString(int code, const char **text) { *text = cudaGetErrorString((cudaError_t)code); return 0; }
static int not_supported(void) { return cudaErrorNotSupported; }
cudaError_t cudaGetDriverEntryPointByVersion(const char *symbol, void **function, unsigned version, unsigned long long flags, enum cudaDriverEntryPointQueryResult *status) {
    *function = dlsym(RTLD_DEFAULT, symbol);
    if (!*function) *function = (void *)not_supported;
    if (status) *status = cudaDriverEntryPointSuccess;
    return 0;
}
#if CUDA_VERSION < 13000
cudaError_t cudaGetDriverEntryPoint(const char *symbol, void **function, unsigned long long flags, enum cudaDriverEntryPointQueryResult *status) { return cudaGetDriverEntryPointByVersion(symbol, function, CUDA_VERSION, flags, status); }
#endif
