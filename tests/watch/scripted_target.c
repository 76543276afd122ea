/* A process that holds the statistics of torch's allocator as torch does, and changes them on
 * command: the library `libc10_cuda.so`, which the program `target` loads.
 *
 * Layouts: c10/cuda/CUDACachingAllocator.h of torch 1.13 and 2.0, c10/core/CachingDeviceAllocator.h
 * of torch 2.13. Commands come on standard input, a line each; each is answered by one line. */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

#define MOST_DEVICES 8
#define BLOCKS 64
#define UNIT 1536 /* bytes of each block; asked for are ASKED */
#define ASKED 1500
#define SEGMENT (BLOCKS * UNIT)

typedef struct {
  volatile int64_t current, peak, allocated, freed;
} Stat;
typedef Stat StatArray[3];

enum { ALLOCATION, SEGMENTS, ACTIVE, INACTIVE_SPLIT, ALLOCATED_B, RESERVED_B, ACTIVE_B, SPLIT_B,
       REQUESTED_B, ARRAYS };

/* What follows the arrays is the same in all three. */
typedef struct {
  int64_t num_alloc_retries, num_ooms;
  Stat oversize_allocations, oversize_segments;
  int64_t num_sync_all_streams, num_device_alloc, num_device_free, max_split_size;
} Tail;
typedef struct {
  pthread_mutex_t mutex;
  StatArray arrays[8];
  Tail tail;
} Device113;
typedef struct {
  pthread_mutex_t mutex;
  StatArray arrays[9];
  Tail tail;
} Device20;
typedef struct {
  pthread_mutex_t mutex;
  StatArray first[6];
  struct { void *entries; uint64_t slots; int8_t shift, lookups; float load; uint64_t elements; } map;
  StatArray rest[3];
  Tail tail;
} Device213;
_Static_assert(sizeof(((Device213 *)0)->map) == 32, "ska::flat_hash_map");

typedef struct { void **begin, **end, **capacity; } Vector;

/* The class of an object, as the Itanium C++ ABI has it. */
static struct { void *vptr; const char *name; } type_info = {
    0, "N3c104cuda20CUDACachingAllocator6Native22NativeCachingAllocatorE"};
static void *table[] = {0, &type_info, 0, 0};

static char allocator_object[48 * 1024] __attribute__((aligned(64)));
void *_ZN3c104cuda20CUDACachingAllocator9allocatorE = allocator_object;

static int layout = 2, devices;
static char *objects[MOST_DEVICES];
static void *held[MOST_DEVICES];
static char empty_table[64];
static struct { int live[3], reserved[3]; } state[MOST_DEVICES];
static volatile int slow; /* turns of an empty loop between two writes */

static void pause_between_writes(void) {
  for (volatile int turn = 0; turn < slow; turn++) {
  }
}

static Stat *array_of(int device, int array) {
  char *object = objects[device];
  if (layout == 0)
    return array == REQUESTED_B ? NULL : ((Device113 *)object)->arrays[array];
  if (layout == 1)
    return ((Device20 *)object)->arrays[array];
  Device213 *it = (Device213 *)object;
  return array < 6 ? it->first[array] : it->rest[array - 6];
}

static Tail *tail_of(int device) {
  char *object = objects[device];
  if (layout == 0)
    return &((Device113 *)object)->tail;
  return layout == 1 ? &((Device20 *)object)->tail : &((Device213 *)object)->tail;
}

static void increase(Stat *stat, int64_t amount) {
  stat->current += amount;
  pause_between_writes();
  if (stat->current > stat->peak)
    stat->peak = stat->current;
  pause_between_writes();
  stat->allocated += amount;
}

static void decrease(Stat *stat, int64_t amount) {
  stat->current -= amount;
  pause_between_writes();
  stat->freed += amount;
}

static void change(int device, int array, int pool, int64_t amount) {
  Stat *stats = array_of(device, array);
  if (!stats)
    return;
  for (int which = 0; which <= pool; which += pool) {
    if (amount > 0)
      increase(&stats[which], amount);
    else
      decrease(&stats[which], -amount);
  }
}

static void split(int device, int pool) {
  int64_t unused = (int64_t)state[device].reserved[pool] * SEGMENT - state[device].live[pool] * UNIT;
  int64_t before = array_of(device, SPLIT_B)[pool].current;
  if (unused != before) {
    change(device, SPLIT_B, pool, unused - before);
    if (!before || !unused)
      change(device, INACTIVE_SPLIT, pool, unused ? 1 : -1);
  }
}

/* As malloc: a segment first where there is no room, then the block. */
static void take(int device, int pool) {
  if (state[device].live[pool] == state[device].reserved[pool] * BLOCKS) {
    state[device].reserved[pool]++;
    tail_of(device)->num_device_alloc++;
    change(device, SEGMENTS, pool, 1);
    change(device, RESERVED_B, pool, SEGMENT);
  }
  state[device].live[pool]++;
  change(device, ALLOCATION, pool, 1);
  change(device, ALLOCATED_B, pool, UNIT);
  change(device, ACTIVE, pool, 1);
  change(device, ACTIVE_B, pool, UNIT);
  change(device, REQUESTED_B, pool, ASKED);
  split(device, pool);
}

static void give(int device, int pool) {
  if (!state[device].live[pool])
    return;
  state[device].live[pool]--;
  change(device, ALLOCATION, pool, -1);
  change(device, ALLOCATED_B, pool, -UNIT);
  change(device, ACTIVE, pool, -1);
  change(device, ACTIVE_B, pool, -UNIT);
  change(device, REQUESTED_B, pool, -ASKED);
  split(device, pool);
}

static void churn(int device, long times) {
  static __thread unsigned seed = 1;
  for (long turn = 0; turn < times; turn++) {
    int pool = 1 + rand_r(&seed) % 2;
    if (rand_r(&seed) % 2 || state[device].live[pool] < 2)
      take(device, pool);
    else
      give(device, pool);
    if (rand_r(&seed) % 97 == 0)
      tail_of(device)->num_alloc_retries++;
  }
}

static volatile int hammering;
static pthread_t hammer;
static void *hammer_away(void *unused) {
  (void)unused;
  while (hammering)
    for (int device = 0; device < devices; device++) {
      churn(device, 1);
      for (volatile int turn = 0; turn < 2000; turn++) { /* at rest, as between two allocations */
      }
    }
  return NULL;
}

static void reset(int counts) {
  for (int device = 0; device < devices; device++)
    for (int array = 0; array < ARRAYS && array_of(device, array); array++)
      for (int pool = 0; pool < 3; pool++) {
        Stat *stat = &array_of(device, array)[pool];
        if (counts)
          stat->allocated = stat->freed = 0;
        else
          stat->peak = stat->current;
      }
}

static void make(int count, int which, int vector_at) {
  layout = which;
  devices = count;
  pthread_mutexattr_t recursive;
  pthread_mutexattr_init(&recursive);
  pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
  for (int device = 0; device < count; device++) {
    objects[device] = held[device] = calloc(1, 4096);
    pthread_mutex_init((pthread_mutex_t *)objects[device], &recursive);
    if (layout == 2) {
      ((Device213 *)objects[device])->map.entries = empty_table;
      ((Device213 *)objects[device])->map.load = 0.5f;
      ((Device213 *)objects[device])->map.shift = 63;
    }
    tail_of(device)->max_split_size = -1;
  }
  Vector *vector = (Vector *)(allocator_object + vector_at);
  vector->capacity = vector->end = held + count;
  vector->begin = held;
}

/* All 110 numbers of a device, as `memory_stats` has them. */
static void print_numbers(int device) {
  for (int array = 0; array < ARRAYS; array++)
    for (int pool = 0; pool < 3; pool++) {
      Stat *stat = array_of(device, array) ? &array_of(device, array)[pool] : NULL;
      static Stat none;
      stat = stat ? stat : &none;
      printf("%lld %lld %lld %lld ", (long long)stat->current, (long long)stat->peak,
             (long long)stat->allocated, (long long)stat->freed);
    }
  printf("%lld %lld\n", (long long)tail_of(device)->num_alloc_retries,
         (long long)tail_of(device)->num_ooms);
}

static void run_forked(void) {
  pid_t child = fork();
  if (!child) {
    for (;;)
      pause();
  }
  printf("%d\n", (int)child);
}

int scripted_target(char **argv) {
  char line[200];
  *(void **)allocator_object = &table[2];
  setvbuf(stdout, NULL, _IOLBF, 0);
  setvbuf(stdin, NULL, _IONBF, 0); /* after exec, the next line is the new program's */
  while (fgets(line, sizeof line, stdin)) {
    int a = 0, b = 0;
    long c = 0;
    char word[32] = "";
    sscanf(line, "%31s %d %d %ld", word, &a, &b, &c);
    if (!strcmp(word, "make"))
      make(a, b, (int)c);
    else if (!strcmp(word, "churn"))
      churn(a, b);
    else if (!strcmp(word, "slow"))
      slow = a;
    else if (!strcmp(word, "hammer")) {
      hammering = 1;
      pthread_create(&hammer, NULL, hammer_away, NULL);
    } else if (!strcmp(word, "rest")) {
      hammering = 0;
      pthread_join(hammer, NULL);
    } else if (!strcmp(word, "tear"))
      array_of(a, b)[0].current += c; /* and no more of the change */
    else if (!strcmp(word, "oom"))
      tail_of(a)->num_ooms++;
    else if (!strcmp(word, "peaks"))
      reset(0);
    else if (!strcmp(word, "counts"))
      reset(1);
    else if (!strcmp(word, "async"))
      type_info.name = "N3c104cuda20CUDACachingAllocator15CudaMallocAsync24CudaMallocAsyncAllocatorE";
    else if (!strcmp(word, "pluggable"))
      type_info.name = "N5torch4cuda20CUDAPluggableAllocator22CUDAPluggableAllocatorE";
    else if (!strcmp(word, "undumpable"))
      prctl(PR_SET_DUMPABLE, 0);
    else if (!strcmp(word, "exec"))
      execv("/proc/self/exe", argv);
    else if (!strcmp(word, "fork")) {
      run_forked();
      continue;
    } else if (!strcmp(word, "numbers")) {
      print_numbers(a);
      continue;
    } else if (!strcmp(word, "end"))
      return a;
    else {
      printf("what is %s?\n", word);
      continue;
    }
    printf("done\n");
  }
  return 0;
}
