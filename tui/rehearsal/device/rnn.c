/* cuDNN's recurrent layers: parameters in one space, whose layout torch asks for, and work of some
 * length. The size of that space is cuDNN's; those of its other spaces are estimated. */
#include "simulated.h"
#include <stdlib.h>
#include <string.h>

enum { OK = 0, BAD_PARAM = 2000, EXECUTION_FAILED = 5000 };
enum { RELU = 0, TANH = 1, LSTM = 2, GRU = 3 }; /* cudnnRNNMode_t */
enum { DOUBLE = 1, HALF = 2, BFLOAT16 = 9 }; /* cudnnDataType_t; others have four bytes */
enum { MOST_DIMENSIONS = 8 };

struct dnn { void *stream; };
struct tensor { int type, count, sizes[MOST_DIMENSIONS], strides[MOST_DIMENSIONS]; };
struct sequences { int steps, batch; };
struct rnn { int mode, biases, directions, type; size_t input, hidden, projected, layers; };

int cudnnCreateTensorDescriptor(struct tensor **d) { *d = calloc(1, sizeof **d); return OK; }
int cudnnDestroyTensorDescriptor(struct tensor *d) { free(d); return OK; }
int cudnnSetTensorNdDescriptor(struct tensor *d, int type, int count, const int *sizes, const int *strides) {
    if (count < 0 || count > MOST_DIMENSIONS) return BAD_PARAM;
    d->type = type;
    d->count = count;
    memcpy(d->sizes, sizes, sizeof *sizes * (size_t)count);
    memcpy(d->strides, strides, sizeof *strides * (size_t)count);
    return OK;
}
int cudnnGetTensorNdDescriptor(struct tensor *d, int wanted, int *type, int *count, int *sizes, int *strides) {
    size_t given = sizeof *sizes * (size_t)(wanted < d->count ? wanted : d->count);
    *type = d->type;
    *count = d->count;
    memcpy(sizes, d->sizes, given);
    memcpy(strides, d->strides, given);
    return OK;
}

int cudnnCreateRNNDescriptor(struct rnn **r) { *r = calloc(1, sizeof **r); return OK; }
int cudnnDestroyRNNDescriptor(struct rnn *r) { free(r); return OK; }
int cudnnSetRNNDescriptor_v8(struct rnn *r, int algorithm, int mode, int bias, int direction, int input_mode, int type, int precision, int math, int input, int hidden, int projected, int layers, void *dropout, unsigned flags) {
    if (mode < RELU || mode > GRU) return BAD_PARAM;
    *r = (struct rnn){ mode, bias == 2 ? 2 : bias != 0, direction + 1, type, (size_t)input, (size_t)hidden, (size_t)projected, (size_t)layers };
    return OK;
}
int cudnnCreateRNNDataDescriptor(struct sequences **s) { *s = calloc(1, sizeof **s); return OK; }
int cudnnDestroyRNNDataDescriptor(struct sequences *s) { free(s); return OK; }
int cudnnSetRNNDataDescriptor(struct sequences *s, int type, int layout, int steps, int batch, int width, const int *lengths, void *padding) {
    *s = (struct sequences){ steps, batch };
    return OK;
}

static size_t bytes_of(int type) { return type == DOUBLE ? 8 : type == HALF || type == BFLOAT16 ? 2 : 4; }
static size_t gates(const struct rnn *r) { return r->mode == LSTM ? 4 : r->mode == GRU ? 3 : 1; }
static size_t output(const struct rnn *r) { return r->projected ? r->projected : r->hidden; }
static int projects(const struct rnn *r) { return r->projected && r->projected != r->hidden; }

/* A layer's matrices, in elements: those of the input, of the state, and of the projection. */
static size_t width_of(const struct rnn *r, size_t layer) { return layer < (size_t)r->directions ? r->input : output(r) * (size_t)r->directions; }
static size_t matrices_of(const struct rnn *r, size_t layer) {
    return gates(r) * r->hidden * (width_of(r, layer) + output(r)) + (projects(r) ? r->projected * r->hidden : 0);
}
static size_t all_matrices(const struct rnn *r, size_t before) {
    size_t sum = 0;
    for (size_t layer = 0; layer < before; layer++) sum += matrices_of(r, layer);
    return sum;
}
static size_t cells(const struct rnn *r) { return r->layers * (size_t)r->directions; }

int cudnnGetRNNWeightSpaceSize(void *h, struct rnn *r, size_t *size) {
    *size = bytes_of(r->type) * (all_matrices(r, cells(r)) + cells(r) * (size_t)r->biases * gates(r) * r->hidden);
    return OK;
}

/* The caller may ask for a matrix, a bias or both. */
static void describe(struct tensor *d, void **at, int type, const char *place, size_t rows, size_t columns) {
    if (d) *d = (struct tensor){ type, 3, { 1, (int)rows, (int)columns }, { (int)(rows * columns), (int)columns, 1 } };
    if (at) *at = (void *)place;
}
/* All matrices come first, then all biases; of each cell those of the input, then those of the state. */
int cudnnGetRNNWeightParams(void *h, struct rnn *r, int cell, size_t size, const void *space, int which, struct tensor *matrix, void **matrix_at, struct tensor *bias, void **bias_at) {
    size_t layer = (size_t)cell, gate = (size_t)which, each = gates(r), width = width_of(r, layer), state = output(r);
    size_t bytes = bytes_of(r->type), hidden = r->hidden, rows = hidden, columns = gate < each ? width : state;
    const char *from = (const char *)space + bytes * all_matrices(r, layer), *biases = (const char *)space + bytes * all_matrices(r, cells(r));
    if (matrix_at) *matrix_at = NULL;
    if (bias_at) *bias_at = NULL;
    if (layer >= cells(r) || gate > 2 * each || (gate == 2 * each && !projects(r))) return BAD_PARAM;
    size_t before = (gate < each ? gate : each) * hidden * width + (gate > each ? gate - each : 0) * hidden * state;
    if (gate == 2 * each) { rows = r->projected; columns = hidden; }
    describe(matrix, matrix_at, r->type, from + bytes * before, rows, columns);
    if (gate < 2 * each && (r->biases == 2 || (r->biases == 1 && gate < each)))
        describe(bias, bias_at, r->type, biases + bytes * (layer * (size_t)r->biases * each + gate) * hidden, hidden, 1);
    return OK;
}

/* What is kept for the backward pass was 736 000 000 bytes for an LSTM and 864 000 000 for a GRU of four
 * layers of 320 (pytorch#2895, on a P100): five and six values for each element of a layer's output, and
 * the outputs of all layers but the last. The workspace was 1.45 times the parameters of both. */
int cudnnGetRNNTempSpaceSizes(void *h, struct rnn *r, int training, struct sequences *s, size_t *work, size_t *reserve) {
    size_t kept = r->mode == LSTM ? 5 : r->mode == GRU ? 6 : 1, outputs = (size_t)s->steps * (size_t)s->batch * r->hidden;
    size_t parameters;
    sim_note_estimate();
    cudnnGetRNNWeightSpaceSize(h, r, &parameters);
    if (work) *work = parameters + parameters / 2;
    if (reserve) *reserve = training ? bytes_of(r->type) * outputs * (size_t)r->directions * (kept * r->layers + r->layers - 1) : 0;
    return OK;
}

int cudnnCreateDropoutDescriptor(void **d) { *d = malloc(1); return OK; }
int cudnnDestroyDropoutDescriptor(void *d) { free(d); return OK; }
int cudnnSetDropoutDescriptor(void *d, void *h, float rate, void *states, size_t size, unsigned long long seed) { return OK; }
int cudnnRestoreDropoutDescriptor(void *d, void *h, float rate, void *states, size_t size, unsigned long long seed) { return OK; }
/* A generator for each thread that the device can run; an estimate too. */
int cudnnDropoutGetStatesSize(void *h, size_t *size) {
    *size = 16 * (size_t)(sim_option("SIMULATED_GPU_SM_COUNT", 132) * sim_option("SIMULATED_GPU_SM_THREADS", 2048));
    return OK;
}

#define WORK(name) int name(struct dnn *h) { return sim_work(h->stream, COMPUTE, 100000) ? EXECUTION_FAILED : OK; }
WORK(cudnnRNNForward) WORK(cudnnRNNBackwardData_v8) WORK(cudnnRNNBackwardWeights_v8)
