/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The environment of the simulated device: one table of variables, each with its parser.
 *
 * A bad value is an error and never becomes the default. The message names the variable, the value
 * and what is allowed. Then cuInit fails with CUDA_ERROR_INVALID_VALUE.
 */
#include "sim.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#if defined(__has_include)
#if __has_include(<valgrind/valgrind.h>)
#include <valgrind/valgrind.h>
#endif
#endif
#ifndef RUNNING_ON_VALGRIND
#define RUNNING_ON_VALGRIND 0
#endif

#define GIB (UINT64_C(1) << 30)
#define PAGE_BYTES UINT64_C(4096)

/* Valgrind keeps a table entry per 64 KiB of address space that was ever mapped, and offers only
 * part of the 47 bits; real machines have room for eight devices of 8 TiB and more. */
#define RESERVE_NATIVE (UINT64_C(100) << 40)
#define RESERVE_VALGRIND (UINT64_C(64) << 30)

struct variable {
    const char *name;
    const char *allowed;
    int (*parse)(const char *text, struct sim_settings *settings);
};

/* A number with an optional K, M, G or T; rejects signs, blanks, junk and overflow. */
static int parse_size(const char *text, uint64_t *out)
{
    if (text[0] < '0' || text[0] > '9')
        return 0;
    char *end = NULL;
    errno = 0;
    unsigned long long number = strtoull(text, &end, 0);
    if (errno != 0)
        return 0;
    unsigned shift = 0;
    if (*end != '\0') {
        const char *units = "KMGT";
        const char *unit = strchr(units, *end);
        if (unit == NULL || end[1] != '\0')
            return 0;
        shift = 10u * (unsigned)(unit - units + 1);
    }
    if (number > (UINT64_MAX >> shift))
        return 0;
    *out = (uint64_t)number << shift;
    return 1;
}

static int parse_range(const char *text, uint64_t low, uint64_t high, uint64_t *out)
{
    uint64_t number = 0;
    if (!parse_size(text, &number) || number < low || number > high)
        return 0;
    *out = number;
    return 1;
}

static int parse_devices(const char *text, struct sim_settings *settings)
{
    return parse_range(text, 0, SIM_DEVICES_MAX, &settings->devices);
}

static int parse_memory(const char *text, struct sim_settings *settings)
{
    return parse_range(text, UINT64_C(1) << 20, UINT64_C(1) << 50, &settings->memory_bytes);
}

static int parse_granularity(const char *text, struct sim_settings *settings)
{
    uint64_t bytes = 0;
    if (!parse_range(text, PAGE_BYTES, GIB, &bytes) || (bytes & (bytes - 1)) != 0)
        return 0;
    settings->granularity_bytes = bytes;
    return 1;
}

static int parse_pinned_align(const char *text, struct sim_settings *settings)
{
    uint64_t bytes = 0;
    if (!parse_range(text, PAGE_BYTES, GIB, &bytes) || (bytes & (bytes - 1)) != 0)
        return 0;
    settings->pinned_align_bytes = bytes;
    return 1;
}

static int parse_reserve(const char *text, struct sim_settings *settings)
{
    return parse_range(text, PAGE_BYTES, UINT64_C(1) << 47, &settings->reserve_bytes);
}

static int parse_seed(const char *text, struct sim_settings *settings)
{
    return parse_range(text, 0, UINT64_MAX, &settings->seed);
}

static int parse_queries(const char *text, struct sim_settings *settings)
{
    return parse_range(text, 1, 1000000, &settings->queries);
}

static int parse_threads(const char *text, struct sim_settings *settings)
{
    return parse_range(text, 1, 64, &settings->threads);
}

static int parse_deadlock(const char *text, struct sim_settings *settings)
{
    return parse_range(text, 1, 86400000, &settings->deadlock_ms);
}

static int parse_lag(const char *text, struct sim_settings *settings)
{
    return parse_range(text, 0, 60000000, &settings->lag_us);
}

static int parse_idle(const char *text, struct sim_settings *settings)
{
    return parse_range(text, 0, 60000, &settings->idle_ms);
}

static int parse_version(const char *text, struct sim_settings *settings)
{
    return parse_range(text, 2000, 13000, &settings->version);
}

static int parse_schedule(const char *text, struct sim_settings *settings)
{
    static const char *const names[] = {"lazy", "random", "eager", "threads"};
    for (unsigned i = 0; i < 4; i++) {
        if (strcmp(text, names[i]) == 0) {
            settings->schedule = (enum sim_schedule)i;
            return 1;
        }
    }
    return 0;
}

static int parse_rdma(const char *text, struct sim_settings *settings)
{
    settings->rdma = strcmp(text, "0") != 0;
    return strcmp(text, "0") == 0 || strcmp(text, "1") == 0;
}

static int parse_peers(const char *text, struct sim_settings *settings)
{
    settings->peers = strcmp(text, "0") != 0;
    return strcmp(text, "0") == 0 || strcmp(text, "1") == 0;
}

static int parse_vmm(const char *text, struct sim_settings *settings)
{
    settings->vmm = strcmp(text, "0") != 0;
    return strcmp(text, "0") == 0 || strcmp(text, "1") == 0;
}

static int parse_keep_pages(const char *text, struct sim_settings *settings)
{
    settings->keep_pages = strcmp(text, "0") != 0;
    return strcmp(text, "0") == 0 || strcmp(text, "1") == 0;
}

static int parse_view(const char *text, struct sim_settings *settings)
{
    settings->view = strcmp(text, "beside") == 0 ? SIM_VIEW_BESIDE
                     : strcmp(text, "0") == 0    ? SIM_VIEW_NONE
                                                 : SIM_VIEW_ONLY;
    return settings->view != SIM_VIEW_ONLY || strcmp(text, "1") == 0;
}

static int parse_path(const char *text, char path[256])
{
    if (strlen(text) >= 256)
        return 0;
    memcpy(path, text, strlen(text) + 1);
    return 1;
}

static int parse_shared(const char *text, struct sim_settings *settings)
{
    return parse_path(text, settings->shared);
}

static int parse_dmem(const char *text, struct sim_settings *settings)
{
    return parse_path(text, settings->dmem);
}

static int parse_integrated(const char *text, struct sim_settings *settings)
{
    return parse_path(text, settings->meminfo);
}

static int parse_races(const char *text, struct sim_settings *settings)
{
    settings->races = strcmp(text, "0") != 0;
    return strcmp(text, "0") == 0 || strcmp(text, "1") == 0;
}

static int parse_strict(const char *text, struct sim_settings *settings)
{
    settings->abort_on_violation = strcmp(text, "abort") == 0;
    return settings->abort_on_violation || strcmp(text, "report") == 0;
}

/* Calls each(part) for the parts of text between commas; 0 if it is 0 for one. */
static int parse_list(const char *text, int (*each)(char *part, void *data), void *data)
{
    char copy[4096];
    if (strlen(text) >= sizeof(copy))
        return 0;
    memcpy(copy, text, strlen(text) + 1);
    char *rest = NULL;
    for (char *part = strtok_r(copy, ",", &rest); part != NULL; part = strtok_r(NULL, ",", &rest))
        if (!each(part, data))
            return 0;
    return 1;
}

static int missing_part(char *part, void *data)
{
    struct sim_settings *settings = data;
    return sim_entry_by_name(part, settings->missing) > 0;
}

static int parse_missing(const char *text, struct sim_settings *settings)
{
    return parse_list(text, missing_part, settings);
}

/* NAME:N[+][:ERROR], as in cuMemCreate:3+:2 */
static int fail_part(char *part, void *data)
{
    (void)data;
    char *colon = strchr(part, ':');
    if (colon == NULL)
        return 0;
    *colon = '\0';
    char *end = NULL;
    errno = 0;
    unsigned long long nth = strtoull(colon + 1, &end, 10);
    int sticky = *end == '+';
    end += sticky ? 1 : 0;
    unsigned long long error = CUDA_ERROR_OUT_OF_MEMORY;
    if (*end == ':')
        error = strtoull(end + 1, &end, 10);
    if (errno != 0 || *end != '\0' || nth == 0 || error == 0 || error > 999)
        return 0;
    return sim_fail_add(part, nth, sticky, (CUresult)error) == 0;
}

/* NAME:BYTES, as in context:480M */
static int overhead_part(char *part, void *data)
{
    static const char *const names[SIM_OVERHEADS] = {"context", "module", "launch", "graph",
                                                     "event"};
    struct sim_settings *settings = data;
    char *colon = strchr(part, ':');
    if (colon == NULL)
        return 0;
    *colon = '\0';
    for (int i = 0; i < SIM_OVERHEADS; i++)
        if (strcmp(part, names[i]) == 0)
            return parse_range(colon + 1, 0, UINT64_C(1) << 40, &settings->overhead_bytes[i]);
    return 0;
}

static int parse_overhead(const char *text, struct sim_settings *settings)
{
    return parse_list(text, overhead_part, settings);
}

static int parse_fail(const char *text, struct sim_settings *settings)
{
    return parse_list(text, fail_part, settings);
}

static const struct variable variables[] = {
    {"TENURE_SIM_DEVICES", "a number from 0 to 32", parse_devices},
    {"TENURE_SIM_MEMORY", "bytes per device, 1M to 1024T, with K, M, G or T", parse_memory},
    {"TENURE_SIM_GRANULARITY", "a power of two from 4K to 1G", parse_granularity},
    {"TENURE_SIM_PINNED_ALIGN", "a power of two from 4K to 1G", parse_pinned_align},
    {"TENURE_SIM_RESERVE", "bytes of address space in all, 4K to 128T", parse_reserve},
    {"TENURE_SIM_SEED", "a number of 64 bits", parse_seed},
    {"TENURE_SIM_SCHEDULE", "lazy, random, eager or threads", parse_schedule},
    {"TENURE_SIM_QUERIES", "a number from 1 to 1000000", parse_queries},
    {"TENURE_SIM_THREADS", "a number from 1 to 64", parse_threads},
    {"TENURE_SIM_DEADLOCK_MS", "milliseconds from 1 to 86400000", parse_deadlock},
    {"TENURE_SIM_LAG_US", "microseconds from 0 to 60000000", parse_lag},
    {"TENURE_SIM_IDLE_MS", "milliseconds from 0 to 60000", parse_idle},
    {"TENURE_SIM_FAIL", "entry point or *, colon, which call, optional + and :error, by commas",
     parse_fail},
    {"TENURE_SIM_OVERHEAD", "context, module, launch, graph or event, colon, bytes; by commas",
     parse_overhead},
    {"TENURE_SIM_STRICT", "report or abort", parse_strict},
    {"TENURE_SIM_VMM", "0 or 1", parse_vmm},
    {"TENURE_SIM_PEERS", "0 or 1", parse_peers},
    {"TENURE_SIM_RDMA", "0 or 1", parse_rdma},
    {"TENURE_SIM_KEEP_PAGES", "0 or 1", parse_keep_pages},
    {"TENURE_SIM_VIEW", "0, 1 or beside", parse_view},
    {"TENURE_SIM_RACES", "0 or 1", parse_races},
    {"TENURE_SIM_DMEM", "the path of a folder, of at most 255 characters", parse_dmem},
    {"TENURE_SIM_INTEGRATED", "the path of a file, of at most 255 characters", parse_integrated},
    {"TENURE_SIM_SHARED", "the path of a file, of at most 255 characters", parse_shared},
    {"TENURE_SIM_VERSION", "a version from 2000 to 13000, such as 12080", parse_version},
    {"TENURE_SIM_MISSING", "names of entry points the simulation has, by commas", parse_missing},
};

static void settings_defaults(struct sim_settings *settings)
{
    memset(settings, 0, sizeof(*settings));
    settings->devices = 1;
    settings->memory_bytes = 139 * GIB;
    settings->granularity_bytes = UINT64_C(2) << 20;
    settings->pinned_align_bytes = UINT64_C(2) << 20;
    settings->reserve_bytes = RUNNING_ON_VALGRIND ? RESERVE_VALGRIND : RESERVE_NATIVE;
    settings->queries = 1000;
    settings->threads = 2;
    settings->deadlock_ms = 10000;
    settings->peers = 1;
    settings->version = 13000;
    settings->schedule = SIM_RANDOM;
    settings->vmm = 1;
}

int sim_settings_read(struct sim_settings *settings)
{
    settings_defaults(settings);
    int good = 1;
    for (size_t i = 0; i < sizeof(variables) / sizeof(variables[0]); i++) {
        const char *text = getenv(variables[i].name);
        if (text != NULL && text[0] != '\0' && !variables[i].parse(text, settings)) {
            fprintf(stderr, "simcuda: %s=%s is not valid; allowed: %s\n", variables[i].name, text,
                    variables[i].allowed);
            good = 0;
        }
    }
    return good;
}
