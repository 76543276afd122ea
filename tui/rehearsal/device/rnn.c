/* cuDNN's recurrent layers. The weights have cuDNN's sizes: for each layer and direction, the matrices of
 * the input, then those of the hidden state, then those of a projection; after all of them the biases. The
 * room for temporaries is an allowance, because cuDNN's own choice is not documented. */
#include "simulated.h"
#include <stdlib.h>
#include <string.h>

enum { BAD_PARAM = 2000, EXECUTION_FAILED = 5000 };
enum { NO_BIAS = 0, SINGLE_INPUT_BIAS = 1, DOUBLE_BIAS = 2, SINGLE_HIDDEN_BIAS = 3 }; /* cudnnRNNBiasMode_t */
enum { MOST_DIMENSIONS = 8 };

struct tensor { int type, count, sizes[MOST_DIMENSIONS], strides[MOST_DIMENSIONS]; };
struct rnn { int cell, bias, directions, skip_input, type, input, hidden, projected, layers; };
struct dropout { int unused; };
struct sequence { int type, steps, batch, width; };
struct handle { void *stream; }; /* as dnn.c makes it */

static size_t bytes_of(int type) { return type == 1 /* double */ ? 8 : type == 2 || type == 9 /* half, bfloat16 */ ? 2 : 4; } /* of a cudnnDataType_t */

/* ---- descriptors ---- */

#define DESCRIPTOR(name, type) \
    int cudnnCreate##name##Descriptor(struct type **d) { *d = calloc(1, sizeof **d); return *d ? 0 : 2002; } \
    int cudnnDestroy##name##Descriptor(struct type *d) { free(d); return 0; }
DESCRIPTOR(Tensor, tensor) DESCRIPTOR(RNN, rnn) DESCRIPTOR(RNNData, sequence) DESCRIPTOR(Dropout, dropout)

int cudnnSetTensorNdDescriptor(struct tensor *d, int type, int count, const int *sizes, const int *strides) {
    if (count < 1 || count > MOST_DIMENSIONS) return BAD_PARAM;
    *d = (struct tensor){ .type = type, .count = count };
    memcpy(d->sizes, sizes, sizeof(int) * (size_t)count);
    memcpy(d->strides, strides, sizeof(int) * (size_t)count);
    return 0;
}
int cudnnGetTensorNdDescriptor(const struct tensor *d, int wanted, int *type, int *count, int *sizes, int *strides) {
    *type = d->type;
    *count = d->count;
    for (int i = 0; i < wanted && i < d->count; i++) { sizes[i] = d->sizes[i]; strides[i] = d->strides[i]; }
    return 0;
}
int cudnnSetRNNDescriptor_v8(struct rnn *d, int algorithm, int cell, int bias, int direction, int input_mode, int type, int precision, int math, int input, int hidden, int projected, int layers, void *dropout, unsigned flags) {
    if (input < 1 || hidden < 1 || layers < 1) return BAD_PARAM;
    *d = (struct rnn){ cell, bias, direction + 1, input_mode == 1, type, input, hidden, projected, layers };
    return 0;
}
int cudnnSetRNNDataDescriptor(struct sequence *d, int type, int layout, int steps, int batch, int width, const int *lengths, void *fill) {
    *d = (struct sequence){ type, steps, batch, width };
    return 0;
}

/* The states of the generators: an allowance of 64 KiB for each multiprocessor. */
int cudnnDropoutGetStatesSize(void *h, size_t *size) { *size = (size_t)sim_option("SIMULATED_GPU_SM_COUNT", 132) << 16; return 0; }
int cudnnSetDropoutDescriptor(void) { return 0; }
int cudnnRestoreDropoutDescriptor(void) { return 0; }

/* ---- weights ---- */

static int gates_of(const struct rnn *d) { return d->cell == 2 /* LSTM */ ? 4 : d->cell == 3 /* GRU */ ? 3 : 1; }
static int has_projection(const struct rnn *d) { return d->projected > 0 && d->projected < d->hidden; }
static uint64_t state_of(const struct rnn *d) { return (uint64_t)(has_projection(d) ? d->projected : d->hidden); }
static uint64_t columns_of(const struct rnn *d, int layer, int on_input) { /* of a matrix of a pseudo-layer */
    if (!on_input) return state_of(d);
    if (layer >= d->directions) return state_of(d) * (uint64_t)d->directions;
    return d->skip_input ? 0 : (uint64_t)d->input;
}
static uint64_t matrices_of(const struct rnn *d, int layer) { /* elements */
    uint64_t rows = (uint64_t)gates_of(d) * (uint64_t)d->hidden;
    return rows * (columns_of(d, layer, 1) + columns_of(d, layer, 0)) + (has_projection(d) ? (uint64_t)d->projected * (uint64_t)d->hidden : 0);
}
static int biases_of(const struct rnn *d) { return d->bias == NO_BIAS ? 0 : d->bias == DOUBLE_BIAS ? 2 * gates_of(d) : gates_of(d); } /* vectors */
static uint64_t all_matrices(const struct rnn *d, int layers) {
    uint64_t sum = 0;
    for (int layer = 0; layer < layers; layer++) sum += matrices_of(d, layer);
    return sum;
}

int cudnnGetRNNWeightSpaceSize(void *h, const struct rnn *d, size_t *size) {
    int layers = d->layers * d->directions;
    *size = bytes_of(d->type) * (all_matrices(d, layers) + (uint64_t)layers * (uint64_t)biases_of(d) * (uint64_t)d->hidden);
    return 0;
}

/* A part of the weights; rows 0: it does not exist. A caller that wants to know only of the matrices, or only
 * of the biases, passes no pointers for the others. */
static void describe(struct tensor *d, char **into, const struct rnn *of, char *weights, uint64_t at, uint64_t rows, uint64_t columns) {
    if (d) *d = (struct tensor){ of->type, 3, { rows > 0, (int)rows, (int)columns }, { (int)(rows * columns), (int)columns, 1 } };
    if (into) *into = rows ? weights + bytes_of(of->type) * at : NULL;
}
/* Matrix and bias `which`: first those of the input, a gate each, then those of the hidden state, then the projection. */
int cudnnGetRNNWeightParams(void *h, const struct rnn *d, int layer, size_t size, char *weights, int which, struct tensor *matrix, char **matrix_at, struct tensor *bias, char **bias_at) {
    int gates = gates_of(d), layers = d->layers * d->directions;
    uint64_t hidden = (uint64_t)d->hidden, rows = hidden, on_inputs = columns_of(d, layer, 1), on_states = columns_of(d, layer, 0);
    if (layer < 0 || layer >= layers || which < 0 || which > 2 * gates) return BAD_PARAM;

    uint64_t at = all_matrices(d, layer), columns = which < gates ? on_inputs : which < 2 * gates ? on_states : hidden;
    if (which < gates) at += (uint64_t)which * hidden * on_inputs;
    else at += (uint64_t)gates * hidden * on_inputs + (uint64_t)(which - gates) * hidden * on_states;
    if (!columns) rows = 0; /* the input is not multiplied */
    if (which == 2 * gates) rows = has_projection(d) ? (uint64_t)d->projected : 0;
    describe(matrix, matrix_at, d, weights, at, rows, columns);

    int vector = d->bias == SINGLE_HIDDEN_BIAS ? which - gates : which, exists = vector >= 0 && vector < biases_of(d);
    at = all_matrices(d, layers) + ((uint64_t)layer * (uint64_t)biases_of(d) + (uint64_t)vector) * hidden;
    describe(bias, bias_at, d, weights, at, exists ? hidden : 0, 1);
    return 0;
}

/* ---- work ---- */

/* Allowances: the gates of one layer for all steps while it works; in a training, the gates and the
 * state of all layers for the backward pass. */
int cudnnGetRNNTempSpaceSizes(void *h, const struct rnn *d, int training, const struct sequence *x, size_t *work, size_t *reserve) {
    uint64_t one = (uint64_t)x->steps * (uint64_t)x->batch * (uint64_t)d->hidden * (uint64_t)d->directions * bytes_of(d->type);
    uint64_t gates = (uint64_t)gates_of(d);
    if (work) *work = one * gates;
    if (reserve) *reserve = training ? one * (gates + (d->cell == 2 ? 2 : 1)) * (uint64_t)d->layers : 0;
    return 0;
}
static int work(struct handle *h, const struct rnn *d) { return sim_work(h->stream, COMPUTE, 50000ull * (uint64_t)d->layers) ? EXECUTION_FAILED : 0; }
int cudnnRNNForward(struct handle *h, const struct rnn *d) { return work(h, d); }
int cudnnRNNBackwardData_v8(struct handle *h, const struct rnn *d) { return work(h, d); }
int cudnnRNNBackwardWeights_v8(struct handle *h, const struct rnn *d) { return work(h, d); }
