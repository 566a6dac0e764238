/* SPDX-License-Identifier: Apache-2.0 */
/*
 * conformance: scripted scenarios on any library with the CUDA driver's ABI, one line each.
 *
 * It runs on a real GPU and on the simulated device. If a result is expected, the two outputs must
 * not differ. If it is only observed ('?'), a difference is something to look into.
 */
#include "child.h"
#include "scenario.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

enum { SCENARIO_SECONDS = 300, EXIT_DIFFERS = 1, EXIT_USAGE = 2, EXIT_HUNG = 3, EXIT_SKIPPED = 77 };

/* ---- the line of one scenario --------------------------------------------------------------- */

/* Shared with the children: of one that hangs or dies, what it had found is still told. */
struct line {
    size_t length;
    char text[8192];
};

static struct line *line;
static int differs;

static void line_share(void)
{
    void *made =
        mmap(NULL, sizeof(*line), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (made == MAP_FAILED) {
        fprintf(stderr, "conformance: mmap: %s\n", strerror(errno));
        exit(EXIT_USAGE);
    }
    line = made;
}

static void say(const char *format, ...) __attribute__((format(printf, 1, 2)));

static void say(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    size_t room = sizeof(line->text) - line->length;
    int wrote = vsnprintf(line->text + line->length, room, format, arguments);
    va_end(arguments);
    if (wrote > 0)
        line->length += (size_t)wrote < room ? (size_t)wrote : room - 1;
}

/* The name without its prefix; the number if the driver knows no name. */
static const char *result_name(CUresult result)
{
    static char number[32];
    const char *name = NULL;
    if (result == CUDA_SUCCESS)
        return "SUCCESS";
    if (cu.GetErrorName(result, &name) != CUDA_SUCCESS || name == NULL) {
        snprintf(number, sizeof(number), "%d", (int)result);
        return number;
    }
    return strncmp(name, "CUDA_ERROR_", 11) == 0 ? name + 11 : name;
}

void expect(const char *label, CUresult result, CUresult expected)
{
    say(" %s=%s", label, result_name(result));
    if (result != expected) {
        say("(expected %s)", result_name(expected));
        differs = 1;
    }
}

void observe(const char *label, CUresult result)
{
    say(" %s?=%s", label, result_name(result));
}

void expect_number(const char *label, unsigned long long number, unsigned long long expected)
{
    say(" %s=%llu", label, number);
    if (number != expected) {
        say("(expected %llu)", expected);
        differs = 1;
    }
}

void observe_number(const char *label, unsigned long long number)
{
    say(" %s?=%llu", label, number);
}

void expect_yes(const char *label, int answer, int expected)
{
    say(" %s=%s", label, answer ? "yes" : "no");
    if (answer != expected) {
        say("(expected %s)", expected ? "yes" : "no");
        differs = 1;
    }
}

void observe_yes(const char *label, int answer)
{
    say(" %s?=%s", label, answer ? "yes" : "no");
}

static void finish(const char *name) __attribute__((noreturn));

/* The process ends without the driver's own clean-up, which may wait for gated work. */
static void finish(const char *name)
{
    printf("%-32s %s%s\n", name, differs ? "DIFFERS" : "ok", line->text);
    fflush(stdout);
    _exit(differs ? EXIT_DIFFERS : 0);
}

static const char *running;

void need(const char *what, CUresult result)
{
    if (result != CUDA_SUCCESS) {
        say(" %s=%s(needed to go on)", what, result_name(result));
        differs = 1;
        finish(running);
    }
}

void skip(const char *reason)
{
    printf("%-32s skipped: %s\n", running, reason);
    fflush(stdout);
    _exit(EXIT_SKIPPED);
}

/* ---- steps ---------------------------------------------------------------------------------- */

CUmemAllocationProp chunk_property(void)
{
    CUmemAllocationProp property;
    memset(&property, 0, sizeof(property));
    property.type = CU_MEM_ALLOCATION_TYPE_PINNED;
    property.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    property.requestedHandleTypes = CU_MEM_HANDLE_TYPE_POSIX_FILE_DESCRIPTOR;
    return property;
}

CUmemGenericAllocationHandle chunk_create(size_t bytes)
{
    CUmemGenericAllocationHandle handle = 0;
    CUmemAllocationProp property = chunk_property();
    need("create", cu.MemCreate(&handle, bytes, &property, 0));
    return handle;
}

CUdeviceptr reserve(size_t bytes)
{
    CUdeviceptr at = 0;
    need("reserve", cu.MemAddressReserve(&at, bytes, 0, 0, 0));
    return at;
}

CUresult set_access(CUdeviceptr at, size_t bytes)
{
    CUmemAccessDesc access;
    memset(&access, 0, sizeof(access));
    access.location.type = CU_MEM_LOCATION_TYPE_DEVICE;
    access.flags = CU_MEM_ACCESS_FLAGS_PROT_READWRITE;
    return cu.MemSetAccess(at, bytes, &access, 1);
}

CUdeviceptr chunk_mapped(size_t bytes, CUmemGenericAllocationHandle *handle)
{
    CUmemGenericAllocationHandle made = chunk_create(bytes);
    CUdeviceptr at = reserve(bytes);
    need("map", cu.MemMap(at, bytes, 0, made, 0));
    need("access", set_access(at, bytes));
    if (handle != NULL)
        *handle = made;
    return at;
}

CUstream stream_new(unsigned flags)
{
    CUstream stream = NULL;
    need("stream", cu.StreamCreate(&stream, flags));
    return stream;
}

CUevent event_new(unsigned flags)
{
    CUevent event = NULL;
    need("event", cu.EventCreate(&event, flags));
    return event;
}

unsigned byte_at(CUdeviceptr at)
{
    unsigned char byte = 0;
    need("copy", cu.MemcpyDtoH(&byte, at, 1));
    return byte;
}

/* ---- gates ---------------------------------------------------------------------------------- */

struct gate {
    uint32_t *word; /* pinned */
    pthread_t watchdog;
    pthread_mutex_t lock;
    pthread_cond_t stop;
    unsigned ms;
    int stopped; /* guarded by lock */
    int fired;   /* guarded by lock */
};

struct gate *gate_new(void)
{
    struct gate *gate = calloc(1, sizeof(*gate));
    void *word = NULL;
    if (gate == NULL)
        need("memory for a gate", CUDA_ERROR_OUT_OF_MEMORY);
    need("pinned memory", cu.MemHostAlloc(&word, sizeof(*gate->word), CU_MEMHOSTALLOC_DEVICEMAP));
    gate->word = word;
    *gate->word = 0;
    pthread_mutex_init(&gate->lock, NULL);
    pthread_cond_init(&gate->stop, NULL);
    return gate;
}

void gate_close(struct gate *gate, CUstream stream)
{
    CUdeviceptr device = 0;
    need("device pointer", cu.MemHostGetDevicePointer(&device, gate->word, 0));
    need("value wait", cu.StreamWaitValue32(stream, device, 1, CU_STREAM_WAIT_VALUE_GEQ));
}

void gate_open(struct gate *gate)
{
    __atomic_store_n(gate->word, 1, __ATOMIC_SEQ_CST);
}

static void *watch_main(void *data)
{
    struct gate *gate = data;
    struct timespec until;
    clock_gettime(CLOCK_REALTIME, &until);
    until.tv_sec += gate->ms / 1000;
    until.tv_nsec += (long)(gate->ms % 1000) * 1000000;
    if (until.tv_nsec >= 1000000000) {
        until.tv_nsec -= 1000000000;
        until.tv_sec++;
    }
    pthread_mutex_lock(&gate->lock);
    int waited = 0;
    while (!gate->stopped && waited != ETIMEDOUT)
        waited = pthread_cond_timedwait(&gate->stop, &gate->lock, &until);
    if (!gate->stopped) {
        gate->fired = 1;
        gate_open(gate);
    }
    pthread_mutex_unlock(&gate->lock);
    return NULL;
}

void watch_start(struct gate *gate, unsigned ms)
{
    gate->ms = ms;
    gate->stopped = 0;
    gate->fired = 0;
    if (pthread_create(&gate->watchdog, NULL, watch_main, gate) != 0)
        need("a thread", CUDA_ERROR_OPERATING_SYSTEM);
}

int watch_stop(struct gate *gate)
{
    pthread_mutex_lock(&gate->lock);
    gate->stopped = 1;
    int fired = gate->fired;
    pthread_cond_signal(&gate->stop);
    pthread_mutex_unlock(&gate->lock);
    pthread_join(gate->watchdog, NULL);
    return fired;
}

/* ---- running -------------------------------------------------------------------------------- */

struct options {
    const char *library;
    const char *only; /* scenarios whose name contains this */
    unsigned limit_s; /* for each */
    int list;
    int self_test; /* the runner's own scenarios instead */
};

struct task {
    const struct scenario *scenario; /* null: the probe */
    const char *library;
};

static void scenario_run(const void *data)
{
    const struct task *task = data;
    running = task->scenario->name;
    const char *missing = driver_load(task->library);
    if (missing != NULL) {
        fprintf(stderr, "conformance: %s: %s\n", task->library, missing);
        _exit(EXIT_USAGE);
    }
    if (!task->scenario->bare) {
        CUcontext context = NULL;
        need("init", cu.Init(0));
        need("retain", cu.DevicePrimaryCtxRetain(&context, 0));
        need("current", cu.CtxSetCurrent(context));
    }
    task->scenario->run();
    finish(running);
}

/* In a child, because a driver once initialised does not work in children. */
static void probe(const void *data)
{
    const char *library = ((const struct task *)data)->library;
    int count = 0;
    const char *missing = driver_load(library);
    if (missing != NULL) {
        printf("conformance: skipped: cannot use %s: %s\n", library, missing);
        fflush(stdout);
        _exit(EXIT_SKIPPED);
    }
    CUresult result = cu.Init(0);
    if (result == CUDA_SUCCESS)
        result = cu.DeviceGetCount(&count);
    if (result != CUDA_SUCCESS || count == 0) {
        printf("conformance: skipped: %s has no device: %s\n", library, result_name(result));
        fflush(stdout);
        _exit(EXIT_SKIPPED);
    }
    char name[128] = "";
    int version = 0;
    (void)cu.DeviceGetName(name, sizeof(name), 0);
    (void)cu.DriverGetVersion(&version);
    fprintf(stderr, "conformance: %s: %s, driver %d.%d, %d device%s\n", library, name,
            version / 1000, version % 1000 / 10, count, count == 1 ? "" : "s");
    _exit(0);
}

/* Runs a scenario, or the probe for null, in a child; its exit code, EXIT_DIFFERS if it died, or
 * EXIT_HUNG. Of one that did not come to its end the line says how far it came. */
static int in_child(const struct scenario *scenario, const struct options *options)
{
    const struct task task = {scenario, options->library};
    const char *name = scenario == NULL ? "probe" : scenario->name;
    struct child_end end;
    line->length = 0;
    line->text[0] = '\0';
    if (!child_run(name, scenario == NULL ? probe : scenario_run, &task, options->limit_s, &end)) {
        fprintf(stderr, "conformance: fork: %s\n", strerror(errno));
        exit(EXIT_USAGE);
    }
    if (end.seconds >= 2.0)
        fprintf(stderr, "conformance: %s: took %.1f s\n", name, end.seconds);
    if (end.hung)
        printf("%-32s HUNG: killed after %.0f s%s; until then:%s\n", name, end.seconds,
               end.left ? " and still there" : "", line->text);
    else if (end.code < 0)
        printf("%-32s DIED of signal %d; until then:%s\n", name, end.signal, line->text);
    fflush(stdout);
    return end.hung ? EXIT_HUNG : end.code < 0 ? EXIT_DIFFERS : end.code;
}

/* ---- the runner's own scenarios ------------------------------------------------------------- */

/* Nothing but SIGKILL ends it. */
static void hangs(void)
{
    sigset_t all;
    sigfillset(&all);
    (void)sigprocmask(SIG_SETMASK, &all, NULL);
    need("query", cu.StreamQuery(NULL));
    observe("before", CUDA_SUCCESS);
    for (;;)
        (void)pause();
}

static void dies(void)
{
    observe("before", CUDA_SUCCESS);
    (void)raise(SIGKILL);
}

static void slow(void)
{
    struct timespec time = {2, 400000000};
    (void)nanosleep(&time, NULL);
    expect("query", cu.StreamQuery(NULL), CUDA_SUCCESS);
}

static const struct scenario self_scenarios[] = {
    {"hangs", hangs, 0},
    {"dies", dies, 0},
    {"slow", slow, 0},
    {NULL, NULL, 0},
};

/* ---- all of them ---------------------------------------------------------------------------- */

struct group {
    const struct scenario *scenarios;
    int device_only; /* not for the simulated device */
};

static const struct group groups[] = {
    {basic_scenarios, 0},         {vmm_scenarios, 0},
    {stream_scenarios, 0},        {memory_scenarios, 0},
    {peer_scenarios, 0},          {capture_scenarios, 0},
    {capture_event_scenarios, 0}, {capture_end_scenarios, 0},
    {capture_call_scenarios, 0},  {capture_device_scenarios, 1},
    {graph_scenarios, 0},         {graph_launch_scenarios, 0},
    {graph_update_scenarios, 0},  {graph_update_device_scenarios, 1},
};

static const struct group self_groups[] = {{self_scenarios, 0}};

struct counts {
    int run;
    int differ;
    int hung;
    int skipped;
};

/* Asked in a child, as everything of the library is. */
static void ask_simulated(const void *library)
{
    _exit(driver_load(library) == NULL && driver_simulated() ? 1 : 0);
}

static int library_simulated(const struct options *options)
{
    struct child_end end;
    return child_run("probe", ask_simulated, options->library, options->limit_s, &end) &&
           end.code == 1;
}

/* Runs or lists the scenarios; 0, or a code to end with because no scenario can run. */
static int run_all(const struct options *options, struct counts *counts)
{
    int simulated = !options->list && library_simulated(options);
    const struct group *all = options->self_test ? self_groups : groups;
    size_t count = options->self_test ? 1 : sizeof(groups) / sizeof(groups[0]);
    for (size_t i = 0; i < count; i++) {
        const struct scenario *scenario = all[i].scenarios;
        for (; scenario->name != NULL && !(simulated && all[i].device_only); scenario++) {
            if (options->only != NULL && strstr(scenario->name, options->only) == NULL)
                continue;
            counts->run++;
            if (options->list) {
                printf("%s\n", scenario->name);
                continue;
            }
            int code = in_child(scenario, options);
            if (code != 0 && code != EXIT_DIFFERS && code != EXIT_HUNG && code != EXIT_SKIPPED)
                return code;
            counts->skipped += code == EXIT_SKIPPED;
            counts->differ += code == EXIT_DIFFERS;
            counts->hung += code == EXIT_HUNG;
        }
    }
    return 0;
}

static void usage(FILE *out)
{
    fprintf(out,
            "usage: conformance [--only TEXT] [--limit SECONDS] [--list] LIBRARY\n"
            "\n"
            "Runs scripted scenarios on a CUDA driver library and prints one line for each.\n"
            "LIBRARY      cuda (libcuda.so.1), sim (libtenure_simcuda.so, found by the dynamic\n"
            "             loader) or the path of a library\n"
            "--only       runs the scenarios whose name contains TEXT\n"
            "--limit      kills a scenario after so many seconds (%d) and goes on with the next\n"
            "--list       prints the names and runs nothing\n"
            "--self-test  instead runs one scenario that hangs, one that dies and a slow one\n"
            "\n"
            "Results after '=' are checked; those after '?=' are only reported. Starting a real\n"
            "driver for each scenario takes about a third of a second: all take over a minute.\n"
            "Some need two devices, and are skipped where there is one.\n"
            "Exit code: 0 all as expected, 1 something differs, 2 bad usage, 3 a scenario hung,\n"
            "77 no driver or no device.\n",
            SCENARIO_SECONDS);
}

/* Whole seconds from 1 on. */
static int seconds_parse(const char *word, unsigned *seconds)
{
    char *end = NULL;
    errno = 0;
    unsigned long number = strtoul(word, &end, 10);
    *seconds = (unsigned)number;
    return errno == 0 && *end == '\0' && word[0] >= '0' && word[0] <= '9' && number >= 1 &&
           number <= 86400;
}

static int options_parse(int count, char **words, struct options *options)
{
    memset(options, 0, sizeof(*options));
    options->limit_s = SCENARIO_SECONDS;
    for (int i = 1; i < count; i++) {
        if (strcmp(words[i], "--help") == 0 || strcmp(words[i], "-h") == 0) {
            usage(stdout);
            exit(0);
        } else if (strcmp(words[i], "--list") == 0) {
            options->list = 1;
        } else if (strcmp(words[i], "--self-test") == 0) {
            options->self_test = 1;
        } else if (strcmp(words[i], "--only") == 0 && i + 1 < count) {
            options->only = words[++i];
        } else if (strcmp(words[i], "--limit") == 0 && i + 1 < count) {
            if (!seconds_parse(words[++i], &options->limit_s))
                return 0;
        } else if (words[i][0] == '-' || options->library != NULL) {
            return 0;
        } else {
            options->library = words[i];
        }
    }
    if (options->library != NULL && strcmp(options->library, "cuda") == 0)
        options->library = "libcuda.so.1";
    else if (options->library != NULL && strcmp(options->library, "sim") == 0)
        options->library = "libtenure_simcuda.so";
    return options->library != NULL || options->list;
}

int main(int argc, char **argv)
{
    struct options options;
    struct counts counts = {0, 0, 0, 0};
    if (!options_parse(argc, argv, &options)) {
        usage(stderr);
        return EXIT_USAGE;
    }
    line_share();
    child_watch();
    double from = seconds_now();
    int code = options.list ? 0 : in_child(NULL, &options);
    if (code == 0)
        code = run_all(&options, &counts);
    if (code != 0)
        return code;
    if (counts.run == 0) {
        fprintf(stderr, "conformance: no scenario's name contains '%s'\n", options.only);
        return EXIT_USAGE;
    }
    if (!options.list)
        fprintf(stderr, "conformance: %d scenarios, %d skipped, %d differ, %d hung, %.1f s\n",
                counts.run, counts.skipped, counts.differ, counts.hung, seconds_now() - from);
    return counts.hung != 0 ? EXIT_HUNG : counts.differ != 0 ? EXIT_DIFFERS : 0;
}
