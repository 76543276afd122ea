/* NVML over the shared state: what nvidia-ml-py and torch ask for. Of a partitioned GPU the memory
 * is told by its instances alone, as in truth. */
#include "simulated.h"
#include <stdio.h>
#include <string.h>
#include <time.h>

enum { OK = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NO_PERMISSION = 4, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7, VERSION_MISMATCH = 25 };
static int initialized;
/* A handle is the address of one of these: a GPU, or a MIG instance of the one GPU. */
static struct device { int index, instance; } gpus[MOST_DEVICES], instances[MOST_DEVICES];
typedef struct device *device;
#define STATE struct shared *s = initialized ? sim_shared() : NULL; if (!s) return UNINITIALIZED

int nvmlInitWithFlags(unsigned flags) { sim_shared(); initialized++; return OK; }
int nvmlInit_v2(void) { return nvmlInitWithFlags(0); }
int nvmlShutdown(void) { if (!initialized) return UNINITIALIZED; initialized--; return OK; }
const char *nvmlErrorString(int code) { return code ? "error of the simulated NVML" : "Success"; }
static int text(char *into, unsigned size, const char *from) { return snprintf(into, size, "%s", from) < (int)size ? OK : INSUFFICIENT_SIZE; }
int nvmlSystemGetDriverVersion(char *into, unsigned size) { STATE; return text(into, size, "580.65.06"); }
int nvmlSystemGetCudaDriverVersion_v2(int *version) { STATE; *version = 13000; return OK; }
static int partitioned(struct shared *s, device d) { return s->mig && !d->instance; }
int nvmlDeviceGetCount_v2(unsigned *count) { STATE; *count = s->mig ? 1 : (unsigned)s->devices; return OK; }
int nvmlDeviceGetHandleByIndex_v2(unsigned i, device *d) {
    STATE;
    if ((int)i >= (s->mig ? 1 : s->devices)) return INVALID_ARGUMENT;
    (*d = &gpus[i])->index = (int)i;
    return OK;
}
int nvmlDeviceGetMigMode(device d, unsigned *now, unsigned *pending) { STATE; *now = *pending = (unsigned)s->mig; return OK; }
int nvmlDeviceGetMaxMigDeviceCount(device d, unsigned *count) { STATE; *count = s->mig ? (unsigned)s->devices : 0; return OK; }
int nvmlDeviceGetMigDeviceHandleByIndex(device d, unsigned i, device *instance) {
    STATE;
    if (!s->mig || (int)i >= s->devices) return NOT_FOUND;
    instances[i] = (struct device){ (int)i, 1 };
    *instance = &instances[i];
    return OK;
}
int nvmlDeviceGetHandleByUUID(const char *which, device *d) {
    char own[48];
    STATE;
    for (int i = 0; i < s->devices; i++) {
        int code = s->mig ? nvmlDeviceGetMigDeviceHandleByIndex(NULL, (unsigned)i, d) : nvmlDeviceGetHandleByIndex_v2((unsigned)i, d);
        sim_uuid(s->mig, i, own);
        if (!code && !strcmp(own, which)) return OK;
    }
    return NOT_FOUND;
}
int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, device *d) { /* torch asks so as it tells of an OOM */
    unsigned domain, number;
    STATE;
    if (sscanf(bus, "%x:%x", &domain, &number) != 2 || (int)number < sim_bus(0)) return NOT_FOUND;
    return nvmlDeviceGetHandleByIndex_v2(number - (unsigned)sim_bus(0), d);
}
int nvmlDeviceGetIndex(device d, unsigned *i) { STATE; *i = (unsigned)d->index; return OK; }
int nvmlDeviceGetUUID(device d, char *into, unsigned size) { STATE; char own[48]; sim_uuid(d->instance, d->index, own); return text(into, size, own); }
int nvmlDeviceGetName(device d, char *into, unsigned size) { STATE; char name[96]; snprintf(name, sizeof name, "%s%s", sim_name(), d->instance ? " MIG 1g" : ""); return text(into, size, name); }
struct pci { char legacy[16]; unsigned domain, bus, device, id, subsystem; char bus_id[32]; };
int nvmlDeviceGetPciInfo_v3(device d, struct pci *p) {
    STATE;
    *p = (struct pci){ .bus = (unsigned)sim_bus(d->instance ? 0 : d->index), .id = 0x233510de };
    snprintf(p->legacy, sizeof p->legacy, "0000:%02X:00.0", p->bus);
    snprintf(p->bus_id, sizeof p->bus_id, "00000000:%02X:00.0", p->bus);
    return OK;
}

struct memory1 { uint64_t total, free, used; };
struct memory2 { unsigned version; uint64_t total, reserved, free, used; };
int nvmlDeviceGetMemoryInfo_v2(device d, struct memory2 *m) {
    STATE;
    if (m->version != (sizeof *m | 2u << 24)) return VERSION_MISMATCH;
    if (partitioned(s, d)) return NO_PERMISSION;
    sim_lock(s);
    m->total = s->total; m->reserved = s->reserved; m->used = sim_used(s, d->index); m->free = m->total - m->used - m->reserved;
    sim_unlock(s);
    return OK;
}
int nvmlDeviceGetMemoryInfo(device d, struct memory1 *m) { /* its "used" has the driver's part in it */
    struct memory2 now = { .version = sizeof now | 2u << 24 };
    int code = nvmlDeviceGetMemoryInfo_v2(d, &now);
    if (!code) *m = (struct memory1){ now.total, now.free, now.used + now.reserved };
    return code;
}
struct process { unsigned pid; uint64_t memory; unsigned gpu_instance, compute_instance; };
int nvmlDeviceGetComputeRunningProcesses_v3(device d, unsigned *count, struct process *into) {
    STATE;
    unsigned found = 0, room = *count;
    sim_lock(s);
    for (int place = partitioned(s, d) ? 0 : d->index; place < (partitioned(s, d) ? s->devices : d->index + 1); place++) {
        sim_used(s, place);
        for (struct holder *h = s->holders; h < s->holders + MOST_HOLDERS; h++) {
            if (!h->pid || !h->context[place]) continue;
            unsigned instance = s->mig ? (unsigned)place + 1 : ~0u;
            if (into && found < room) into[found] = (struct process){ (unsigned)h->pid, h->context[place] + h->allocated[place], instance, s->mig ? 0 : ~0u };
            found++;
        }
    }
    sim_unlock(s);
    *count = found;
    return found > room ? INSUFFICIENT_SIZE : OK;
}
struct process1 { unsigned pid; uint64_t memory; };
int nvmlDeviceGetComputeRunningProcesses(device d, unsigned *count, struct process1 *into) { /* the first version, which torch asks */
    struct process all[MOST_HOLDERS];
    unsigned room = MOST_HOLDERS, given = *count;
    int code = nvmlDeviceGetComputeRunningProcesses_v3(d, &room, all);
    *count = room;
    if (code || given < room) return code ? code : INSUFFICIENT_SIZE;
    for (unsigned i = 0; i < room; i++) into[i] = (struct process1){ all[i].pid, all[i].memory };
    return OK;
}
int nvmlDeviceGetGraphicsRunningProcesses_v3(device d, unsigned *count, void *into) { STATE; *count = 0; return OK; }
int nvmlDeviceGetMPSComputeRunningProcesses_v3(device d, unsigned *count, void *into) { STATE; *count = 0; return OK; }

/* Sensors are invented. At a reading, the load is the share of the time since the last one, a tenth of a
 * second earlier or more. Power and temperature approach the values of that load, each with its lag. */
#define READING_NS 100000000
#define IDLE_WATTS 76.0
#define FULL_WATTS 672.0 /* of a cap of 700 */
#define IDLE_CELSIUS 33.0
#define FULL_CELSIUS 71.0
#define WATTS_LAG_S 0.5
#define CELSIUS_LAG_S 12.0
#define IDLE_MHZ 345
#define BOOST_MHZ 1980
#define LOST_MHZ 90 /* of the boost clock, near the cap */

static double approach(double from, double to, double seconds, double lag) { return from + (to - from) * seconds / (seconds + lag); }
static unsigned share_of(uint64_t ns, uint64_t whole) { uint64_t percent = ns * 100 / whole; return percent > 100 ? 100 : (unsigned)percent; }

static struct sensors read_sensors(struct shared *s, int i) {
    struct sensors *x = &s->sensors[i];
    sim_lock(s);
    uint64_t now = sim_now(), passed = now - x->at;
    if (!x->at || passed > READING_NS) {
        if (!x->at) *x = (struct sensors){ .watts = IDLE_WATTS, .celsius = IDLE_CELSIUS };
        else {
            double seconds = (double)passed / 1e9;
            x->share = share_of(s->busy_ns[i] - x->busy_ns, passed);
            for (int way = 0; way < 2; way++) x->rate[way] = (unsigned)((double)(s->moved[i][way] - x->moved[way]) / seconds / 1000);
            x->watts = approach(x->watts, IDLE_WATTS + (FULL_WATTS - IDLE_WATTS) * x->share / 100, seconds, WATTS_LAG_S);
            x->celsius = approach(x->celsius, IDLE_CELSIUS + (FULL_CELSIUS - IDLE_CELSIUS) * x->share / 100, seconds, CELSIUS_LAG_S);
        }
        for (struct holder *h = s->holders; h < s->holders + MOST_HOLDERS; h++) {
            h->share[i] = x->at ? share_of(h->busy_ns[i] - h->seen_ns[i], passed) : 0;
            h->seen_ns[i] = h->busy_ns[i];
        }
        x->at = now;
        x->busy_ns = s->busy_ns[i];
        for (int way = 0; way < 2; way++) x->moved[way] = s->moved[i][way];
    }
    struct sensors copy = *x;
    sim_unlock(s);
    return copy;
}
static unsigned clock_of(struct sensors x) { return x.share ? BOOST_MHZ - (unsigned)(LOST_MHZ * (x.watts - IDLE_WATTS) / (FULL_WATTS - IDLE_WATTS)) : IDLE_MHZ; }

struct utilization { unsigned gpu, memory; };
int nvmlDeviceGetUtilizationRates(device d, struct utilization *u) {
    STATE;
    if (s->mig) return NOT_SUPPORTED;
    struct sensors x = read_sensors(s, d->index);
    *u = (struct utilization){ x.share, x.share / 2 };
    return OK;
}
struct process_sample { unsigned pid; unsigned long long at_us; unsigned sm, memory, encoder, decoder; };
int nvmlDeviceGetProcessUtilization(device d, struct process_sample *into, unsigned *count, unsigned long long since_us) {
    struct timespec t;
    STATE;
    if (s->mig) return NOT_SUPPORTED;
    read_sensors(s, d->index);
    clock_gettime(CLOCK_REALTIME, &t);
    unsigned found = 0, room = into ? *count : 0;
    sim_lock(s);
    for (struct holder *h = s->holders; h < s->holders + MOST_HOLDERS; h++) {
        if (!h->pid || !h->context[d->index]) continue;
        if (found < room) into[found] = (struct process_sample){ (unsigned)h->pid, (unsigned long long)t.tv_sec * 1000000 + (unsigned long long)t.tv_nsec / 1000, h->share[d->index], h->share[d->index] / 2, 0, 0 };
        found++;
    }
    sim_unlock(s);
    if (!found) return NOT_FOUND;
    *count = found;
    return found > room ? INSUFFICIENT_SIZE : OK;
}
#define FIGURE(name, type, is) int nvmlDeviceGet##name(device d, type *value) { STATE; if (d->instance) return NOT_SUPPORTED; *value = is; return OK; }
#define SENSOR(name, is) int nvmlDeviceGet##name(device d, int which, unsigned *value) { STATE; if (d->instance) return NOT_SUPPORTED; struct sensors x = read_sensors(s, d->index); *value = (unsigned)(is); return OK; }
FIGURE(EnforcedPowerLimit, unsigned, 700000) FIGURE(PowerManagementLimit, unsigned, 700000) FIGURE(PowerManagementDefaultLimit, unsigned, 700000)
FIGURE(PerformanceState, unsigned, 0) FIGURE(CurrPcieLinkGeneration, unsigned, 5) FIGURE(CurrPcieLinkWidth, unsigned, 16)
FIGURE(MaxPcieLinkGeneration, unsigned, 5) FIGURE(MaxPcieLinkWidth, unsigned, 16) FIGURE(PcieReplayCounter, unsigned, 0)
FIGURE(PowerUsage, unsigned, (unsigned)(1000 * read_sensors(s, d->index).watts))
FIGURE(CurrentClocksEventReasons, unsigned long long, read_sensors(s, d->index).share ? 0 : 1)
FIGURE(CurrentClocksThrottleReasons, unsigned long long, read_sensors(s, d->index).share ? 0 : 1)
SENSOR(Temperature, x.celsius) SENSOR(ClockInfo, which == 2 ? 3201 : clock_of(x)) SENSOR(PcieThroughput, x.rate[which == 1])
int nvmlDeviceGetMaxClockInfo(device d, unsigned type, unsigned *value) { STATE; *value = type == 2 ? 3201 : BOOST_MHZ; return d->instance ? NOT_SUPPORTED : OK; }
/* What is not simulated: without these, a caller takes the driver to be too old. */
#define NOT_SIMULATED(name) int nvmlDeviceGet##name(device d) { return NOT_SUPPORTED; }
NOT_SIMULATED(TemperatureThreshold) NOT_SIMULATED(MarginTemperature) NOT_SIMULATED(VbiosVersion) NOT_SIMULATED(EccMode) NOT_SIMULATED(NvLinkState)
NOT_SIMULATED(EncoderUtilization) NOT_SIMULATED(DecoderUtilization) NOT_SIMULATED(CpuAffinity) NOT_SIMULATED(MemoryAffinity)
int nvmlDeviceGetTotalEccErrors(device d, unsigned kind, unsigned counter, unsigned long long *value) { STATE; *value = 0; return d->instance ? NOT_SUPPORTED : OK; }
int nvmlDeviceGetFanSpeed(device d, unsigned *value) { return NOT_SUPPORTED; }
int nvmlDeviceGetNvLinkRemoteDeviceType(device d, unsigned link, int *type) { return NOT_SUPPORTED; } /* torch asks as it tells of an OOM */
int nvmlDeviceGetNvLinkRemotePciInfo_v2(device d, unsigned link, void *into) { return NOT_SUPPORTED; }
