/* cuDNN: its backend's descriptors as bags of attributes, four engines for each convolution of which
 * the third is twice as fast, and the older calls that torch still makes for normalisation. */
#include "simulated.h"
#include <stdlib.h>
#include <string.h>

enum { BAD_PARAM = 2000, EXECUTION_FAILED = 5000 };
enum { CONVOLUTION_FORWARD = 10, CONVOLUTION_BACKWARD_DATA = 12 }; /* of cudnnBackendDescriptorType_t, with backward filter between them */
enum { ENGINECFG_ENGINE = 300, ENGINEHEUR_RESULTS = 202, PLAN_CONFIG = 401, PLAN_WORKSPACE = 402, ENGINE_GLOBAL_INDEX = 1301 };
enum { ENGINES_OFFERED = 4, MOST_ATTRIBUTES = 48 };

struct dnn { void *stream; };
struct attribute { int name, type; int64_t count; char *bytes; };
struct bag { int64_t engine; int count; struct attribute items[MOST_ATTRIBUTES]; };

int cudnnCreate(struct dnn **h) {
    static int loaded;
    if (sim_ready()) return 1001;
    if (!__atomic_exchange_n(&loaded, 1, __ATOMIC_RELAXED)) sim_take(sim_current(), (uint64_t)sim_option("SIMULATED_GPU_DNN_MIB", 90) * MIB, CONTEXT);
    *h = calloc(1, sizeof **h);
    return 0;
}
int cudnnSetStream(struct dnn *h, void *stream) { h->stream = stream; return 0; }
int cudnnGetStream(struct dnn *h, void **stream) { *stream = h->stream; return 0; }
size_t cudnnGetVersion(void) { return CUDNN_VERSION; } /* the one that torch requires */
int cudnnGetProperty(int part, int *value) { *value = (int[]){ CUDNN_VERSION / 10000, CUDNN_VERSION / 100 % 100, CUDNN_VERSION % 100 }[part]; return 0; } /* major, minor, patch */

static size_t size_of(int type) { /* of a cudnnBackendAttributeType_t */
    switch (type) {
    case 0: case 3: case 5: case 6: case 15: return 8; /* handle, int64, double, pointer, descriptor */
    case 2: case 24: return 1;                         /* boolean, char */
    case 26: return 16;                                /* fraction */
    default: return 4;                                 /* float, int32, enumerations */
    }
}
static struct attribute *item(struct bag *d, int name) { for (int i = 0; i < d->count; i++) if (d->items[i].name == name) return &d->items[i]; return NULL; }
int cudnnBackendCreateDescriptor(int type, struct bag **d) { if (type >= CONVOLUTION_FORWARD && type <= CONVOLUTION_BACKWARD_DATA) sim_note_estimate(); *d = calloc(1, sizeof **d); (*d)->engine = -1; return 0; }
int cudnnBackendDestroyDescriptor(struct bag *d) { for (int i = 0; d && i < d->count; i++) free(d->items[i].bytes); free(d); return 0; }
int cudnnBackendFinalize(struct bag *d) { return 0; }
int cudnnBackendSetAttribute(struct bag *d, int name, int type, int64_t count, const void *bytes) {
    struct attribute *a = item(d, name);
    if (!bytes) return BAD_PARAM;
    if ((name == PLAN_CONFIG || name == ENGINECFG_ENGINE) && count > 0) d->engine = (*(struct bag *const *)bytes)->engine;
    if (name == ENGINE_GLOBAL_INDEX) d->engine = *(const int64_t *)bytes;
    if (!a && d->count == MOST_ATTRIBUTES) return BAD_PARAM;
    if (!a) a = &d->items[d->count++];
    free(a->bytes);
    *a = (struct attribute){ name, type, count, malloc(size_of(type) * (size_t)count + 1) };
    memcpy(a->bytes, bytes, size_of(type) * (size_t)count);
    return 0;
}
int cudnnBackendGetAttribute(struct bag *d, int name, int type, int64_t wanted, int64_t *count, void *into) {
    int64_t unasked;
    struct attribute *a = item(d, name);
    if (!count) count = &unasked;
    *count = 1;
    if (name == ENGINEHEUR_RESULTS) {
        *count = into && wanted > 0 && wanted < ENGINES_OFFERED ? wanted : ENGINES_OFFERED;
        for (int64_t i = 0; into && wanted > 0 && i < *count; i++) ((struct bag **)into)[i]->engine = i;
    } else if (name == ENGINECFG_ENGINE && into && wanted > 0) (*(struct bag **)into)->engine = d->engine;
    else if (name == ENGINE_GLOBAL_INDEX && into) *(int64_t *)into = d->engine < 0 ? 0 : d->engine;
    else if (name == PLAN_WORKSPACE && into) *(int64_t *)into = 4 * MIB;
    else if (a) {
        *count = a->count;
        if (into) memcpy(into, a->bytes, size_of(a->type) * (size_t)(a->count < wanted ? a->count : wanted));
    } else if (into && wanted == 1 && type == 3 /* int64 */) *(int64_t *)into = 0;
    else if (into && wanted == 1 && type == 23 /* int32 */) *(int32_t *)into = 0;
    else *count = 0;
    return 0;
}
int cudnnBackendExecute(struct dnn *h, struct bag *plan, struct bag *variants) {
    uint64_t ns = (uint64_t)sim_option("SIMULATED_GPU_CONVOLUTION_NS", 300000);
    return sim_work(h->stream, COMPUTE, plan->engine == 2 ? ns / 2 : ns) ? EXECUTION_FAILED : 0;
}

#define WORK(name) int name(struct dnn *h) { return sim_work(h->stream, COMPUTE, 20000) ? EXECUTION_FAILED : 0; }
WORK(cudnnBatchNormalizationForwardTrainingEx) WORK(cudnnBatchNormalizationForwardInference) WORK(cudnnBatchNormalizationBackwardEx)
WORK(cudnnConvolutionForward) WORK(cudnnConvolutionBackwardData) WORK(cudnnConvolutionBackwardFilter) WORK(cudnnConvolutionBiasActivationForward)
WORK(cudnnPoolingForward)
int cudnnGetBatchNormalizationForwardTrainingExWorkspaceSize(void *h, int m, int o, void *a, void *b, void *c, void *d, void *e, size_t *size) { *size = 0; return 0; }
int cudnnGetBatchNormalizationTrainingExReserveSpaceSize(void *h, int m, int o, void *a, void *b, size_t *size) { *size = 4096; return 0; }
int cudnnGetBatchNormalizationBackwardExWorkspaceSize(void *h, int m, int o, void *a, void *b, void *c, void *d, void *e, void *f, void *g, size_t *size) { *size = 0; return 0; }
