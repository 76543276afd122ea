/* What a program may read back from a device that stores little (SIMULATED_GPU_STORED=0).
 *
 * Kernels compute nothing, so what they would write reads as zeros. But torch gives memory out again
 * without a word to the driver: where a kernel should have written the number of elements that a mask
 * chooses, there may be the bits of a batch that was copied there before, and a gigantic number is
 * read. So a read sees what was copied to the device only where it is plausible that nothing else was
 * written there since: the same place and size again, as for the lengths of a batch, or no kernel in
 * between. A few bytes are what kernels' counts are, so only the second holds for them. */
#include "simulated.h"
#include <stdlib.h>

enum { FEW = 16, RECENT = 64 };
struct store { uintptr_t at; size_t size; uint64_t launch; };

static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static uint64_t launches;
static struct store recent[RECENT];
static size_t recent_next;
static struct store *table; /* by place, with open addressing; an entry of size 0 was forgotten */
static size_t table_size, table_used;

void sim_note_launch(void) { __atomic_fetch_add(&launches, 1, __ATOMIC_RELAXED); }

static struct store *entry(uintptr_t at) { /* that of a place, or where it belongs */
    size_t i = (size_t)((at >> 4) * 0x9e3779b97f4a7c15ull) & (table_size - 1);
    while (table[i].at && table[i].at != at) i = (i + 1) & (table_size - 1);
    return &table[i];
}
static int grow(void) {
    struct store *old = table, *made;
    size_t size = table_size;
    if (table_used * 2 < table_size) return 1;
    if (!(made = calloc(size ? size * 2 : 1024, sizeof *made))) return 0;
    table = made;
    table_size = size ? size * 2 : 1024;
    for (size_t i = 0; i < size; i++) if (old[i].at) *entry(old[i].at) = old[i];
    free(old);
    return 1;
}

void sim_note_store(const void *at, size_t size) {
    struct store now = { (uintptr_t)at, size, __atomic_load_n(&launches, __ATOMIC_RELAXED) };
    pthread_mutex_lock(&mutex);
    recent[recent_next++ % RECENT] = now;
    if (grow()) { /* without memory for it, it is read as zeros once it is not recent */
        struct store *e = entry(now.at);
        table_used += !e->at;
        *e = now;
    }
    pthread_mutex_unlock(&mutex);
}

void sim_forget_store(const void *at, size_t size) {
    uintptr_t from = (uintptr_t)at, end = from + size;
    pthread_mutex_lock(&mutex);
    if (table) {
        struct store *e = entry(from);
        if (e->at) e->size = 0;
    }
    for (struct store *r = recent; r < recent + RECENT; r++) if (r->at < end && from < r->at + r->size) r->size = 0;
    pthread_mutex_unlock(&mutex);
}

int sim_can_read(const void *at, size_t size) {
    uintptr_t from = (uintptr_t)at, end = from + size;
    uint64_t now = __atomic_load_n(&launches, __ATOMIC_RELAXED);
    int can = 0;
    pthread_mutex_lock(&mutex);
    if (size > FEW && table) can = entry(from)->at == from && entry(from)->size == size;
    for (struct store *r = recent; !can && r < recent + RECENT; r++) can = r->launch == now && r->at <= from && end <= r->at + r->size;
    pthread_mutex_unlock(&mutex);
    return can;
}
