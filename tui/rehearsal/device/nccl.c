/* NCCL: collectives that take time. Each rank takes the others to hold what it holds itself. */
#include "simulated.h"
#include <stdlib.h>
#include <string.h>

struct comm { int rank, ranks; };
struct id { char bytes[128]; };
int ncclGetVersion(int *version) { *version = 22907; return 0; }
int ncclGetUniqueId(struct id *id) { memset(id, 7, sizeof *id); return 0; }
int ncclCommInitRankConfig(struct comm **c, int ranks, struct id id, int rank, void *config) {
    if (sim_ready()) return 1;
    *c = malloc(sizeof **c);
    **c = (struct comm){ rank, ranks };
    return 0;
}
int ncclCommInitRank(struct comm **c, int ranks, struct id id, int rank) { return ncclCommInitRankConfig(c, ranks, id, rank, NULL); }
int ncclCommInitRankScalable(struct comm **c, int ranks, int rank, int count, struct id *ids, void *config) { return ncclCommInitRankConfig(c, ranks, *ids, rank, config); }
int ncclCommInitAll(struct comm **c, int ranks, const int *devices) {
    for (int i = 0; i < ranks; i++) if (ncclCommInitRankConfig(&c[i], ranks, (struct id){ { 0 } }, i, NULL)) return 1;
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
    for (int rank = 0; rank < c->ranks; rank++) sim_move((char *)to + (size_t)rank * bytes_of(n, type), from, bytes_of(n, type));
    return collective(NULL, to, bytes_of(n, type), stream);
}
#define ONE_SIDED(name) int nccl##name(void *at, size_t n, int type, int peer, struct comm *c, void *stream) { return collective(NULL, at, bytes_of(n, type), stream); }
ONE_SIDED(Bcast) ONE_SIDED(Send) ONE_SIDED(Recv)
