/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one state of the simulation: its beginning (cuInit), its end (simcuda_reset), violations,
 * and what is alive.
 */
#include "capture.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct sim_state sim = {
    .lock = PTHREAD_MUTEX_INITIALIZER,
    .work = PTHREAD_COND_INITIALIZER,
    .done = PTHREAD_COND_INITIALIZER,
    .epoch = 1,
};

/* ---- messages ------------------------------------------------------------------------------- */

void sim_note(const char *format, ...)
{
    char text[512];
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(text, sizeof(text), format, arguments);
    va_end(arguments);
    fprintf(stderr, "simcuda: %s\n", text);
}

void sim_violation(const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    vsnprintf(sim.violation_last, sizeof(sim.violation_last), format, arguments);
    va_end(arguments);
    sim.violations++;
    fprintf(stderr, "simcuda: violation %llu: %s\n", (unsigned long long)sim.violations,
            sim.violation_last);
    if (sim.settings.abort_on_violation)
        abort();
}

uint64_t simcuda_violations(void)
{
    sim_lock();
    uint64_t count = sim.violations;
    sim_unlock();
    return count;
}

const char *simcuda_violation_last(void)
{
    static _Thread_local char copy[sizeof(sim.violation_last)];
    sim_lock();
    memcpy(copy, sim.violation_last, sizeof(copy));
    sim_unlock();
    return copy;
}

void simcuda_violations_clear(void)
{
    sim_lock();
    sim.violations = 0;
    sim.violation_last[0] = '\0';
    sim_unlock();
}

/* ---- memory of the simulation itself -------------------------------------------------------- */

/* Makes room for need elements, doubling; null (and the array unchanged) when memory is short. */
void *sim_grow(void *array, size_t *room, size_t need, size_t element_bytes)
{
    if (need <= *room)
        return array;
    size_t grown = *room == 0 ? 64 : *room * 2;
    while (grown < need)
        grown *= 2;
    void *larger = realloc(array, grown * element_bytes);
    if (larger != NULL)
        *room = grown;
    return larger;
}

/* ---- beginning and end ---------------------------------------------------------------------- */

/* In a child the parent's simulation is only seen, never used, until a reset. */
static void state_forked(void)
{
    sim_schedule_forked();
    sim_view_forked();
    pthread_mutex_init(&sim.lock, NULL);
    pthread_cond_init(&sim.work, NULL);
    pthread_cond_init(&sim.done, NULL);
    sim.is_forked = sim.is_initialised;
}

static void state_watch_fork(void)
{
    pthread_atfork(sim_lock, sim_unlock, state_forked);
}

CUresult sim_start(void)
{
    static pthread_once_t watch = PTHREAD_ONCE_INIT;
    pthread_once(&watch, state_watch_fork);
    if (sim.is_shut_down)
        return CUDA_ERROR_DEINITIALIZED;
    if (sim.is_forked)
        return CUDA_ERROR_NOT_INITIALIZED;
    if (sim.is_initialised)
        return CUDA_SUCCESS;
    if (sim.settings.devices == 0)
        return CUDA_ERROR_NO_DEVICE;
    if (sim.settings.shared[0] != '\0' && !sim_shared_open(sim.settings.shared))
        return CUDA_ERROR_OPERATING_SYSTEM;
    sim.has_view = sim.settings.view != SIM_VIEW_NONE && sim.settings.schedule != SIM_THREADS;
    sim.has_access = !sim.has_view || sim.settings.view == SIM_VIEW_BESIDE;
    for (int i = 0; i < (int)sim.settings.devices; i++) {
        if (!sim_device_open(&sim.devices[i], i)) {
            while (i-- > 0)
                sim_device_close(&sim.devices[i]);
            sim_shared_close();
            return CUDA_ERROR_OUT_OF_MEMORY;
        }
    }
    sim.device_count = (int)sim.settings.devices;
    sim_dmem_tell();
    /* As seen on real devices: the first context's legacy stream is number 7. */
    sim.next_id = 5;
    sim.races_on = sim.races_forced ? sim.races_on : sim.settings.races;
    sim.is_initialised = 1;
    sim_schedule_start();
    return CUDA_SUCCESS;
}

/* Everything in sim that the environment or cuInit made, as it was when the library was loaded. */
static void state_clear(void)
{
    struct sim_state fresh = {.epoch = sim.epoch + 1, .next_thread = sim.next_thread};
    fresh.lock = sim.lock;
    fresh.work = sim.work;
    fresh.done = sim.done;
    free(sim.regions);
    free(sim.memories);
    free(sim.busy);
    size_t kept = offsetof(struct sim_state, is_configured);
    memcpy((char *)&sim + kept, (const char *)&fresh + kept, sizeof(sim) - kept);
}

static uint64_t live_objects(const simcuda_live *live)
{
    return live->handle_references + live->mappings + live->reservations + live->allocations +
           live->pinned + live->events + live->streams + live->contexts + live->primary_references +
           live->modules + live->graphs + live->graph_execs + live->user_objects;
}

int simcuda_reset(void)
{
    simcuda_live live;
    memset(&live, 0, sizeof(live));
    (void)simcuda_live_get(-1, &live);
    if (!sim.is_forked)
        sim_schedule_stop();
    sim_lock();
    while (sim.busy_count != 0)
        sim_stream_discard(sim.busy[sim.busy_count - 1]);
    sim_capture_reset();
    sim_graph_reset();
    sim_context_reset();
    sim_pool_reset();
    sim_slot_reset();
    sim_region_reset();
    sim_memory_reset();
    for (int i = 0; i < sim.device_count; i++)
        sim_device_close(&sim.devices[i]);
    sim_shared_close();
    sim_launch_reset();
    sim_race_reset();
    state_clear();
    sim_unlock();
    return (int)live_objects(&live);
}

void simcuda_shutdown(void)
{
    sim_lock();
    sim.is_shut_down = 1;
    sim_unlock();
}

/* ---- what is alive -------------------------------------------------------------------------- */

static int live_counts(const struct sim_device *device, int wanted)
{
    return wanted < 0 || device->ordinal == wanted;
}

static void live_regions(int device, simcuda_live *live)
{
    for (size_t i = 0; i < sim.region_count; i++) {
        const struct sim_region *region = sim.regions[i];
        if (!live_counts(region->device, device))
            continue;
        switch (region->kind) {
        case SIM_RESERVED:
            live->reservations++;
            live->reserved_bytes += region->bytes;
            break;
        case SIM_DEVICE_BLOCK:
            live->allocations += region->is_free_queued ? 0 : 1;
            live->allocated_bytes += region->is_free_queued ? 0 : region->bytes;
            break;
        case SIM_PINNED:
            live->pinned++;
            live->pinned_bytes += region->bytes;
            break;
        }
    }
}

static void live_memories(int device, simcuda_live *live)
{
    for (size_t i = 0; i < sim.memory_count; i++) {
        const struct sim_memory *memory = sim.memories[i];
        if (memory != NULL && live_counts(memory->device, device)) {
            live->handles += memory->origin == NULL;
            live->handle_references += memory->references;
            live->handle_bytes += memory->origin == NULL ? memory->bytes : 0;
            live->mappings += memory->mappings;
            live->mapped_bytes += memory->mappings * memory->bytes;
        }
    }
}

/* Events, streams and modules of one context, found through the table of handles. */
static void live_objects_of(const struct sim_context *context, simcuda_live *live)
{
    live->streams += sim_slot_count(SIM_STREAM, context);
    live->events += sim_slot_count(SIM_EVENT, context);
    live->modules += sim_slot_count(SIM_MODULE, context);
}

int simcuda_live_get(int device, simcuda_live *live)
{
    if (live == NULL)
        return -1;
    memset(live, 0, sizeof(*live));
    sim_lock();
    if (device < -1 || (device >= sim.device_count && sim.is_initialised)) {
        sim_unlock();
        return -1;
    }
    live_regions(device, live);
    live_memories(device, live);
    for (int i = 0; i < sim.device_count; i++) {
        if (live_counts(&sim.devices[i], device)) {
            live->primary_references += sim.devices[i].primary.references;
            live->used_bytes += sim.devices[i].used_bytes;
            if (sim.devices[i].primary.slot != NULL)
                live_objects_of(&sim.devices[i].primary, live);
        }
    }
    for (struct sim_context *context = sim.contexts; context; context = context->next) {
        if (context->slot != NULL && live_counts(context->device, device)) {
            live->contexts++;
            live_objects_of(context, live);
        }
    }
    live->graphs = sim_graph_count();
    live->graph_execs = sim_slot_count(SIM_GRAPH_EXEC, NULL);
    live->user_objects = sim_slot_count(SIM_USER_OBJECT, NULL);
    for (size_t i = 0; i < sim.busy_count; i++) {
        const struct sim_stream *stream = sim.busy[i];
        if (live_counts(stream->context->device, device))
            live->pending += stream->tail - stream->head;
    }
    sim_unlock();
    return 0;
}

uint64_t simcuda_linux_mappings(void)
{
    FILE *maps = fopen("/proc/self/maps", "r");
    if (maps == NULL)
        return 0;
    uint64_t lines = 0;
    for (int c = getc(maps); c != EOF; c = getc(maps))
        lines += c == '\n';
    fclose(maps);
    return lines;
}
