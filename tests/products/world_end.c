/* SPDX-License-Identifier: Apache-2.0 */
/* The world's beginning, what must hold after each step, and what must hold in the end. */
#include "world.h"

#include <dirent.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tenure/host.h>

#include "own_folder.h"
#include "own_threads.h"

/* ThreadSanitizer starts a thread of its own when a program has begun. */
#if defined(__SANITIZE_THREAD__)
enum { SANITIZERS_THREADS = 1 };
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
enum { SANITIZERS_THREADS = 1 };
#else
enum { SANITIZERS_THREADS = 0 };
#endif
#else
enum { SANITIZERS_THREADS = 0 };
#endif

enum { SINK_BYTES = 64 * 1024, CHURN_TURNS = 6, USES = 8 };

static world the_world;
static char folder[64];

static int entries(const char *path)
{
    int count = 0;
    DIR *list = opendir(path);
    while (list != NULL && readdir(list) != NULL)
        count++;
    if (list != NULL)
        (void)closedir(list);
    return count;
}

/* ---- the beginning --------------------------------------------------------------------------- */

static void environment_set(uint64_t seed)
{
    static const char *const schedules[] = {"lazy", "random", "eager"};
    char text[256];
    snprintf(folder, sizeof(folder), "/tmp/tenure-products-XXXXXX");
    if (mkdtemp(folder) == NULL)
        abort();
    snprintf(text, sizeof(text), "address_space_gb:16,control_dir:%s%s%s", folder,
             seed % 2 == 0 ? "" : ",aliases_from:first",
             seed / 2 % 2 == 0 ? "" : ",host:allocated");
    setenv("TENURE_CONF", text, 1);
    setenv("TENURE_DRIVER", "sim", 1);
    setenv("TENURE_SIM_DEVICES", "2", 1);
    setenv("TENURE_SIM_MEMORY", "512M", 1);
    setenv("TENURE_SIM_RACES", "1", 1);
    setenv("TENURE_SIM_RDMA", "1", 1);
    setenv("TENURE_SIM_KEEP_PAGES", "1", 1);
    setenv("TENURE_SIM_SCHEDULE", schedules[seed / 2 % 3], 1);
    snprintf(text, sizeof(text), "%llu", (unsigned long long)(seed % 1000000));
    setenv("TENURE_SIM_SEED", text, 1);
}

static void trap_found(const tnr_trap_finding *finding, void *user)
{
    (void)user;
    compose_finding("a trap says: %s", finding->text);
}

world *world_begin(uint64_t seed)
{
    world *w = &the_world;
    environment_set(seed);
    w->random = seed;
    w->memory = 512 * MIB;
    drive(cuInit(0));
    for (int d = 0; d < DEVICES; d++) {
        drive(cuDevicePrimaryCtxRetain(&w->contexts[d], d));
        world_on(w, d);
        for (int i = 0; i < LANES; i++)
            drive(cuStreamCreate(&w->lanes[d][i], CU_STREAM_NON_BLOCKING));
    }
    world_fill_begin(w);
    w->descriptors = entries("/proc/self/fd");
    w->threads = threads_count();
    ok(tnr_init());
    tnr_trap_callback_set(trap_found, NULL);
    ok(tnr_device_access_set(0, 1, TNR_ACCESS_READWRITE));
    ok(tnr_device_access_set(1, 0, TNR_ACCESS_READWRITE));
    for (int d = 0; d < DEVICES; d++)
        for (int i = 0; i < LANES; i++) {
            w->sinks[d][i] = world_malloc(w, NULL, SINK_BYTES, d, w->lanes[d][i]);
            w->sinks[d][i]->is_alone = 1;
            w->sinks[d][i]->is_lost = 1;
        }
    world_on(w, 0);
    return w;
}

/* ---- after each step ------------------------------------------------------------------------- */

static void contents_check(world *w)
{
    for (int i = 0; i < BLOCKS_MAX; i++) {
        const block *b = &w->blocks[i];
        if (b->at == NULL || b->is_parked || b->is_lost || !b->is_written || w->asleep[b->device])
            continue;
        for (int k = 0; k < BLOCK_PLACES; k++) {
            uint32_t got;
            size_t place = block_place(b->bytes, k);
            memcpy(&got, b->at + place, 4);
            if (got != b->value && !(b->is_graphs && k != 0))
                compose_finding("the block of '%s' has %08x at byte %zu, not %08x", b->who, got,
                                place, b->value);
        }
    }
}

static void reports_check(void)
{
    if (simcuda_races() != 0)
        compose_finding("%s", simcuda_race_last());
    if (simcuda_violations() != 0)
        compose_finding("misuse of the driver: %s", simcuda_violation_last());
}

/* A quarter of a device at a time, much more than it has in all, by a thread that has to do with
 * nothing else: what was freed must serve again, whatever else is going on. So must what was freed
 * by tnr_free_sync, if all streams can be marked: while a capture is under way, one that was drawn
 * into it cannot, nor one that ended in a capture. */
static void *churn(void *data)
{
    world *w = data;
    int is_markable = w->captures == 0 || (w->joined_count == 0 && !w->waits_for_device);
    for (int d = 0; d < DEVICES; d++) {
        world_on(w, d);
        for (int i = 0; i < CHURN_TURNS && !w->asleep[d]; i++) {
            void *at = NULL;
            CUstream lane = w->lanes[d][2];
            ok(tnr_malloc(&at, w->memory / 4, d, lane));
            drive(cuMemsetD32Async((CUdeviceptr)at, 5, 1024, lane));
            ok(is_markable && i > 0 ? tnr_free_sync(at) : tnr_free(at));
        }
    }
    return NULL;
}

void world_check(world *w)
{
    pthread_t thread;
    for (int d = 0; d < DEVICES && !w->has_threads; d++)
        ok(tnr_validate(d));
    if (world_random(w, 3) == 0 && !w->guarded) {
        if (pthread_create(&thread, NULL, churn, w) != 0)
            abort();
        (void)pthread_join(thread, NULL);
    }
    if (world_random(w, 2) == 0) {
        (void)simcuda_run(UINT64_MAX);
        contents_check(w);
    }
    reports_check();
}

/* ---- the end --------------------------------------------------------------------------------- */

static void devices_wait(world *w)
{
    for (int d = 0; d < DEVICES; d++) {
        world_on(w, d);
        drive(cuCtxSynchronize());
    }
    (void)simcuda_run(UINT64_MAX); /* destructors of user objects, too */
}

/* Uses of other streams are recorded as before, also those of a peer. */
static void uses_check(world *w)
{
    for (int d = 0; d < DEVICES; d++)
        for (int i = 0; i < USES; i++) {
            block *b = world_malloc(w, NULL, 4 * MIB, d, w->lanes[d][0]);
            world_read(w, b, 1, d, 0);
            world_read(w, b, 0, 1 - d, 0);
            world_read(w, b, 2, d, i % 2);
            world_free(w, b);
        }
}

/* With nothing live, nothing is held, and all that a device has can be had. */
static void memory_check(world *w, int d)
{
    tnr_stats stats = {.struct_bytes = sizeof(stats)};
    void *at = NULL;
    ok(tnr_trim(NULL, 0, d));
    ok(tnr_stats_get(&stats, NULL, d));
    if (stats.bytes_live != 0 || stats.bytes_retired != 0 || stats.reserved_bytes.current != 0 ||
        stats.bytes_asleep != 0 || stats.bytes_parked != 0)
        compose_finding(
            "device %d has %llu bytes live, %llu retired, %llu reserved, %llu asleep, "
            "%llu parked after all was freed and trimmed",
            d, (unsigned long long)stats.bytes_live, (unsigned long long)stats.bytes_retired,
            (unsigned long long)stats.reserved_bytes.current,
            (unsigned long long)stats.bytes_asleep, (unsigned long long)stats.bytes_parked);
    ok(tnr_malloc(&at, w->memory - 32 * MIB, d, w->lanes[d][0]));
    ok(tnr_free(at));
    ok(tnr_trim(NULL, 0, d));
    ok(tnr_sleep_prepare(0, d));
    simcuda_live live;
    (void)simcuda_live_get(d, &live);
    if (live.pinned > (uint64_t)w->had_traps)
        compose_finding("device %d: %llu pieces of pinned memory, %llu MiB, are still there", d,
                        (unsigned long long)live.pinned,
                        (unsigned long long)(live.pinned_bytes >> 20));
}

/* The same of the host memory near it. */
static void host_memory_check(world *w, int d)
{
    tnr_stats stats = {.struct_bytes = sizeof(stats)};
    if (!w->has_host_memory)
        return;
    ok(tnr_sleep_prepare(0, d)); /* contents of what was parked lie there until then */
    ok(tnr_trim(NULL, 0, TNR_HOST(d)));
    ok(tnr_stats_get(&stats, NULL, TNR_HOST(d)));
    if (stats.bytes_live != 0 || stats.bytes_retired != 0 || stats.reserved_bytes.current != 0)
        compose_finding("host memory %d has %llu bytes live, %llu retired, %llu reserved after all "
                        "was freed and trimmed",
                        d, (unsigned long long)stats.bytes_live,
                        (unsigned long long)stats.bytes_retired,
                        (unsigned long long)stats.reserved_bytes.current);
}

static void driver_check(world *w)
{
    simcuda_live live;
    (void)simcuda_live_get(-1, &live);
    if (live.handles != 0 || live.mappings != 0 || live.reservations != 0 || live.pinned != 0 ||
        live.user_objects != 0 || live.graphs != 0 || live.graph_execs != 0 || live.events != 0 ||
        live.allocations != 0 || live.primary_references != DEVICES)
        compose_finding("after the end: %llu handles, %llu mappings, %llu reservations, %llu "
                        "pinned, %llu user objects, %llu graphs, %llu executables, %llu events, "
                        "%llu allocations, %llu references of contexts",
                        (unsigned long long)live.handles, (unsigned long long)live.mappings,
                        (unsigned long long)live.reservations, (unsigned long long)live.pinned,
                        (unsigned long long)live.user_objects, (unsigned long long)live.graphs,
                        (unsigned long long)live.graph_execs, (unsigned long long)live.events,
                        (unsigned long long)live.allocations,
                        (unsigned long long)live.primary_references);
    int descriptors = entries("/proc/self/fd") - w->descriptors;
    int threads = threads_count() - w->threads;
    /* What was published has a thread and a socket until the process ends. */
    if (descriptors > w->published || threads > (w->published != 0) + SANITIZERS_THREADS)
        compose_finding("after the end: %d descriptors and %d threads more", descriptors, threads);
}

static void all_freed(world *w)
{
    for (int d = 0; d < DEVICES; d++)
        for (int i = 0; i < LANES; i++) {
            world_free(w, w->sinks[d][i]);
            w->sinks[d][i] = NULL;
        }
    for (int i = 0; i < BLOCKS_MAX; i++)
        world_free(w, &w->blocks[i]);
    for (int i = 0; i < w->deferred_count; i++)
        ok(tnr_pool_destroy(w->deferred[i]));
}

void world_end(world *w, int by_force)
{
    w->frees_by_host = 0;
    devices_wait(w);
    reports_check();
    int order = (int)world_random(w, DEVICES);
    if (!by_force) {
        contents_check(w);
        uses_check(w);
        devices_wait(w);
        all_freed(w);
        devices_wait(w);
        for (int d = 0; d < DEVICES; d++) {
            host_memory_check(w, d);
            memory_check(w, d);
        }
        ok(tnr_validate(-1));
        for (int i = 0; i < DEVICES; i++)
            ok(tnr_device_end((i + order) % DEVICES, 0));
    } else if (world_random(w, 2) == 0) {
        for (int i = 0; i < DEVICES; i++)
            ok(tnr_device_end((i + order) % DEVICES, 1));
    }
    ok(tnr_shutdown(by_force));
    if (by_force) { /* graphs outlive the library */
        for (graph *g = w->graphs; g != NULL; g = g->next) {
            if (g->exec != NULL)
                drive(cuGraphExecDestroy(g->exec));
            drive(cuGraphDestroy(g->cuda));
        }
        devices_wait(w);
    }
    reports_check();
    driver_check(w);
    (void)folder_remove(folder);
}
