/* Kernels that are compiled while a program runs: NVRTC compiles to nothing, a module holds nothing, and
 * its functions take time like other kernels. */
#include "simulated.h"
#include <stdlib.h>
#include <string.h>

enum { INVALID_VALUE = 1, NVRTC_OUT_OF_MEMORY = 1, NVRTC_UNKNOWN_NAME = 10 };
enum { MAX_THREADS_PER_BLOCK = 0, NUM_REGS = 4, MAX_DYNAMIC_SHARED = 8 }; /* CUfunction_attribute */
static char nothing; /* what a module or a function points to */

/* ---- NVRTC ---- */

struct program { int count; char **names; };

int nvrtcVersion(int *major, int *minor) { *major = CUDA_VERSION / 1000; *minor = CUDA_VERSION % 1000 / 10; return 0; }
int nvrtcCreateProgram(struct program **p, const char *source, const char *name, int headers, const char *const *texts, const char *const *names) {
    *p = calloc(1, sizeof **p);
    return *p ? 0 : NVRTC_OUT_OF_MEMORY;
}
int nvrtcDestroyProgram(struct program **p) {
    for (int i = 0; i < (*p)->count; i++) free((*p)->names[i]);
    free((*p)->names);
    free(*p);
    *p = NULL;
    return 0;
}
int nvrtcAddNameExpression(struct program *p, const char *name) {
    char **names = realloc(p->names, sizeof *names * (size_t)(p->count + 1)), *copy = strdup(name);
    if (names) p->names = names;
    if (!names || !copy) { free(copy); return NVRTC_OUT_OF_MEMORY; }
    p->names[p->count++] = copy;
    return 0;
}
int nvrtcGetLoweredName(struct program *p, const char *name, const char **lowered) {
    for (int i = 0; i < p->count; i++) if (!strcmp(p->names[i], name)) { *lowered = p->names[i]; return 0; }
    return NVRTC_UNKNOWN_NAME;
}
int nvrtcCompileProgram(struct program *p, int count, const char *const *options) { return 0; }
#define TEXT(name, ...) \
    int nvrtcGet##name##Size(struct program *p, size_t *size) { *size = sizeof (char[]){ __VA_ARGS__ }; return 0; } \
    int nvrtcGet##name(struct program *p, char *into) { memcpy(into, (char[]){ __VA_ARGS__ }, sizeof (char[]){ __VA_ARGS__ }); return 0; }
TEXT(PTX, '/', '/', 0) TEXT(CUBIN, 0, 0, 0, 0) TEXT(ProgramLog, 0)

/* ---- modules ---- */

int cuModuleLoad(void **module, const char *file) { *module = &nothing; return sim_ready(); }
int cuModuleLoadData(void **module, const void *image) { *module = &nothing; return sim_ready(); }
int cuModuleLoadDataEx(void **module, const void *image, unsigned count, int *options, void **values) { *module = &nothing; return sim_ready(); }
int cuModuleUnload(void *module) { return 0; }
int cuModuleGetFunction(void **function, void *module, const char *name) { *function = &nothing; return 0; }
int cuFuncGetAttribute(int *value, int attribute, void *function) {
    *value = attribute == MAX_THREADS_PER_BLOCK ? 1024 : attribute == NUM_REGS ? 32 : attribute == MAX_DYNAMIC_SHARED ? (int)(sim_option("SIMULATED_GPU_BLOCK_KIB", 227) << 10) : 0;
    return 0;
}
int cuFuncSetAttribute(void *function, int attribute, int value) { return 0; }
int cuFuncSetCacheConfig(void *function, int config) { return 0; }
int cuOccupancyMaxActiveBlocksPerMultiprocessor(int *blocks, void *function, int threads, size_t shared) {
    int most = (int)sim_option("SIMULATED_GPU_SM_THREADS", 2048);
    if (threads < 1) return INVALID_VALUE;
    *blocks = threads > most ? 1 : threads < 64 ? most / 64 : most / threads;
    return 0;
}
int cuOccupancyMaxActiveClusters(int *clusters, void *function, const void *config) { *clusters = 1; return 0; }
int cuTensorMapEncodeTiled(void *map, ...) { memset(map, 0, 128); return 0; }

int cuLaunchKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, void *stream, void **arguments, void **extra) {
    return sim_launch(stream, (uint64_t)gx * gy * gz, (uint64_t)bx * by * bz);
}
int cuLaunchCooperativeKernel(void *function, unsigned gx, unsigned gy, unsigned gz, unsigned bx, unsigned by, unsigned bz, unsigned shared, void *stream, void **arguments) {
    return sim_launch(stream, (uint64_t)gx * gy * gz, (uint64_t)bx * by * bz);
}
struct launch { unsigned grid[3], block[3], shared; void *stream, *attributes; unsigned count; }; /* CUlaunchConfig */
int cuLaunchKernelEx(const struct launch *l, void *function, void **arguments, void **extra) {
    return sim_launch(l->stream, (uint64_t)l->grid[0] * l->grid[1] * l->grid[2], (uint64_t)l->block[0] * l->block[1] * l->block[2]);
}

/* ---- the driver's functions that a launcher of such kernels asks for first ---- */

int cuInit(unsigned flags) { return 0; }
int cuDriverGetVersion(int *version) { *version = 13000; return 0; }
int cuCtxGetDevice(int *device) { *device = sim_current(); return 0; }
int cuCtxGetLimit(size_t *value, int limit) { *value = 1 << 20; return 0; }
int cuCtxSetLimit(int limit, size_t value) { return 0; }
int cuTensorMapEncodeIm2col(void *map, ...) { memset(map, 0, 128); return 0; }
