/* cuBLAS and cuBLASLt: a handle, and products that take the time that their size asks for. */
#include "simulated.h"
#include <stdlib.h>
#include <string.h>

enum type { R_32F = 0, R_64F = 1, R_16F = 2, R_16BF = 14 }; /* of cudaDataType */
struct blas { void *stream; int math; };

int cublasCreate_v2(struct blas **h) {
    static int loaded; /* the library's own kernels grow the context, once */
    if (sim_ready()) return 1;
    int64_t mib = __atomic_exchange_n(&loaded, 1, __ATOMIC_RELAXED) ? sim_option("SIMULATED_GPU_BLAS_HANDLE_MIB", 0) : sim_option("SIMULATED_GPU_BLAS_MIB", 34);
    sim_take(sim_current(), (uint64_t)mib * MIB, CONTEXT);
    *h = calloc(1, sizeof **h);
    return 0;
}
int cublasSetStream_v2(struct blas *h, void *stream) { h->stream = stream; return 0; }
int cublasSetMathMode(struct blas *h, int mode) { h->math = mode; return 0; }
int cublasGetMathMode(struct blas *h, int *mode) { *mode = h->math; return 0; }
int cublasGetPointerMode_v2(struct blas *h, int *mode) { *mode = 0; return 0; }
int sim_blas_other(struct blas *h) { return sim_work(h->stream, COMPUTE, 5000) ? 13 : 0; } /* what build.py generates calls this */

/* A tenth of an H200's rates, in operations a nanosecond, so that the host can keep up. */
static int product(void *stream, double operations, int type, int tf32) {
    double rate = type == R_64F ? 6e3 : type == R_32F ? (tf32 ? 40e3 : 5e3) : type == R_16F || type == R_16BF ? 80e3 : 160e3;
    return sim_work(stream, COMPUTE, 2500 + (uint64_t)(operations / rate)) ? 13 : 0;
}
#define SHAPE struct blas *h, int ta, int tb, int m, int n, int k
#define PRODUCT(letter, type, factor) int cublas##letter##gemm_v2(SHAPE, ...) { return product(h->stream, factor * m * n * k, type, h->math & 3); }
PRODUCT(S, R_32F, 2.0) PRODUCT(D, R_64F, 2.0) PRODUCT(C, R_32F, 8.0) PRODUCT(Z, R_64F, 8.0)
#define BATCHED(letter, type) \
    int cublas##letter##gemmStridedBatched(SHAPE, const void *alpha, const void *a, int la, long long sa, const void *b, int lb, long long sb, const void *beta, void *c, int lc, long long sc, int count) { return product(h->stream, 2.0 * m * n * k * count, type, h->math & 3); }
BATCHED(S, R_32F) BATCHED(D, R_64F)
int cublasSgemmEx(SHAPE, const void *alpha, const void *a, int type, ...) { return product(h->stream, 2.0 * m * n * k, type, 0); }
int cublasGemmEx(SHAPE, const void *alpha, const void *a, int type, ...) { return product(h->stream, 2.0 * m * n * k, type, h->math & 3); }
int cublasGemmStridedBatchedEx(SHAPE, const void *alpha, const void *a, int type, int la, long long sa, const void *b, int bt, int lb, long long sb, const void *beta, void *c, int ct, int lc, long long sc, int count, int compute, int algorithm) { return product(h->stream, 2.0 * m * n * k * count, type, h->math & 3); }

/* cublasLt: the layouts tell the size. torch gives room for 256 bytes of each opaque structure. */
struct lt_description { int transposed_a; };
struct lt_layout { int type; uint64_t rows, columns; int32_t batch; };
struct lt_result { uint64_t algorithm[8]; size_t workspace; int state; float waves; int reserved[4]; };
size_t cublasLtGetVersion(void) { return 130101; }
int cublasLtMatmulDescCreate(struct lt_description **d, int compute, int scale) { *d = calloc(1, 256); return 0; }
int cublasLtMatmulDescSetAttribute(struct lt_description *d, int attribute, const void *value, size_t size) { if (attribute == 3 /* TRANSA */) memcpy(&d->transposed_a, value, 4); return 0; }
int cublasLtMatrixLayoutCreate(struct lt_layout **l, int type, uint64_t rows, uint64_t columns, int64_t ld) { *l = calloc(1, 256); **l = (struct lt_layout){ type, rows, columns, 1 }; return 0; }
int cublasLtMatrixLayoutSetAttribute(struct lt_layout *l, int attribute, const void *value, size_t size) { if (attribute == 5 /* BATCH_COUNT */) memcpy(&l->batch, value, 4); return 0; }
int cublasLtMatmulAlgoGetHeuristic(void *h, void *d, void *a, void *b, void *c, void *e, void *preference, int wanted, struct lt_result *results, int *found) {
    memset(results, 0, sizeof *results * (size_t)wanted);
    results->waves = 1;
    *found = 1;
    return 0;
}
int cublasLtMatmul(void *h, struct lt_description *d, const void *alpha, const void *a, struct lt_layout *la, const void *b, struct lt_layout *lb, const void *beta, const void *c, struct lt_layout *lc, void *o, struct lt_layout *lo, const void *algorithm, void *workspace, size_t size, void *stream) {
    return product(stream, 2.0 * lo->rows * lo->columns * (d->transposed_a ? la->rows : la->columns) * lo->batch, la->type, 0);
}
