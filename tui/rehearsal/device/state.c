/* What all processes that use the simulator share: who holds how much of which device. */
#include "simulated.h"
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define MAGIC 0x73696d756c616334ull

uint64_t sim_now(void) { struct timespec t; clock_gettime(CLOCK_MONOTONIC, &t); return (uint64_t)t.tv_sec * 1000000000ull + (uint64_t)t.tv_nsec; }
int64_t sim_option(const char *name, int64_t otherwise) { const char *text = getenv(name); return text && *text ? strtoll(text, NULL, 0) : otherwise; }

/* Calls are counted in each process, from the moment that the variable gets its value, so that a test
 * can set it late; the fault comes about once among all processes, so that the next one works. */
int sim_fault_is_due(enum fault which, int *code) {
    static const char *const NAMES[] = { "SIMULATED_GPU_FAIL_ALLOCATION", "SIMULATED_GPU_FAIL_LAUNCH" };
    static struct { char text[32]; long calls; } seen[FAULTS];
    struct shared *s = sim_shared();
    const char *text = getenv(NAMES[which]), *colon;
    if (!text || !*text) text = "none";
    sim_lock(s);
    if (strcmp(seen[which].text, text)) {
        snprintf(seen[which].text, sizeof seen[which].text, "%s", text);
        seen[which].calls = 0;
    }
    /* Before torch gives up it asks for memory three times: all three are refused. */
    long first = atol(text), last = first + (which == ALLOCATION ? 2 : 0), call = ++seen[which].calls;
    int due = first > 0 && first <= call && call <= last && strcmp(s->faults_done[which], text);
    if (due && call == last) snprintf(s->faults_done[which], sizeof s->faults_done[which], "%s", text);
    sim_unlock(s);
    if (due && (colon = strchr(text, ':'))) *code = atoi(colon + 1);
    return due;
}

const char *sim_name(void) { const char *name = getenv("SIMULATED_GPU_NAME"); return name && *name ? name : "NVIDIA H200 (simulated)"; }
void sim_uuid(int instance, int device, char into[48]) { snprintf(into, 48, "%s-0000-4000-8000-%012x", instance ? "MIG-0c4e8a27" : "GPU-51a4d170", device + 1); }
int sim_bus(int device) { return 0x18 + device; }

/* When a process started, in clock ticks since the boot; 0 if it is gone or a zombie. */
static uint64_t start_of(pid_t pid) {
    char path[64], text[1024], *at;
    ssize_t length;
    int file, field = 2;
    snprintf(path, sizeof path, "/proc/%d/stat", (int)pid);
    if ((file = open(path, O_RDONLY | O_CLOEXEC)) < 0) return 0;
    length = read(file, text, sizeof text - 1);
    close(file);
    if (length <= 0) return 0;
    text[length] = 0;
    if (!(at = strrchr(text, ')')) || !at[1] || at[2] == 'Z' || at[2] == 'X') return 0;
    for (at++; *at; at++)
        if (*at == ' ' && ++field == 22) return strtoull(at + 1, NULL, 10);
    return 0;
}

static void configure(struct shared *s) {
    pthread_mutexattr_t how;
    pthread_mutexattr_init(&how);
    pthread_mutexattr_setpshared(&how, PTHREAD_PROCESS_SHARED);
    pthread_mutexattr_setrobust(&how, PTHREAD_MUTEX_ROBUST);
    pthread_mutex_init(&s->lock, &how);
    int instances = (int)sim_option("SIMULATED_GPU_MIG", 0);
    s->mig = instances > 0;
    s->devices = s->mig ? instances : (int)sim_option("SIMULATED_GPU_DEVICES", 1);
    if (s->devices > MOST_DEVICES) s->devices = MOST_DEVICES;
    s->total = (uint64_t)sim_option("SIMULATED_GPU_TOTAL_MIB", 8192) * MIB / (uint64_t)(s->mig ? instances : 1);
    s->reserved = (uint64_t)sim_option("SIMULATED_GPU_RESERVED_MIB", 615) * MIB / (uint64_t)(s->mig ? instances : 1);
    s->base = (uint64_t)sim_option("SIMULATED_GPU_BASE_MIB", 4) * MIB;
    s->magic = MAGIC;
}

static struct shared *found;

/* These libraries bear the names of NVIDIA's. A process that got hold of them by mistake would compute
 * nothing without a word, so they run only where a launcher has named the devices' shared state. */
__attribute__((constructor)) static void refuse_elsewhere(void) {
    const char *path = getenv("SIMULATED_GPU_STATE");
    if (path && *path) return;
    static const char why[] = "simulated GPU: refused, because no launcher has set SIMULATED_GPU_STATE; remove its folder from LD_LIBRARY_PATH and LD_PRELOAD\n";
    if (write(2, why, sizeof why - 1) < 0) { }
    _exit(127);
}

struct shared *sim_shared(void) {
    static pthread_mutex_t once = PTHREAD_MUTEX_INITIALIZER;
    const char *path = getenv("SIMULATED_GPU_STATE");
    struct stat about;
    if (found) return found;
    pthread_mutex_lock(&once);
    if (!found) {
        int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        /* The first process of all configures it; the others wait at the lock. */
        while (file >= 0 && lockf(file, F_LOCK, 0) && errno == EINTR) { }
        struct shared *map = MAP_FAILED;
        if (file >= 0 && !fstat(file, &about)
            && ((size_t)about.st_size >= sizeof *map || !ftruncate(file, sizeof *map)))
            map = mmap(NULL, sizeof *map, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
        if (map == MAP_FAILED) {
            perror(path);
            abort();
        }
        if (map->magic != MAGIC) configure(map);
        found = map;
        close(file);
    }
    pthread_mutex_unlock(&once);
    return found;
}

void sim_lock(struct shared *s) { if (pthread_mutex_lock(&s->lock) == EOWNERDEAD) pthread_mutex_consistent(&s->lock); }
void sim_unlock(struct shared *s) { pthread_mutex_unlock(&s->lock); }

uint64_t sim_used(struct shared *s, int device) {
    uint64_t used = s->base;
    for (struct holder *h = s->holders; h < s->holders + MOST_HOLDERS; h++) {
        if (!h->pid) continue;
        if (h->pid != getpid() && start_of(h->pid) != h->started) {
            memset(h, 0, sizeof *h);
            continue;
        }
        used += h->allocated[device] + h->context[device] + h->nccl[device];
    }
    return used;
}

struct holder *sim_own(struct shared *s, int make) {
    struct holder *room = NULL;
    pid_t pid = getpid();
    for (struct holder *h = s->holders; h < s->holders + MOST_HOLDERS; h++) {
        if (h->pid == pid) {
            if (h->started == start_of(pid)) return h;
            memset(h, 0, sizeof *h);
        }
        if (!h->pid && !room) room = h;
    }
    if (!make || !room) return NULL;
    *room = (struct holder){ .pid = pid, .started = start_of(pid) };
    return room;
}

void sim_note_busy(struct shared *s, int device, uint64_t ns) {
    static struct holder *own;
    if (!own || own->pid != getpid()) { /* this process may have been forked */
        sim_lock(s);
        own = sim_own(s, 0);
        sim_unlock(s);
    }
    __atomic_fetch_add(&s->busy_ns[device], ns, __ATOMIC_RELAXED);
    if (own) __atomic_fetch_add(&own->busy_ns[device], ns, __ATOMIC_RELAXED);
}

__attribute__((destructor)) static void gone(void) {
    struct holder *own;
    if (!found) return;
    sim_lock(found);
    if ((own = sim_own(found, 0))) memset(own, 0, sizeof *own);
    sim_unlock(found);
}
