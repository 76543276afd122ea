/* Device memory, pinned memory, mapped ranges (torch's expandable segments), pools
 * (cudaMallocAsync) and copies. All of it is host memory; what counts as the device's is accounted
 * in the shared state, so that cudaMemGetInfo, NVML and torch agree. */
#include "simulated.h"
#include "cuda_types.h"
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>

#define PAGE (2 * MIB) /* the driver gives out device memory in pages of this size */
#define ROUNDED(size, to) (((size) + (to) - 1) / (to) * (to))

enum kind { DEVICE, MAPPED, POOLED, PINNED, REGISTERED };
struct block { char *at; size_t size; enum kind kind; int device; };

static struct block *blocks; /* by ascending address */
static size_t block_count, block_room;

static struct block *block_at(const void *pointer) { /* under the lock */
    size_t low = 0, high = block_count;
    while (low < high) {
        size_t middle = (low + high) / 2;
        if ((const char *)pointer < blocks[middle].at) high = middle;
        else if ((const char *)pointer >= blocks[middle].at + blocks[middle].size) low = middle + 1;
        else return &blocks[middle];
    }
    return NULL;
}
static void add_block(void *at, size_t size, enum kind kind, int device) {
    size_t i;
    pthread_mutex_lock(&sim_mutex);
    if (block_count == block_room) blocks = realloc(blocks, (block_room = block_room * 2 + 64) * sizeof *blocks);
    for (i = block_count++; i && blocks[i - 1].at > (char *)at; i--) blocks[i] = blocks[i - 1];
    blocks[i] = (struct block){ at, size, kind, device };
    pthread_mutex_unlock(&sim_mutex);
}
static int find_block(const void *pointer, struct block *into, int remove) {
    pthread_mutex_lock(&sim_mutex);
    struct block *b = block_at(pointer);
    if (b) *into = *b;
    if (b && remove) memmove(b, b + 1, (size_t)(blocks + --block_count - b) * sizeof *b);
    pthread_mutex_unlock(&sim_mutex);
    return b != NULL;
}
static void *fresh(size_t size, int now) {
    void *at = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | (now ? MAP_POPULATE : MAP_NORESERVE), -1, 0);
    return at == MAP_FAILED ? NULL : at;
}

/* ---- the device's memory ---- */

cudaError_t cudaMalloc(void **pointer, size_t size) {
    struct timespec t = { 0, 50000 };
    READY;
    *pointer = NULL;
    if (!size) return 0;
    size = ROUNDED(size, PAGE);
    TRY(sim_take(sim_current(), size, ALLOCATED));
    if (!(*pointer = fresh(size, 0))) return sim_fail(cudaErrorMemoryAllocation);
    add_block(*pointer, size, DEVICE, sim_current());
    nanosleep(&t, NULL);
    return 0;
}
/* Managed memory is the device's here: a paged optimizer's state counts, though a driver may move it out. */
cudaError_t cudaMallocManaged(void **pointer, size_t size, unsigned flags) { return cudaMalloc(pointer, size); }
cudaError_t cudaMemPrefetchAsync(void) { return 0; }
cudaError_t cudaMemGetInfo(size_t *free_bytes, size_t *total) {
    struct shared *s = sim_shared();
    READY;
    sim_lock(s);
    *total = s->total - s->reserved;
    *free_bytes = *total - sim_used(s, sim_physical(sim_current()));
    sim_unlock(s);
    return 0;
}

/* ---- pools: freed memory stays with the pool until it is trimmed ---- */

static struct { uint64_t used, reserved; } pools[MOST_DEVICES];

cudaError_t cudaMallocAsync(void **pointer, size_t size, cudaStream_t stream) {
    int device = sim_current();
    READY;
    size = ROUNDED(size ? size : 1, 4096);
    if (pools[device].used + size > pools[device].reserved) {
        uint64_t more = ROUNDED(pools[device].used + size - pools[device].reserved, 32 * MIB);
        TRY(sim_take(device, more, ALLOCATED));
        pools[device].reserved += more;
    }
    if (!(*pointer = fresh(size, 0))) return sim_fail(cudaErrorMemoryAllocation);
    pools[device].used += size;
    add_block(*pointer, size, POOLED, device);
    return 0;
}
cudaError_t cudaMemPoolTrimTo(cudaMemPool_t pool, size_t keep) {
    int device = (int)(uintptr_t)pool - 1;
    uint64_t least = ROUNDED(pools[device].used > keep ? pools[device].used : keep, 32 * MIB);
    if (least >= pools[device].reserved) return 0;
    sim_give_back(device, pools[device].reserved - least, ALLOCATED);
    pools[device].reserved = least;
    return 0;
}
cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t *pool, int device) { *pool = (void *)(uintptr_t)(device + 1); return 0; }
cudaError_t cudaMemPoolGetAttribute(cudaMemPool_t pool, enum cudaMemPoolAttr attribute, void *value) {
    int device = (int)(uintptr_t)pool - 1, reserved = attribute == cudaMemPoolAttrReservedMemCurrent || attribute == cudaMemPoolAttrReservedMemHigh;
    *(uint64_t *)value = reserved ? pools[device].reserved : pools[device].used;
    return 0;
}

cudaError_t cudaFree(void *pointer) {
    struct block b;
    READY;
    if (!pointer) return 0;
    TRY(cudaDeviceSynchronize());
    if (!find_block(pointer, &b, 1)) return sim_fail(cudaErrorInvalidValue);
    munmap(b.at, b.size);
    if (b.kind == POOLED) pools[b.device].used -= b.size;
    else sim_give_back(b.device, b.size, ALLOCATED);
    return 0;
}
cudaError_t cudaFreeAsync(void *pointer, cudaStream_t stream) { return cudaFree(pointer); }

/* ---- mapped ranges: an address range is reserved once, memory is created and mapped into it ---- */

struct physical { size_t size; int device; };

CUresult cuMemGetAllocationGranularity(size_t *size, const CUmemAllocationProp *how, CUmemAllocationGranularity_flags flags) { *size = PAGE; return 0; }
CUresult cuMemAddressReserve(CUdeviceptr *at, size_t size, size_t alignment, CUdeviceptr wanted, unsigned long long flags) {
    void *range = mmap(NULL, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    *at = (CUdeviceptr)range;
    return range == MAP_FAILED ? CUDA_ERROR_OUT_OF_MEMORY : 0;
}
CUresult cuMemAddressFree(CUdeviceptr at, size_t size) { return munmap((void *)at, size) ? CUDA_ERROR_INVALID_VALUE : 0; }
CUresult cuMemCreate(CUmemGenericAllocationHandle *handle, size_t size, const CUmemAllocationProp *how, unsigned long long flags) {
    /* The driver's call reports by its result alone: nothing is noted for cudaGetLastError. */
    if (sim_ready() || sim_take(how->location.id, size, ALLOCATED)) return CUDA_ERROR_OUT_OF_MEMORY;
    struct physical *made = malloc(sizeof *made);
    *made = (struct physical){ size, how->location.id };
    *handle = (CUmemGenericAllocationHandle)made;
    return 0;
}
CUresult cuMemRelease(CUmemGenericAllocationHandle handle) {
    struct physical *memory = (struct physical *)handle;
    sim_give_back(memory->device, memory->size, ALLOCATED);
    free(memory);
    return 0;
}
CUresult cuMemMap(CUdeviceptr at, size_t size, size_t offset, CUmemGenericAllocationHandle handle, unsigned long long flags) {
    if (mprotect((void *)at, size, PROT_READ | PROT_WRITE)) return CUDA_ERROR_INVALID_VALUE;
    add_block((void *)at, size, MAPPED, ((struct physical *)handle)->device);
    return 0;
}
CUresult cuMemSetAccess(CUdeviceptr at, size_t size, const CUmemAccessDesc *how, size_t count) { return 0; }
CUresult cuMemUnmap(CUdeviceptr at, size_t size) {
    struct block b;
    if (!find_block((void *)at, &b, 1)) return CUDA_ERROR_INVALID_VALUE;
    return mmap((void *)at, size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0) == MAP_FAILED ? CUDA_ERROR_INVALID_VALUE : 0;
}

/* ---- pinned memory: resident from the start, and the host's ---- */

cudaError_t cudaHostAlloc(void **pointer, size_t size, unsigned flags) {
    READY;
    size = ROUNDED(size ? size : 1, 4096);
    if (!(*pointer = fresh(size, 1))) return sim_fail(cudaErrorMemoryAllocation);
    add_block(*pointer, size, PINNED, sim_current());
    return 0;
}
cudaError_t cudaFreeHost(void *pointer) { struct block b; if (!find_block(pointer, &b, 1)) return sim_fail(cudaErrorInvalidValue); munmap(b.at, b.size); return 0; }
cudaError_t cudaHostRegister(void *pointer, size_t size, unsigned flags) { READY; add_block(pointer, size, REGISTERED, sim_current()); return 0; }
cudaError_t cudaHostUnregister(void *pointer) { struct block b; return find_block(pointer, &b, 1) ? 0 : sim_fail(cudaErrorInvalidValue); }
cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *about, const void *pointer) {
    struct block b;
    if (sim_physical(sim_current()) < 0) return sim_fail(cudaErrorInitializationError);
    *about = (struct cudaPointerAttributes){ .type = cudaMemoryTypeUnregistered, .device = -2, .hostPointer = (void *)pointer };
    if (!find_block(pointer, &b, 0)) return 0;
    int host = b.kind == PINNED || b.kind == REGISTERED;
    *about = (struct cudaPointerAttributes){ .type = host ? cudaMemoryTypeHost : cudaMemoryTypeDevice, .device = b.device,
                                             .devicePointer = (void *)pointer, .hostPointer = host ? (void *)pointer : NULL };
    return 0;
}
/* The driver's. Triton refuses a pointer that it does not know: that of a tensor on the CPU. */
CUresult cuPointerGetAttribute(void *value, int attribute, CUdeviceptr pointer) {
    struct block b;
    if (!find_block((void *)pointer, &b, 0)) return CUDA_ERROR_INVALID_VALUE;
    switch (attribute) {
    case 2 /* MEMORY_TYPE */: *(unsigned *)value = b.kind < PINNED ? 2 : 1; return 0;
    case 3 /* DEVICE_POINTER */: *(CUdeviceptr *)value = pointer; return 0;
    case 9 /* DEVICE_ORDINAL */: *(int *)value = b.device; return 0;
    default: return CUDA_ERROR_NOT_SUPPORTED;
    }
}

/* ---- copies: the bytes are moved at once, what they take is virtual ---- */

/* Zeros are not written where there are zeros: to read them makes no memory resident. */
static void zero_part(char *at, size_t size) {
    for (size_t i = 0; i < size; i++) if (at[i]) { memset(at, 0, size); return; }
}

/* What is there already is not written again, so that zeros make none of the host's memory resident. */
static void store(char *to, const char *from, size_t size) { if (memcmp(to, from, size)) memmove(to, from, size); }

static int stores_all(void) { return sim_option("SIMULATED_GPU_STORED", 1) != 0; }

/* Between two places of the device only the ends are moved: kernels compute nothing, and all of it
 * would take the host longer than the device is said to take. */
static void move(char *to, const char *from, size_t size, int within_device) {
    size_t end = within_device && size > MIB ? 65536 : 0;
    store(to, from, end ? end : size);
    if (end) store(to + size - end, from + size - end, end);
}

/* On a device that stores little, its memory takes little of the host's: nothing larger is stored. */
static void move_little(char *to, const char *from, size_t size, int onto, int off) {
    int known = size <= MIB && (!off || sim_can_read(from, size));
    if (known) store(to, from, size);
    if (onto && known) sim_note_store(to, size);
    else if (onto) sim_forget_store(to, size);
    else if (!known) zero_part(to, size);
}
void sim_move(void *to, const void *from, size_t size) {
    if (stores_all()) memmove(to, from, size);
    else move_little(to, from, size, 1, 1);
}

static uint64_t taken(uint64_t bytes, const char *rate, int64_t otherwise) { return 1500 + bytes / (uint64_t)sim_option(rate, otherwise); }

static int copy(void *to, const void *from, size_t size, cudaStream_t stream, int blocking) {
    struct block target, source;
    READY;
    if (!size) return 0;
    int known_target = find_block(to, &target, 0), known_source = find_block(from, &source, 0);
    int onto = known_target && target.kind < PINNED, off = known_source && source.kind < PINNED;
    /* Pageable memory goes by way of a buffer of the driver's, at half the rate. */
    int pageable = onto != off && !(onto ? known_source : known_target);
    if (onto && off) TRY(sim_work(stream, COMPUTE, taken(2 * size, "SIMULATED_GPU_MEMORY_GB_S", 4000)));
    else {
        if (off) __atomic_fetch_add(&sim_shared()->record.read[sim_physical(source.device)], 1, __ATOMIC_RELAXED);
        TRY(sim_work(stream, onto ? TO_DEVICE : TO_HOST, taken(size, "SIMULATED_GPU_LINK_GB_S", 4) * (pageable ? 2 : 1)));
        if (onto || off) __atomic_fetch_add(&sim_shared()->moved[sim_physical(onto ? target.device : source.device)][onto], size, __ATOMIC_RELAXED);
    }
    if (stores_all() || (!onto && !off)) move(to, from, size, onto && off);
    else move_little(to, from, size, onto, off);
    return blocking || (pageable && (!onto || size > 65536)) ? cudaStreamSynchronize(stream) : 0;
}
cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t size, enum cudaMemcpyKind kind, cudaStream_t stream) { return copy(to, from, size, stream, 0); }
cudaError_t cudaMemcpy(void *to, const void *from, size_t size, enum cudaMemcpyKind kind) { return copy(to, from, size, 0, 1); }
cudaError_t cudaMemcpyPeerAsync(void *to, int to_device, const void *from, int from_device, size_t size, cudaStream_t stream) { return copy(to, from, size, stream, 0); }

/* Setting the device's memory makes none of the host's resident. Whole pages of zeros are had by giving
 * the pages back; of the others, those that were never written read as zeros without being made. Other
 * values are not stored, as if a kernel had set them. */
static void zero(char *at, size_t size) {
    uintptr_t first = ROUNDED((uintptr_t)at, 4096), end = ((uintptr_t)at + size) / 4096 * 4096;
    if (first >= end) { zero_part(at, size); return; }
    zero_part(at, first - (uintptr_t)at);
    madvise((void *)first, end - first, MADV_DONTNEED);
    zero_part((char *)end, (uintptr_t)at + size - end);
}
cudaError_t cudaMemsetAsync(void *at, int value, size_t size, cudaStream_t stream) {
    struct block b;
    READY;
    TRY(sim_work(stream, COMPUTE, taken(size, "SIMULATED_GPU_MEMORY_GB_S", 4000)));
    if (!find_block(at, &b, 0) || b.kind >= PINNED) memset(at, value, size);
    else {
        if (!value) zero(at, size);
        if (!stores_all()) sim_forget_store(at, size);
    }
    return 0;
}
cudaError_t cudaMemset(void *at, int value, size_t size) { return cudaMemsetAsync(at, value, size, 0); }
