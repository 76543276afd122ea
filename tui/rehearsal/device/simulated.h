/* A simulated GPU: libraries under the names of NVIDIA's, so that the CUDA build of torch runs on a
 * machine without one. Device memory is host memory that the kernel gives out as it is touched. A
 * kernel computes nothing and takes virtual time: results are wrong, and times are invented. What
 * torch does itself is real: its caching allocator, statistics, histories, streams and errors.
 *
 *   state.c    what all processes share: who holds how much of which device
 *   device.c   errors, devices, contexts
 *   clock.c    streams, kernels, events and graphs, in virtual time
 *   memory.c   device memory, pinned memory, mapped ranges, pools, copies
 *   stores.c   which copies onto a device that stores little can be read back
 *   exit.c     threads that outlive the interpreter
 *   blas.c  dnn.c  rnn.c  fft.c  nccl.c  modules.c   the libraries whose calls torch makes by name
 *   nvml.c     NVML over the same state; a library of its own, as the driver's is
 *
 * cuda_types.h declares what of CUDA's interface is used. build.py compiles them and generates what else
 * torch names. settings.py lists the variables SIMULATED_GPU_… that say what is simulated. */
#pragma once
#define _GNU_SOURCE
#include <pthread.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define MOST_DEVICES 8
#define MOST_HOLDERS 64
#define MIB (1ull << 20)

struct holder { /* a process with a context on some device */
    pid_t pid;
    uint64_t started; /* field 22 of /proc/PID/stat: the pid may be another's by now */
    uint64_t allocated[MOST_DEVICES], context[MOST_DEVICES], nccl[MOST_DEVICES]; /* bytes */
    uint64_t busy_ns[MOST_DEVICES], seen_ns[MOST_DEVICES]; /* of its kernels: all, and at the last reading of the sensors */
    unsigned share[MOST_DEVICES];                          /* percent of the time between the last two readings */
};

enum fault { ALLOCATION, LAUNCH, FAULTS };

/* What a rehearsal reads from the file once the processes have ended; simulator.py knows its layout. */
struct record {
    uint64_t peak[MOST_DEVICES];      /* bytes: the most that was in use, with contexts */
    uint64_t allocated[MOST_DEVICES]; /* bytes: the most that all processes had allocated */
    uint64_t contexts[MOST_DEVICES];  /* the most processes with a context at a time */
    uint64_t nccl[MOST_DEVICES];      /* bytes: the most that buffers of NCCL took */
    uint64_t refused[MOST_DEVICES];   /* requests for memory that the device did not have */
    uint64_t estimated[MOST_DEVICES]; /* convolutions and recurrent layers: their workspaces are estimates */
    uint64_t read[MOST_DEVICES];      /* copies of device memory to the host */
};

struct sensors { /* one device's, invented: see nvml.c */
    uint64_t at, busy_ns, moved[2]; /* at the last reading */
    unsigned share, rate[2];        /* percent of the time before it; KB/s to the host and from it */
    double watts, celsius;
};

struct shared {
    uint64_t magic;
    struct record record;
    pthread_mutex_t lock; /* robust: a process may be killed while it holds it */
    int devices;          /* what CUDA can be shown: GPUs, or the instances of a partitioned one */
    int mig;              /* 1: the devices are MIG instances of one GPU */
    uint64_t total, reserved, base; /* bytes of each device; base is used by no process */
    uint64_t busy_ns[MOST_DEVICES];
    uint64_t moved[MOST_DEVICES][2]; /* bytes over PCIe: to the host, from the host */
    struct sensors sensors[MOST_DEVICES];
    char faults_done[FAULTS][32];
    struct holder holders[MOST_HOLDERS];
};

/* state.c */
struct shared *sim_shared(void); /* ends the process if the file cannot be made */
void sim_lock(struct shared *);
void sim_unlock(struct shared *);
uint64_t sim_used(struct shared *, int device);            /* bytes; under the lock; drops the dead */
struct holder *sim_own(struct shared *, int make);         /* this process's entry; under the lock */
void sim_note_busy(struct shared *, int device, uint64_t ns); /* kernels of this process */
int64_t sim_option(const char *name, int64_t otherwise);   /* a number from the environment */
int sim_fault_is_due(enum fault which, int *code);         /* is this the call that is to fail? */
const char *sim_name(void);
void sim_uuid(int instance, int device, char into[48]); /* GPU-… or MIG-… */
int sim_bus(int device);
uint64_t sim_now(void);                                    /* ns, monotonic */

/* device.c: a function returns 0 or the CUDA error that its caller must return. */
extern pthread_mutex_t sim_mutex;   /* of what this process knows alone: blocks, streams */
extern int sim_sticky;              /* a fault of the device: every later call fails with it */
int sim_fail(int code);             /* notes the error for cudaGetLastError and returns it */
int sim_context(int device);        /* the context of a visible device, made at the first call */
int sim_ready(void);                /* of the current one */
int sim_current(void);
void sim_note_estimate(void);       /* a workspace of the current one is an estimate */
int sim_physical(int device);       /* a visible device's place in the shared state, or -1 */
enum purpose { ALLOCATED, CONTEXT, NCCL }; /* the last two are not the program's own requests */
int sim_take(int device, uint64_t bytes, enum purpose); /* accounts memory, or out of memory */
void sim_give_back(int device, uint64_t bytes, enum purpose);
#define TRY(call) do { int code_ = (int)(call); if (code_) return sim_fail(code_); } while (0)
#define READY TRY(sim_ready())

/* clock.c: work takes `ns` of an engine once its stream is free. */
enum engine { COMPUTE, TO_DEVICE, TO_HOST, ENGINES };
int sim_work(void *stream, enum engine engine, uint64_t ns);
int sim_launch(void *stream, uint64_t blocks, uint64_t threads_each); /* a kernel */

/* memory.c: a copy within the device, as a library's kernel makes it; nothing for a kernel's result. */
void sim_move(void *to, const void *from, size_t size);

/* stores.c */
void sim_note_launch(void);
void sim_note_store(const void *at, size_t size);
void sim_forget_store(const void *at, size_t size);
int sim_can_read(const void *at, size_t size);
