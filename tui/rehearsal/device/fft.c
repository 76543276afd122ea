/* cuFFT: plans that know the size of their data. The work area, which torch allocates, is estimated as
 * one complex copy of the data. */
#include "simulated.h"
#include <stdlib.h>

enum { OK = 0, INVALID_PLAN = 1, ALLOCATION_FAILED = 2, INVALID_VALUE = 4, EXECUTION_FAILED = 6, MOST_PLANS = 4096 };
struct plan { int used; void *stream; size_t bytes; };

static struct plan plans[MOST_PLANS]; /* torch keeps up to 4096 of a device; its number is its place */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;

static struct plan *find(int number) { return number > 0 && number < MOST_PLANS && plans[number].used ? &plans[number] : NULL; }

int cufftCreate(int *number) {
    int result = ALLOCATION_FAILED;
    pthread_mutex_lock(&mutex);
    for (int i = 1; i < MOST_PLANS && result; i++) {
        if (plans[i].used) continue;
        plans[i] = (struct plan){ .used = 1 };
        *number = i;
        result = OK;
    }
    pthread_mutex_unlock(&mutex);
    return result;
}
int cufftDestroy(int number) {
    struct plan *p = find(number);
    if (!p) return INVALID_PLAN;
    p->used = 0;
    return OK;
}
int cufftSetAutoAllocation(int number, int automatic) { return find(number) ? OK : INVALID_PLAN; }
int cufftSetStream(int number, void *stream) {
    struct plan *p = find(number);
    if (!p) return INVALID_PLAN;
    p->stream = stream;
    return OK;
}
int cufftSetWorkArea(int number, void *area) { return find(number) ? OK : INVALID_PLAN; }

/* Types are those of cudaDataType: 32-bit, 64-bit and 16-bit numbers, real (0, 1, 2) or complex (4, 5, 6). */
int cufftXtMakePlanMany(int number, int rank, long long *sizes, long long *in, long long in_stride, long long in_distance, int in_type, long long *out, long long out_stride, long long out_distance, int out_type, long long batch, size_t *work, int type) {
    struct plan *p = find(number);
    size_t count = (size_t)batch;
    if (!p) return INVALID_PLAN;
    if (rank < 1 || rank > 3 || batch < 1) return INVALID_VALUE;
    for (int i = 0; i < rank; i++) count *= (size_t)sizes[i];
    p->bytes = count * 2 * (size_t)(type % 4 == 1 ? 8 : type % 4 == 2 ? 2 : 4);
    *work = p->bytes;
    return OK;
}
int cufftXtExec(int number, void *in, void *out, int direction) {
    struct plan *p = find(number);
    if (!p) return INVALID_PLAN;
    uint64_t ns = 2000 + 2 * p->bytes / (uint64_t)sim_option("SIMULATED_GPU_MEMORY_GB_S", 4000);
    return sim_work(p->stream, COMPUTE, ns) ? EXECUTION_FAILED : OK;
}
