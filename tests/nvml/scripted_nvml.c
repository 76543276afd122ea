/* A scripted NVML: the driver's library as a scenario file describes it.
 *
 * It stands in for libnvidia-ml.so.1, so that the real nvidia-ml-py is tested against it over the
 * real ABI: struct layouts, versions and symbol names are those that pynvml.py 13.x uses.
 *
 * Environment:
 *   SCRIPTED_NVML      path of the scenario; read again whenever the file changes
 *   SCRIPTED_NVML_LOG  path to which each call is appended: "function device"
 *
 * The scenario is written by scenario.py; one statement a line, words apart by one space, text in
 * hexadecimal so that it may hold any byte:
 *   driver TEXT | cuda 13000
 *   gpu UUID NAME                     the next device; what follows is about it
 *   instance SLOT UUID NAME           a MIG instance of that device; what follows is about it
 *   set KEY VALUE | wobble KEY AMOUNT a figure, and how far it swings to either side over time
 *   process KIND PID MEMORY GI CI SM  KIND 0 compute, 1 graphics, 2 MPS; MEMORY - for "not available";
 *                                     SM percent, -1 for no sample of it
 *   rule FUNCTION|* KEY=VALUE...      see struct rule; the first that applies decides
 *
 * Where NVML would read through a null or an outdated handle, this aborts or says so in the log.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#define SUCCESS 0
#define UNINITIALIZED 1
#define INVALID_ARGUMENT 2
#define NOT_SUPPORTED 3
#define NOT_FOUND 6
#define INSUFFICIENT_SIZE 7
#define ARGUMENT_VERSION_MISMATCH 25

#define MOST_GPUS 24
#define MOST_SLOTS 8
#define MOST_PROCESSES 32
#define MOST_RULES 128
#define MOST_COUNTERS 4096
#define NO_VALUE INT64_MIN

enum key { TOTAL, USED, FREE, RESERVED, UTIL, MEMUTIL, TEMP, POWER, LIMIT, SM, MEM, PSTATE,
           THROTTLE, FAN, GENERATION, WIDTH, ECC, MIG, BUS, SLOWDOWN, MARGIN, SAMPLE_AGE,
           SENT, RECEIVED, ENCODER, DECODER, NVLINKS, NODE, KEYS };
static const char *const KEY_NAMES[KEYS] = {
    "total", "used", "free", "reserved", "util", "memutil", "temp", "power", "limit", "sm", "mem",
    "pstate", "throttle", "fan", "generation", "width", "ecc", "mig", "bus", "slowdown", "margin",
    "sample_age", "sent", "received", "encoder", "decoder", "nvlinks", "node" };

struct process { int kind; unsigned pid; uint64_t memory; unsigned gi, ci; int sm; };

struct unit { /* a GPU or a MIG instance */
    int present;
    char uuid[96], name[96];
    int64_t value[KEYS], swing[KEYS];
    struct process processes[MOST_PROCESSES];
    int process_count;
};

struct rule {
    char function[64];
    int64_t device;       /* -1: all, and calls that are about no device */
    int64_t code;         /* returned if not 0 */
    int64_t value;        /* replaces the figure; NO_VALUE: it stays */
    int64_t after_calls;  /* applies once the function was called so often for the device */
    int64_t until_calls;  /* -1: for ever */
    int64_t after_ms, until_ms; /* since the library was loaded */
    int64_t sleep_ms;     /* before the answer */
    int64_t hang;         /* 1: never answers */
    int64_t crash;        /* 1: abort, 2: segmentation fault */
};

static struct unit gpus[MOST_GPUS];
static struct unit slots[MOST_GPUS][MOST_SLOTS];
static int gpu_count;
static struct rule rules[MOST_RULES];
static int rule_count;
static char driver[96];
static int cuda;
static struct stat last_seen;
static struct timespec started;
static int initialized;
static unsigned generation; /* counts initialisations: handles of an earlier one are outdated */

struct handle { int gpu, slot; unsigned generation; };
static struct handle handles[8][MOST_GPUS][MOST_SLOTS + 1];

static struct { char function[64]; int device; int64_t calls; } counters[MOST_COUNTERS];
static int counter_count;

__attribute__((constructor)) static void loaded(void) { clock_gettime(CLOCK_MONOTONIC, &started); }

static int64_t elapsed_ms(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (now.tv_sec - started.tv_sec) * 1000 + (now.tv_nsec - started.tv_nsec) / 1000000;
}

static void say(const char *what, int device) {
    const char *path = getenv("SCRIPTED_NVML_LOG");
    char line[160];
    int file, length;
    if (!path || (file = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0644)) < 0) return;
    length = snprintf(line, sizeof line, "%s %d\n", what, device);
    if (write(file, line, (size_t)length) != length) perror("SCRIPTED_NVML_LOG");
    close(file);
}

static void bad(const char *why, const char *what) {
    fprintf(stderr, "scripted NVML: %s: %s\n", why, what);
    say(why, -1);
    abort();
}

static void unhex(char *into, size_t size, const char *hex) {
    size_t i;
    memset(into, 0, size);
    for (i = 0; i + 1 < size && hex[2 * i] && hex[2 * i] != '-'; i++) {
        unsigned byte = 0;
        sscanf(hex + 2 * i, "%2x", &byte);
        into[i] = (char)byte;
    }
}

static int key_of(const char *name) {
    for (int i = 0; i < KEYS; i++)
        if (!strcmp(name, KEY_NAMES[i])) return i;
    bad("unknown key", name);
    return 0;
}

static void read_rule(char *words) {
    struct rule *rule = &rules[rule_count++];
    char *word, *rest = words;
    const struct { const char *name; int64_t *into; } parts[] = {
        { "device", &rule->device }, { "code", &rule->code }, { "value", &rule->value },
        { "after_calls", &rule->after_calls }, { "until_calls", &rule->until_calls },
        { "after_ms", &rule->after_ms }, { "until_ms", &rule->until_ms },
        { "sleep_ms", &rule->sleep_ms }, { "hang", &rule->hang }, { "crash", &rule->crash } };
    memset(rule, 0, sizeof *rule);
    rule->device = rule->until_calls = rule->until_ms = -1;
    rule->value = NO_VALUE;
    snprintf(rule->function, sizeof rule->function, "%s", strtok_r(rest, " ", &rest));
    while ((word = strtok_r(NULL, " ", &rest))) {
        char *equals = strchr(word, '=');
        size_t i, count = sizeof parts / sizeof *parts;
        if (!equals) bad("not a part of a rule", word);
        *equals = 0;
        for (i = 0; i < count && strcmp(parts[i].name, word); i++) { }
        if (i == count) bad("unknown part of a rule", word);
        *parts[i].into = strtoll(equals + 1, NULL, 0);
    }
}

static void read_line(char *line, struct unit **about) {
    char first[32] = "", a[256] = "", b[256] = "", c[256] = "";
    int kind, pid, gi, ci, sm;
    sscanf(line, "%31s %255s %255s %255s", first, a, b, c);
    if (!*first || *first == '#') return;
    if (!strcmp(first, "driver")) unhex(driver, sizeof driver, a);
    else if (!strcmp(first, "cuda")) cuda = atoi(a);
    else if (!strcmp(first, "rule")) { if (rule_count < MOST_RULES) read_rule(line + 5); }
    else if (!strcmp(first, "gpu")) {
        if (gpu_count == MOST_GPUS) bad("too many devices", a);
        *about = &gpus[gpu_count++];
        (*about)->present = 1;
        unhex((*about)->uuid, sizeof (*about)->uuid, a);
        unhex((*about)->name, sizeof (*about)->name, b);
    } else if (!strcmp(first, "instance")) {
        *about = &slots[gpu_count - 1][atoi(a)];
        (*about)->present = 1;
        unhex((*about)->uuid, sizeof (*about)->uuid, b);
        unhex((*about)->name, sizeof (*about)->name, c);
    } else if (!*about) bad("no device yet", line);
    else if (!strcmp(first, "set")) (*about)->value[key_of(a)] = strtoll(b, NULL, 0);
    else if (!strcmp(first, "wobble")) (*about)->swing[key_of(a)] = strtoll(b, NULL, 0);
    else if (!strcmp(first, "process")
             && sscanf(line, "process %d %d %255s %d %d %d", &kind, &pid, a, &gi, &ci, &sm) == 6) {
        struct process *entry = &(*about)->processes[(*about)->process_count++];
        if ((*about)->process_count > MOST_PROCESSES) bad("too many processes", line);
        entry->kind = kind;
        entry->pid = (unsigned)pid;
        entry->memory = *a == '-' ? UINT64_MAX : strtoull(a, NULL, 0);
        entry->gi = (unsigned)gi;
        entry->ci = (unsigned)ci;
        entry->sm = sm;
    } else bad("unknown statement", line);
}

static void read_scenario(void) {
    const char *path = getenv("SCRIPTED_NVML");
    char line[1024];
    struct unit *about = NULL;
    struct stat now;
    FILE *file;
    if (!path || stat(path, &now)) bad("no scenario", path ? path : "SCRIPTED_NVML is not set");
    if (now.st_mtim.tv_nsec == last_seen.st_mtim.tv_nsec && now.st_ino == last_seen.st_ino
        && now.st_mtim.tv_sec == last_seen.st_mtim.tv_sec) return;
    last_seen = now;
    if (!(file = fopen(path, "re"))) bad("cannot read", path);
    memset(gpus, 0, sizeof gpus);
    memset(slots, 0, sizeof slots);
    gpu_count = rule_count = 0;
    while (fgets(line, sizeof line, file)) {
        line[strcspn(line, "\n")] = 0;
        read_line(line, &about);
    }
    fclose(file);
}

static int64_t count_call(const char *function, int device) {
    int i;
    for (i = 0; i < counter_count; i++)
        if (counters[i].device == device && !strcmp(counters[i].function, function))
            return counters[i].calls++;
    if (i == MOST_COUNTERS) bad("too many counters", function);
    counter_count++;
    snprintf(counters[i].function, sizeof counters[i].function, "%s", function);
    counters[i].device = device;
    counters[i].calls = 1;
    return 0;
}

/* What all calls begin with; `value` becomes what the scenario puts in place of the figure. */
static int begin(const char *function, int device, int64_t *value) {
    int64_t before, now;
    read_scenario();
    say(function, device);
    before = count_call(function, device);
    now = elapsed_ms();
    *value = NO_VALUE;
    for (int i = 0; i < rule_count; i++) {
        const struct rule *rule = &rules[i];
        int any = !strcmp(rule->function, "*") && strcmp(function, "nvmlInitWithFlags")
                  && strcmp(function, "nvmlShutdown");
        if (!any && strcmp(rule->function, function)) continue;
        if (rule->device >= 0 && rule->device != device) continue;
        if (before < rule->after_calls || (rule->until_calls >= 0 && before >= rule->until_calls))
            continue;
        if (now < rule->after_ms || (rule->until_ms >= 0 && now >= rule->until_ms)) continue;
        if (rule->sleep_ms) usleep((useconds_t)(rule->sleep_ms * 1000));
        if (rule->crash == 1) abort();
        if (rule->crash == 2) raise(SIGSEGV);
        while (rule->hang) pause();
        if (rule->code) return (int)rule->code;
        *value = rule->value;
        break;
    }
    return SUCCESS;
}

static struct unit *unit_of(const struct handle *handle) {
    return handle->slot < 0 ? &gpus[handle->gpu] : &slots[handle->gpu][handle->slot];
}

/* The same for calls about a device; `unit` becomes what the handle stands for. */
static int begin_device(const char *function, const struct handle *handle, struct unit **unit,
                        int64_t *value) {
    int code;
    if (!handle) bad("NULL-HANDLE", function);
    code = begin(function, handle->gpu, value);
    if (code) return code;
    if (!initialized) return UNINITIALIZED;
    if (handle->generation != generation) {
        say("OUTDATED-HANDLE", handle->gpu);
        return INVALID_ARGUMENT;
    }
    *unit = unit_of(handle);
    return (*unit)->present ? SUCCESS : NOT_FOUND;
}

/* A triangle wave of 7 s, each device at another phase, so that figures change each second. */
static int64_t figure(const struct unit *unit, enum key key) {
    int64_t phase, wave;
    if (!unit->swing[key]) return unit->value[key];
    phase = (elapsed_ms() + (int64_t)(unit - gpus) * 900) % 7000;
    wave = phase < 3500 ? phase * 2 - 3500 : 10500 - phase * 2;
    wave = unit->value[key] + unit->swing[key] * wave / 3500;
    return wave < 0 ? 0 : wave;
}

static int text(char *into, unsigned size, const char *from) {
    size_t length = strlen(from);
    if (length + 1 > size) return INSUFFICIENT_SIZE;
    memcpy(into, from, length + 1);
    return SUCCESS;
}

int nvmlInitWithFlags(unsigned flags) {
    int64_t value;
    int code = begin("nvmlInitWithFlags", -1, &value);
    (void)flags;
    if (code) return code;
    if (!initialized++) generation++;
    return SUCCESS;
}

int nvmlShutdown(void) {
    int64_t value;
    int code = begin("nvmlShutdown", -1, &value);
    if (code) return code;
    if (!initialized) return UNINITIALIZED;
    initialized--;
    return SUCCESS;
}

const char *nvmlErrorString(int code) {
    return code == 999 ? "Unknown Error" : "Scripted Error";
}

#define SYSTEM(name) \
    int64_t value; \
    int code = begin(name, -1, &value); \
    if (code) return code; \
    if (!initialized) return UNINITIALIZED

int nvmlSystemGetDriverVersion(char *into, unsigned size) {
    SYSTEM("nvmlSystemGetDriverVersion");
    return text(into, size, driver);
}

int nvmlSystemGetCudaDriverVersion_v2(int *into) {
    SYSTEM("nvmlSystemGetCudaDriverVersion_v2");
    *into = value == NO_VALUE ? cuda : (int)value;
    return SUCCESS;
}

int nvmlDeviceGetCount_v2(unsigned *into) {
    SYSTEM("nvmlDeviceGetCount_v2");
    *into = (unsigned)(value == NO_VALUE ? gpu_count : value);
    return SUCCESS;
}

static struct handle *handle_of(int gpu, int slot) {
    struct handle *handle = &handles[generation % 8][gpu][slot + 1];
    handle->gpu = gpu;
    handle->slot = slot;
    handle->generation = generation;
    return handle;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned index, struct handle **into) {
    int64_t value;
    int code = begin("nvmlDeviceGetHandleByIndex_v2", (int)index, &value);
    *into = NULL;
    if (code) return code;
    if (!initialized) return UNINITIALIZED;
    if (index >= (unsigned)gpu_count) return INVALID_ARGUMENT;
    if (value != 0) *into = handle_of((int)index, -1);
    return SUCCESS; /* value=0: success with a null handle, as was seen of a lost device */
}

#define DEVICE(name) \
    struct unit *unit; \
    int64_t value; \
    int code = begin_device(name, device, &unit, &value); \
    if (code) return code

#define GPU_ONLY if (device->slot >= 0) return NOT_SUPPORTED

int nvmlDeviceGetUUID(struct handle *device, char *into, unsigned size) {
    DEVICE("nvmlDeviceGetUUID");
    return text(into, size, unit->uuid);
}

int nvmlDeviceGetName(struct handle *device, char *into, unsigned size) {
    DEVICE("nvmlDeviceGetName");
    return text(into, size, unit->name);
}

int nvmlDeviceGetVbiosVersion(struct handle *device, char *into, unsigned size) {
    DEVICE("nvmlDeviceGetVbiosVersion");
    return text(into, size, "96.00.B9.00.01");
}

struct pci { char legacy[16]; unsigned domain, bus, device, id, subsystem; char bus_id[32]; };

int nvmlDeviceGetPciInfo_v3(struct handle *device, struct pci *into) {
    DEVICE("nvmlDeviceGetPciInfo_v3");
    memset(into, 0, sizeof *into);
    into->bus = (unsigned)gpus[device->gpu].value[BUS];
    into->id = 0x233510de;
    snprintf(into->legacy, sizeof into->legacy, "0000:%02X:00.0", into->bus & 0xff);
    snprintf(into->bus_id, sizeof into->bus_id, "00000000:%02X:00.0", into->bus & 0xff);
    return SUCCESS;
}

int nvmlDeviceGetMigMode(struct handle *device, unsigned *current, unsigned *pending) {
    DEVICE("nvmlDeviceGetMigMode");
    GPU_ONLY;
    *current = *pending = (unsigned)(value == NO_VALUE ? unit->value[MIG] : value);
    return SUCCESS;
}

int nvmlDeviceGetMaxMigDeviceCount(struct handle *device, unsigned *into) {
    DEVICE("nvmlDeviceGetMaxMigDeviceCount");
    GPU_ONLY;
    *into = unit->value[MIG] ? MOST_SLOTS : 0;
    return SUCCESS;
}

int nvmlDeviceGetMigDeviceHandleByIndex(struct handle *device, unsigned slot,
                                        struct handle **into) {
    DEVICE("nvmlDeviceGetMigDeviceHandleByIndex");
    GPU_ONLY;
    *into = NULL;
    if (slot >= MOST_SLOTS || !slots[device->gpu][slot].present) return NOT_FOUND;
    *into = handle_of(device->gpu, (int)slot);
    return SUCCESS;
}

static uint64_t free_of(const struct unit *unit, uint64_t used) {
    if (unit->value[FREE]) return (uint64_t)unit->value[FREE];
    return (uint64_t)(unit->value[TOTAL] - unit->value[RESERVED]) - used;
}

struct memory_v1 { uint64_t total, free, used; };

int nvmlDeviceGetMemoryInfo(struct handle *device, struct memory_v1 *into) {
    DEVICE("nvmlDeviceGetMemoryInfo");
    uint64_t used = (uint64_t)figure(unit, USED);
    into->total = (uint64_t)unit->value[TOTAL];
    into->free = free_of(unit, used);
    into->used = used + (uint64_t)unit->value[RESERVED]; /* version 1 counts both as used */
    return SUCCESS;
}

struct memory_v2 { unsigned version; uint64_t total, reserved, free, used; };

int nvmlDeviceGetMemoryInfo_v2(struct handle *device, struct memory_v2 *into) {
    DEVICE("nvmlDeviceGetMemoryInfo_v2");
    if (into->version != (sizeof *into | 2u << 24)) return ARGUMENT_VERSION_MISMATCH;
    into->total = (uint64_t)unit->value[TOTAL];
    into->reserved = (uint64_t)unit->value[RESERVED];
    into->used = (uint64_t)figure(unit, USED);
    into->free = free_of(unit, into->used);
    return SUCCESS;
}

struct utilization { unsigned gpu, memory; };

int nvmlDeviceGetUtilizationRates(struct handle *device, struct utilization *into) {
    DEVICE("nvmlDeviceGetUtilizationRates");
    GPU_ONLY;
    if (unit->value[MIG]) return NOT_SUPPORTED;
    into->gpu = (unsigned)(value == NO_VALUE ? figure(unit, UTIL) : value);
    into->memory = (unsigned)(value == NO_VALUE ? figure(unit, MEMUTIL) : value);
    return SUCCESS;
}

struct temperature { unsigned version, sensor; int temperature; };

int nvmlDeviceGetTemperatureV(struct handle *device, struct temperature *into) {
    DEVICE("nvmlDeviceGetTemperatureV");
    GPU_ONLY;
    if (into->version != (sizeof *into | 1u << 24)) return ARGUMENT_VERSION_MISMATCH;
    into->temperature = (int)(value == NO_VALUE ? figure(unit, TEMP) : value);
    return SUCCESS;
}

#define FIGURE(name, type, key) \
    int name(struct handle *device, type *into) { \
        DEVICE(#name); \
        GPU_ONLY; \
        *into = (type)(value == NO_VALUE ? figure(unit, key) : value); \
        return SUCCESS; \
    }

FIGURE(nvmlDeviceGetPowerUsage, unsigned, POWER)
FIGURE(nvmlDeviceGetEnforcedPowerLimit, unsigned, LIMIT)
FIGURE(nvmlDeviceGetPowerManagementLimit, unsigned, LIMIT)
FIGURE(nvmlDeviceGetPerformanceState, unsigned, PSTATE)
FIGURE(nvmlDeviceGetCurrentClocksEventReasons, uint64_t, THROTTLE)
FIGURE(nvmlDeviceGetCurrentClocksThrottleReasons, uint64_t, THROTTLE)
FIGURE(nvmlDeviceGetCurrPcieLinkGeneration, unsigned, GENERATION)
FIGURE(nvmlDeviceGetCurrPcieLinkWidth, unsigned, WIDTH)

int nvmlDeviceGetTemperature(struct handle *device, unsigned sensor, unsigned *into) {
    DEVICE("nvmlDeviceGetTemperature");
    GPU_ONLY;
    if (sensor) return INVALID_ARGUMENT;
    *into = (unsigned)(value == NO_VALUE ? figure(unit, TEMP) : value);
    return SUCCESS;
}

int nvmlDeviceGetTemperatureThreshold(struct handle *device, unsigned type, unsigned *into) {
    DEVICE("nvmlDeviceGetTemperatureThreshold");
    GPU_ONLY;
    if (type != 1) return INVALID_ARGUMENT; /* slowdown */
    if (value == NO_VALUE && unit->value[SLOWDOWN] < 0) return NOT_SUPPORTED;
    *into = (unsigned)(value == NO_VALUE ? unit->value[SLOWDOWN] : value);
    return SUCCESS;
}

struct margin { unsigned version; int celsius; };

int nvmlDeviceGetMarginTemperature(struct handle *device, struct margin *into) {
    DEVICE("nvmlDeviceGetMarginTemperature");
    GPU_ONLY;
    if (into->version != (sizeof *into | 1u << 24)) return ARGUMENT_VERSION_MISMATCH;
    if (value == NO_VALUE && unit->value[MARGIN] < 0) return NOT_SUPPORTED;
    into->celsius = (int)(value == NO_VALUE ? unit->value[MARGIN] : value);
    return SUCCESS;
}

int nvmlDeviceGetFanSpeed(struct handle *device, unsigned *into) {
    DEVICE("nvmlDeviceGetFanSpeed");
    GPU_ONLY;
    if (value == NO_VALUE && unit->value[FAN] < 0) return NOT_SUPPORTED; /* cooled by the server */
    *into = (unsigned)(value == NO_VALUE ? figure(unit, FAN) : value);
    return SUCCESS;
}

int nvmlDeviceGetClockInfo(struct handle *device, unsigned type, unsigned *into) {
    DEVICE("nvmlDeviceGetClockInfo");
    GPU_ONLY;
    if (type != 1 && type != 2) return INVALID_ARGUMENT;
    *into = (unsigned)(value == NO_VALUE ? figure(unit, type == 1 ? SM : MEM) : value);
    return SUCCESS;
}

int nvmlDeviceGetTotalEccErrors(struct handle *device, unsigned error, unsigned counter,
                                uint64_t *into) {
    DEVICE("nvmlDeviceGetTotalEccErrors");
    GPU_ONLY;
    if (error > 1 || counter > 1) return INVALID_ARGUMENT;
    if (value == NO_VALUE && unit->value[ECC] < 0) return NOT_SUPPORTED;
    *into = (uint64_t)(value == NO_VALUE ? figure(unit, ECC) : value);
    return SUCCESS;
}

int nvmlDeviceGetPcieThroughput(struct handle *device, unsigned counter, unsigned *into) {
    DEVICE("nvmlDeviceGetPcieThroughput");
    GPU_ONLY;
    if (counter > 1) return INVALID_ARGUMENT;
    if (value == NO_VALUE && unit->value[SENT] < 0) return NOT_SUPPORTED;
    *into = (unsigned)(value == NO_VALUE ? figure(unit, counter ? RECEIVED : SENT) : value);
    return SUCCESS;
}

FIGURE(nvmlDeviceGetMaxPcieLinkGeneration, unsigned, GENERATION)
FIGURE(nvmlDeviceGetMaxPcieLinkWidth, unsigned, WIDTH)
FIGURE(nvmlDeviceGetPowerManagementDefaultLimit, unsigned, LIMIT)

int nvmlDeviceGetPcieReplayCounter(struct handle *device, unsigned *into) {
    DEVICE("nvmlDeviceGetPcieReplayCounter");
    GPU_ONLY;
    *into = 0;
    return SUCCESS;
}

int nvmlDeviceGetMaxClockInfo(struct handle *device, unsigned type, unsigned *into) {
    DEVICE("nvmlDeviceGetMaxClockInfo");
    GPU_ONLY;
    if (type != 1 && type != 2) return INVALID_ARGUMENT;
    *into = type == 1 ? 1980 : 3201;
    return SUCCESS;
}

int nvmlDeviceGetEccMode(struct handle *device, unsigned *current, unsigned *pending) {
    DEVICE("nvmlDeviceGetEccMode");
    GPU_ONLY;
    if (unit->value[ECC] < 0) return NOT_SUPPORTED;
    *current = *pending = 1;
    return SUCCESS;
}

#define CODEC(name, key) \
    int name(struct handle *device, unsigned *into, unsigned *period_us) { \
        DEVICE(#name); \
        GPU_ONLY; \
        if (value == NO_VALUE && unit->value[key] < 0) return NOT_SUPPORTED; \
        *into = (unsigned)(value == NO_VALUE ? figure(unit, key) : value); \
        *period_us = 167000; \
        return SUCCESS; \
    }

CODEC(nvmlDeviceGetEncoderUtilization, ENCODER)
CODEC(nvmlDeviceGetDecoderUtilization, DECODER)

/* All links of a GPU go to switches, as in an HGX box. */
static int link_of(const struct unit *unit, unsigned link) {
    if (!unit->value[NVLINKS]) return NOT_SUPPORTED;
    return link < (unsigned)unit->value[NVLINKS] ? SUCCESS : INVALID_ARGUMENT;
}

int nvmlDeviceGetNvLinkState(struct handle *device, unsigned link, unsigned *into) {
    DEVICE("nvmlDeviceGetNvLinkState");
    GPU_ONLY;
    *into = (unsigned)(value == NO_VALUE ? 1 : value);
    return link_of(unit, link);
}

int nvmlDeviceGetNvLinkRemoteDeviceType(struct handle *device, unsigned link, unsigned *into) {
    DEVICE("nvmlDeviceGetNvLinkRemoteDeviceType");
    GPU_ONLY;
    *into = 2; /* a switch */
    return link_of(unit, link);
}

int nvmlDeviceGetNvLinkRemotePciInfo_v2(struct handle *device, unsigned link, struct pci *into) {
    DEVICE("nvmlDeviceGetNvLinkRemotePciInfo_v2");
    GPU_ONLY;
    memset(into, 0, sizeof *into);
    snprintf(into->bus_id, sizeof into->bus_id, "00000000:%02X:00.0", 0x90 + link % 4);
    return link_of(unit, link);
}

int nvmlDeviceGetTopologyCommonAncestor(struct handle *device, struct handle *other,
                                        unsigned *into) {
    DEVICE("nvmlDeviceGetTopologyCommonAncestor");
    GPU_ONLY;
    if (!other) bad("NULL-HANDLE", "nvmlDeviceGetTopologyCommonAncestor");
    *into = unit->value[NODE] == unit_of(other)->value[NODE] ? 40 : 50;
    return SUCCESS;
}

/* Allowed, unless a rule says otherwise. */
int nvmlDeviceGetP2PStatus(struct handle *device, struct handle *other, int what, int *into) {
    DEVICE("nvmlDeviceGetP2PStatus");
    GPU_ONLY;
    (void)what;
    if (!other) bad("NULL-HANDLE", "nvmlDeviceGetP2PStatus");
    *into = value == NO_VALUE ? 0 : (int)value;
    return SUCCESS;
}

/* 48 CPUs a node. */
int nvmlDeviceGetCpuAffinity(struct handle *device, unsigned words, unsigned long *into) {
    DEVICE("nvmlDeviceGetCpuAffinity");
    GPU_ONLY;
    memset(into, 0, words * sizeof *into);
    for (unsigned cpu = (unsigned)unit->value[NODE] * 48, end = cpu + 48; cpu < end; cpu++)
        into[cpu / 64] |= 1ul << cpu % 64;
    return SUCCESS;
}

int nvmlDeviceGetMemoryAffinity(struct handle *device, unsigned words, unsigned long *into,
                                unsigned scope) {
    DEVICE("nvmlDeviceGetMemoryAffinity");
    GPU_ONLY;
    if (scope > 1) return INVALID_ARGUMENT;
    memset(into, 0, words * sizeof *into);
    into[0] = 1ul << unit->value[NODE];
    return SUCCESS;
}

struct process_info { unsigned pid; uint64_t memory; unsigned gi, ci; };

/* As NVML does it: asked with room for none, it tells how many there are. */
static int list(const struct unit *unit, int kind, unsigned *count, struct process_info *into) {
    unsigned found = 0, room = *count;
    for (int i = 0; i < unit->process_count; i++) {
        const struct process *entry = &unit->processes[i];
        if (entry->kind != kind) continue;
        if (into && found < room)
            into[found] = (struct process_info){ entry->pid, entry->memory, entry->gi, entry->ci };
        found++;
    }
    *count = found;
    return found > room ? INSUFFICIENT_SIZE : SUCCESS;
}

#define PROCESSES(name, kind) \
    int name(struct handle *device, unsigned *count, struct process_info *into) { \
        DEVICE(#name); \
        return list(unit, kind, count, into); \
    }

PROCESSES(nvmlDeviceGetComputeRunningProcesses_v2, 0)
PROCESSES(nvmlDeviceGetComputeRunningProcesses_v3, 0)
PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v2, 1)
PROCESSES(nvmlDeviceGetGraphicsRunningProcesses_v3, 1)
PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses_v2, 2)
PROCESSES(nvmlDeviceGetMPSComputeRunningProcesses_v3, 2)

struct process_sample {
    unsigned pid;
    unsigned long long time_us; /* Unix time */
    unsigned sm, memory, encoder, decoder;
};

/* The samples since a time. SAMPLE_AGE, in ms, makes a driver that gives outdated ones whatever it
 * is asked for, as was seen (Syllo/nvtop#110); a rule's value takes the place of the percentage. */
int nvmlDeviceGetProcessUtilization(struct handle *device, struct process_sample *into,
                                    unsigned *count, unsigned long long last_seen_us) {
    DEVICE("nvmlDeviceGetProcessUtilization");
    struct timespec now;
    unsigned found = 0, room = into ? *count : 0;
    unsigned long long taken_us;
    GPU_ONLY;
    if (unit->value[MIG]) return NOT_SUPPORTED;
    clock_gettime(CLOCK_REALTIME, &now);
    taken_us = (unsigned long long)now.tv_sec * 1000000 + (unsigned long long)now.tv_nsec / 1000
               - (unsigned long long)unit->value[SAMPLE_AGE] * 1000;
    for (int i = 0; i < unit->process_count; i++) {
        const struct process *entry = &unit->processes[i];
        if (entry->sm < 0) continue;
        if (taken_us <= last_seen_us && !unit->value[SAMPLE_AGE]) continue;
        if (found < room)
            into[found] = (struct process_sample){
                entry->pid, taken_us, (unsigned)(value == NO_VALUE ? entry->sm : value), 0, 0, 0 };
        found++;
    }
    *count = found;
    return !found ? NOT_FOUND : found > room ? INSUFFICIENT_SIZE : SUCCESS;
}

/* What the monitor does not ask and other readers of NVML do; the benchmark runs one of them. */
#define ABSENT(name, code) \
    int name(void) { return code; }

ABSENT(nvmlSystemGetCudaDriverVersion, NOT_SUPPORTED)
ABSENT(nvmlDeviceGetComputeMode, NOT_SUPPORTED)
ABSENT(nvmlDeviceGetDisplayActive, NOT_SUPPORTED)
ABSENT(nvmlDeviceGetDisplayMode, NOT_SUPPORTED)
ABSENT(nvmlDeviceGetDriverModel, NOT_SUPPORTED)
ABSENT(nvmlDeviceGetPersistenceMode, NOT_SUPPORTED)
