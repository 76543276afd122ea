/* cuFFT: plans whose work area is an allowance: the size of the data in its complex form. cuFFT's own
 * choice is not documented, beyond "in the worst case" eight times as much. */
#include "simulated.h"
#include <stdlib.h>

enum { SUCCESS, INVALID_PLAN, EXECUTION_FAILED = 6, INVALID_SIZE = 8 }; /* of cufftResult */
enum { R_32F = 0, R_64F = 1, R_16F = 2, C_64F = 5, C_16F = 6, R_16BF = 14, C_16BF = 15 }; /* of cudaDataType */
enum { MOST_PLANS = 8192 }; /* torch keeps up to 4096 for each device */

struct plan { int used; void *stream; uint64_t bytes; };
static struct plan plans[MOST_PLANS];

static struct plan *plan_of(int handle) { return handle >= 0 && handle < MOST_PLANS && plans[handle].used ? &plans[handle] : NULL; }
static int is_real(int type) { return type == R_32F || type == R_64F || type == R_16F || type == R_16BF; }

int cufftCreate(int *handle) {
    int found = -1;
    if (sim_ready()) return 5; /* CUFFT_INTERNAL_ERROR */
    pthread_mutex_lock(&sim_mutex);
    for (int i = 0; i < MOST_PLANS && found < 0; i++) if (!plans[i].used) found = i;
    if (found >= 0) plans[found] = (struct plan){ .used = 1 };
    pthread_mutex_unlock(&sim_mutex);
    *handle = found;
    return found < 0 ? 2 /* CUFFT_ALLOC_FAILED */ : SUCCESS;
}
int cufftDestroy(int handle) {
    struct plan *p = plan_of(handle);
    if (!p) return INVALID_PLAN;
    p->used = 0;
    return SUCCESS;
}
int cufftSetAutoAllocation(int handle, int automatic) { return plan_of(handle) ? SUCCESS : INVALID_PLAN; } /* torch allocates */
int cufftSetWorkArea(int handle, void *area) { return plan_of(handle) ? SUCCESS : INVALID_PLAN; }
int cufftSetStream(int handle, void *stream) {
    struct plan *p = plan_of(handle);
    if (!p) return INVALID_PLAN;
    p->stream = stream;
    return SUCCESS;
}
int cufftXtMakePlanMany(int handle, int rank, long long *n, long long *in_embed, long long in_stride, long long in_distance, int in_type,
                        long long *out_embed, long long out_stride, long long out_distance, int out_type, long long batch, size_t *size, int type) {
    struct plan *p = plan_of(handle);
    uint64_t count = (uint64_t)batch;
    if (!p) return INVALID_PLAN;
    for (int i = 0; i < rank; i++) {
        if (n[i] < 1) return INVALID_SIZE;
        /* Of the transform of real numbers, one half of the last dimension is stored. */
        int halved = i == rank - 1 && (is_real(in_type) || is_real(out_type));
        count *= (uint64_t)(halved ? n[i] / 2 + 1 : n[i]);
    }
    p->bytes = count * (type == C_64F || type == R_64F ? 16 : type == C_16F || type == C_16BF || type == R_16F || type == R_16BF ? 4 : 8);
    *size = p->bytes;
    return SUCCESS;
}
int cufftXtExec(int handle, void *in, void *out, int direction) {
    struct plan *p = plan_of(handle);
    if (!p) return INVALID_PLAN;
    return sim_work(p->stream, COMPUTE, 3000 + 4 * p->bytes / (uint64_t)sim_option("SIMULATED_GPU_MEMORY_GB_S", 4000)) ? EXECUTION_FAILED : SUCCESS;
}
