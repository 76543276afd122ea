/* Launches of the kernels that were compiled into torch: they take time and have no effect. */
#include "simulated.h"
#include <cuda_runtime_api.h>

/* torch registers its kernels as it is loaded; nothing needs to be known of them. */
void **__cudaRegisterFatBinary(void *binary) { static void *handle; return &handle; }
char __cudaInitModule(void **handle) { return 1; }

struct call { struct dim3 grid, block; size_t shared; void *stream; };
static __thread struct call calls[16];
static __thread int depth;
unsigned __cudaPushCallConfiguration(struct dim3 grid, struct dim3 block, size_t shared, void *stream) {
    if (depth == 16) return 1;
    calls[depth++] = (struct call){ grid, block, shared, stream };
    return 0;
}
cudaError_t __cudaPopCallConfiguration(struct dim3 *grid, struct dim3 *block, size_t *shared, void *stream) {
    if (!depth) return cudaErrorUnknown;
    struct call *c = &calls[--depth];
    *grid = c->grid; *block = c->block; *shared = c->shared; *(void **)stream = c->stream;
    return 0;
}

/* A thread is taken to read and write four elements of four bytes. */
static int launch(const void *kernel, struct dim3 grid, struct dim3 block, cudaStream_t stream) {
    uint64_t threads = (uint64_t)grid.x * grid.y * grid.z * block.x * block.y * block.z;
    READY;
    if (!threads || (uint64_t)block.x * block.y * block.z > 1024) return sim_fail(cudaErrorInvalidConfiguration);
    return sim_work(stream, COMPUTE, 1800 + threads * 32 / (uint64_t)sim_option("SIMULATED_GPU_MEMORY_GB_S", 4000));
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
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(int *blocks, const void *kernel, int threads, size_t shared, unsigned flags) {
    READY;
    *blocks = threads > 0 ? 2048 / threads : 1;
    if (*blocks < 1) *blocks = 1;
    if (*blocks > 32) *blocks = 32;
    return 0;
}
cudaError_t cudaOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, const void *kernel, int threads, size_t shared) { return cudaOccupancyMaxActiveBlocksPerMultiprocessorWithFlags(blocks, kernel, threads, shared, 0); }
