/* NCCL: collectives that take time. Each rank takes the others to hold what it holds itself. A
 * communicator of several ranks takes memory for its buffers; cards.py says how much, and why. */
#include "simulated.h"
#include <stdlib.h>
#include <string.h>

struct comm { int rank, ranks, is_part, device; uint64_t buffers, connected; };
struct id { char bytes[128]; };
enum { UNHANDLED_CUDA_ERROR = 1 };
int ncclGetVersion(int *version) { *version = 22907; return 0; }
int ncclGetUniqueId(struct id *id) { memset(id, 7, sizeof *id); return 0; }
static int join(struct comm **c, int ranks, int rank, int device) {
    const char *size = ranks < 2 ? NULL : ranks == 2 ? "SIMULATED_GPU_NCCL_PAIR_MIB" : "SIMULATED_GPU_NCCL_GROUP_MIB";
    struct comm made = { rank, ranks, 0, device, size ? (uint64_t)sim_option(size, 0) * MIB : 0, 0 };
    if (sim_context(device) || sim_take(device, made.buffers, NCCL) || !(*c = malloc(sizeof **c))) return UNHANDLED_CUDA_ERROR;
    **c = made;
    return 0;
}
int ncclCommInitRankConfig(struct comm **c, int ranks, struct id id, int rank, void *config) { return join(c, ranks, rank, sim_current()); }
/* How many ranks of the parent have the same color is known only to them: those of the parent are assumed. */
int ncclCommSplit(struct comm *parent, int color, int key, struct comm **c, void *config) {
    *c = NULL;
    if (color < 0) return 0;
    int code = join(c, parent->ranks, key, sim_current());
    if (!code) (*c)->is_part = 1;
    return code;
}
int ncclCommDestroy(struct comm *c) {
    if (!c) return 0;
    sim_give_back(c->device, c->buffers, NCCL);
    free(c);
    return 0;
}
int ncclCommAbort(struct comm *c) { return ncclCommDestroy(c); }
int ncclCommInitRank(struct comm **c, int ranks, struct id id, int rank) { return ncclCommInitRankConfig(c, ranks, id, rank, NULL); }
int ncclCommInitRankScalable(struct comm **c, int ranks, int rank, int count, struct id *ids, void *config) { return ncclCommInitRankConfig(c, ranks, *ids, rank, config); }
int ncclCommInitAll(struct comm **c, int ranks, const int *devices) {
    for (int i = 0; i < ranks; i++) if (join(&c[i], ranks, i, devices ? devices[i] : i)) return UNHANDLED_CUDA_ERROR;
    return 0;
}
int ncclCommGetAsyncError(struct comm *c, int *error) { *error = 0; return 0; }
int ncclCommCount(struct comm *c, int *count) { *count = c->ranks; return 0; }
int ncclCommUserRank(struct comm *c, int *rank) { *rank = c->rank; return 0; }
static size_t bytes_of(size_t count, int type) { static const char sizes[] = { 1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1 }; return count * (size_t)sizes[type]; }
static int collective(const void *from, void *to, size_t bytes, void *stream) {
    if (from && to && from != to) sim_move(to, from, bytes);
    return sim_work(stream, COMPUTE, 10000 + bytes / 20) ? 1 : 0;
}
#define REDUCTION(name, ...) int nccl##name(const void *from, void *to, size_t n, int type, __VA_ARGS__ struct comm *c, void *stream) { return collective(from, to, bytes_of(n, type), stream); }
REDUCTION(AllReduce, int op,) REDUCTION(ReduceScatter, int op,) REDUCTION(Broadcast, int root,) REDUCTION(Reduce, int op, int root,)
int ncclAllGather(const void *from, void *to, size_t n, int type, struct comm *c, void *stream) {
    for (int rank = 0; rank < (c->is_part ? 1 : c->ranks); rank++) sim_move((char *)to + (size_t)rank * bytes_of(n, type), from, bytes_of(n, type));
    return collective(NULL, to, bytes_of(n, type), stream);
}
/* Sends, receives and all-to-all connect two ranks by channels of their own, at the first call. */
static int connect_to(struct comm *c, int peer) {
    uint64_t bit = 1ull << (peer & 63), bytes = (uint64_t)sim_option("SIMULATED_GPU_NCCL_PEER_MIB", 0) * MIB;
    if (peer == c->rank || c->connected & bit) return 0;
    if (sim_take(c->device, bytes, NCCL)) return UNHANDLED_CUDA_ERROR;
    c->connected |= bit;
    c->buffers += bytes;
    return 0;
}
/* From each rank comes its part for this one. */
int ncclAlltoAll(const void *from, void *to, size_t n, int type, struct comm *c, void *stream) {
    size_t bytes = bytes_of(n, type), ranks = c->is_part ? 1 : c->ranks, rank = c->is_part ? 0 : c->rank;
    for (int other = 0; other < c->ranks; other++) if (connect_to(c, other)) return UNHANDLED_CUDA_ERROR;
    for (size_t other = 0; other < ranks; other++) sim_move((char *)to + other * bytes, (const char *)from + rank * bytes, bytes);
    return collective(NULL, to, ranks * bytes, stream);
}
int ncclBcast(void *at, size_t n, int type, int root, struct comm *c, void *stream) { return collective(NULL, at, bytes_of(n, type), stream); }
#define ONE_SIDED(name) int nccl##name(void *at, size_t n, int type, int peer, struct comm *c, void *stream) { return connect_to(c, peer) ? UNHANDLED_CUDA_ERROR : collective(NULL, at, bytes_of(n, type), stream); }
ONE_SIDED(Send) ONE_SIDED(Recv)
