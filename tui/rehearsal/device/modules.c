/* The driver's modules and kernels, and NVRTC: how Triton, torch's compiler and programs that bring their
 * own CUDA code load kernels. A module is a name for nothing: what it contains is not read. */
#include "simulated.h"
#include "cuda_types.h"
#include <stdlib.h>
#include <string.h>

enum { KERNEL_LIMIT = 1024 }; /* threads of a block */
enum { MAX_THREADS = 0, REGISTERS = 4, PTX_VERSION = 5, BINARY_VERSION = 6, MAX_DYNAMIC_SHARED = 8 }; /* of CUfunction_attribute */

/* One module and one function serve for all: nobody asks which they are. */
static struct { int unused; } any_module, any_function;

CUresult cuInit(unsigned flags) { return sim_physical(0) < 0 ? cudaErrorNoDevice : 0; }
CUresult cuDriverGetVersion(int *version) { return cudaDriverGetVersion(version); }
CUresult cuDeviceGetCount(int *count) { return cudaGetDeviceCount(count); }
CUresult cuCtxGetDevice(int *device) { *device = sim_current(); return 0; }
CUresult cuCtxSynchronize(void) { return cudaDeviceSynchronize(); }
CUresult cuStreamSynchronize(cudaStream_t stream) { return cudaStreamSynchronize(stream); }
CUresult cuCtxGetLimit(size_t *value, int limit) { *value = 1 << 20; return 0; }
CUresult cuCtxSetLimit(int limit, size_t value) { return 0; }

CUresult cuModuleLoad(void **module, const char *path) { *module = &any_module; return sim_ready(); }
CUresult cuModuleLoadData(void **module, const void *image) { *module = &any_module; return sim_ready(); }
CUresult cuModuleLoadDataEx(void **module, const void *image, unsigned count, int *options, void **values) { return cuModuleLoadData(module, image); }
CUresult cuModuleUnload(void *module) { return 0; }
CUresult cuModuleGetFunction(void **function, void *module, const char *name) { *function = &any_function; return 0; }

CUresult cuFuncGetAttribute(int *value, int attribute, void *function) {
    *value = attribute == MAX_THREADS ? KERNEL_LIMIT : attribute == REGISTERS ? 32
        : attribute == PTX_VERSION || attribute == BINARY_VERSION ? (int)sim_option("SIMULATED_GPU_CAPABILITY", 90)
        : attribute == MAX_DYNAMIC_SHARED ? (int)sim_option("SIMULATED_GPU_BLOCK_KIB", 227) << 10 : 0;
    return 0;
}
CUresult cuFuncSetAttribute(void *function, int attribute, int value) { return 0; }
CUresult cuFuncSetCacheConfig(void *function, int config) { return 0; }
CUresult cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, void *function, int threads, size_t shared) { return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, function, threads, shared, 0); }

/* A launch: the grid and the block in x, y, z; the shared memory in bytes; the stream. */
typedef struct {
    unsigned grid[3], block[3], shared;
    cudaStream_t stream;
    void *attributes;
    unsigned attribute_count;
} CUlaunchConfig;

CUresult cuOccupancyMaxActiveClusters(int *clusters, void *function, const CUlaunchConfig *c) {
    uint64_t blocks = (uint64_t)c->grid[0] * c->grid[1] * c->grid[2]; /* Triton asks with one cluster as the grid */
    *clusters = (int)((uint64_t)sim_option("SIMULATED_GPU_SM_COUNT", 132) / (blocks ? blocks : 1));
    return 0;
}
CUresult cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, cudaStream_t stream, void **arguments, void **extra) {
    if (shared > (unsigned)sim_option("SIMULATED_GPU_BLOCK_KIB", 227) << 10) return cudaErrorInvalidValue;
    return cudaLaunchKernel(function, (struct dim3){ gx, gy, gz }, (struct dim3){ bx, by, bz }, arguments, shared, stream);
}
CUresult cuLaunchCooperativeKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, cudaStream_t stream, void **arguments) {
    return cuLaunchKernel(function, gx, gy, gz, bx, by, bz, shared, stream, arguments, NULL);
}
CUresult cuLaunchKernelEx(const CUlaunchConfig *c, void *function, void **arguments, void **extra) {
    return cuLaunchKernel(function, c->grid[0], c->grid[1], c->grid[2], c->block[0], c->block[1], c->block[2], c->shared, c->stream, arguments, extra);
}

/* Descriptors of tensors, 128 bytes that only kernels read. */
CUresult cuTensorMapEncodeTiled(void *map) { memset(map, 0, 128); return 0; }
CUresult cuTensorMapEncodeIm2col(void *map) { memset(map, 0, 128); return 0; }

/* ---- NVRTC: a program is compiled to one byte ---- */

struct nvrtc { char *names[64]; int count; };
int nvrtcVersion(int *major, int *minor) { *major = CUDA_VERSION / 1000; *minor = CUDA_VERSION % 1000 / 10; return 0; }
int nvrtcCreateProgram(struct nvrtc **p) { *p = calloc(1, sizeof **p); return *p ? 0 : 1; }
int nvrtcDestroyProgram(struct nvrtc **p) {
    for (int i = 0; i < (*p)->count; i++) free((*p)->names[i]);
    free(*p);
    *p = NULL;
    return 0;
}
int nvrtcCompileProgram(struct nvrtc *p, int count, const char *const *options) { return 0; }
int nvrtcAddNameExpression(struct nvrtc *p, const char *name) {
    if (p->count == (int)(sizeof p->names / sizeof *p->names)) return 1;
    p->names[p->count++] = strdup(name);
    return 0;
}
int nvrtcGetLoweredName(struct nvrtc *p, const char *name, const char **lowered) {
    for (int i = 0; i < p->count; i++) if (!strcmp(p->names[i], name)) { *lowered = p->names[i]; return 0; }
    return 10; /* NVRTC_ERROR_NAME_EXPRESSION_NOT_VALID */
}
int nvrtcGetCUBINSize(struct nvrtc *p, size_t *size) { *size = 1; return 0; }
int nvrtcGetPTXSize(struct nvrtc *p, size_t *size) { *size = 1; return 0; }
int nvrtcGetProgramLogSize(struct nvrtc *p, size_t *size) { *size = 1; return 0; }
int nvrtcGetCUBIN(struct nvrtc *p, char *into) { *into = 0; return 0; }
int nvrtcGetPTX(struct nvrtc *p, char *into) { *into = 0; return 0; }
int nvrtcGetProgramLog(struct nvrtc *p, char *into) { *into = 0; return 0; }
