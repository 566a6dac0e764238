/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a person who ran out of memory wants to know, in this order: what was asked for and what
 * there was; who holds the memory (pools and streams, then call stacks); how the free memory is cut
 * up; what waits for what; and which setting would have helped.
 */
#include "see/snapshot/report.h"

#include <stdio.h>
#include <string.h>

#include "base/conf/conf.h"
#include "base/host_memory.h"
#include "log/texts.h"
#include "see/snapshot/whose.h"

enum { STACKS_SHOWN = 10, FRAMES_SHOWN = 3 };

/* ---- who holds it --------------------------------------------------------------------------- */

/* 1 if the arena, by its index in the cut, is on the device. */
static int is_on(const tnri_picture *picture, size_t arena, int device)
{
    return picture->cut.pools[picture->cut.arenas[arena].pool].device == device;
}

/* One arena's share. */
typedef struct share {
    uint64_t live, slack, retired, idle, largest;
    size_t blocks;
} share;

static share share_of(const tnri_picture *picture, size_t arena)
{
    share sum = {0, 0, 0, 0, picture->cut.arenas[arena].largest_free, 0};
    for (size_t i = 0; i < picture->blocks_count; i++) {
        const tnri_shown_block *block = &picture->blocks[i];
        if (block->arena != arena)
            continue;
        if (block->shown == TNRI_SHOWN_LIVE) {
            sum.live += block->requested;
            sum.slack += block->bytes - block->requested;
            sum.blocks++;
        } else if (block->shown == TNRI_SHOWN_RETIRED) {
            sum.retired += block->bytes;
        } else {
            sum.idle += block->bytes;
        }
    }
    return sum;
}

/* The largest amount of the text, whose unit all have: what is reserved. */
static uint64_t most_of(const tnri_picture *picture)
{
    uint64_t most = 0;
    for (size_t i = 0; i < picture->devices_count; i++)
        if (picture->devices[i].reserved_bytes > most)
            most = picture->devices[i].reserved_bytes;
    return most;
}

#define AMOUNT(bytes) TNRI_BYTES_OF(bytes, most_of(picture))

static void streams_report(tnri_sink *sink, const tnri_picture *picture, int device)
{
    tnri_sink_text(sink, "\nWho holds memory, by pool and stream:\n");
    tnri_sink_format(sink, "  %12s %9s %12s %12s %12s %12s  %s\n", "live", "blocks", "rounding",
                     "waiting", "idle", "longest run", "pool, stream");
    for (size_t i = 0; i < picture->cut.arenas_count; i++) {
        const tnri_arena_copy *arena = &picture->cut.arenas[i];
        share sum = share_of(picture, i);
        if (!is_on(picture, i, device) || sum.live + sum.retired + sum.idle == 0)
            continue;
        tnri_sink_format(sink, "  %12s %9zu %12s %12s %12s %12s  \"%.63s\", %p%s", AMOUNT(sum.live),
                         sum.blocks, AMOUNT(sum.slack), AMOUNT(sum.retired), AMOUNT(sum.idle),
                         AMOUNT(sum.largest), picture->cut.pools[arena->pool].name,
                         (void *)arena->stream, arena->is_ended ? " (destroyed)" : "");
        if (arena->stream_name != 0)
            tnri_sink_format(sink, " \"%.63s\"", tnri_text_of(arena->stream_name));
        tnri_sink_text(sink, "\n");
    }
}

static const tnri_frame *frame_of(const tnri_picture *picture, uintptr_t address)
{
    return &picture->symbols.frames[tnri_symbols_find(&picture->symbols, address)];
}

static unsigned frame_whose(const tnri_frame *frame)
{
    const char *slash = strrchr(frame->module, '/');
    return tnri_frame_whose(frame->function, frame->file, slash ? slash + 1 : frame->module);
}

/* The innermost frames of the program's own. */
static size_t frames_choose(const tnri_picture *picture, size_t stack,
                            const tnri_frame *chosen[FRAMES_SHOWN])
{
    size_t count, chosen_count = 0;
    unsigned all = 0;
    const uintptr_t *addresses = tnri_symbols_stack(&picture->symbols, stack, &count);
    for (size_t i = 0; i < count; i++)
        all |= frame_whose(frame_of(picture, addresses[i]));
    unsigned wanted = tnri_stack_shown(all);
    for (size_t i = 0; i < count && chosen_count < FRAMES_SHOWN; i++) {
        const tnri_frame *frame = frame_of(picture, addresses[i]);
        if ((frame_whose(frame) & wanted) != 0)
            chosen[chosen_count++] = frame;
    }
    return chosen_count;
}

static void stack_report(tnri_sink *sink, const tnri_picture *picture, size_t stack)
{
    const tnri_frame *chosen[FRAMES_SHOWN];
    size_t count = frames_choose(picture, stack, chosen);
    for (size_t i = 0; i < count; i++) {
        const tnri_frame *frame = chosen[i];
        if (frame->file[0] != '\0') {
            tnri_sink_format(sink, "      %.100s in %.200s, line %d\n", frame->function,
                             frame->file, frame->line);
            continue;
        }
        tnri_sink_format(sink, "      %.100s+0x%llx in %.200s+0x%llx\n",
                         frame->function[0] == '\0' ? "?" : frame->function,
                         (unsigned long long)frame->function_offset, frame->module,
                         (unsigned long long)frame->offset);
    }
}

/* Largest first. Without history:full there are none. */
static void stacks_report(tnri_sink *sink, const tnri_picture *picture, int device)
{
    size_t count = picture->symbols.stacks_count + 1;
    uint64_t *sums = tnri_host_reserve(count * sizeof(sums[0]));
    if (sums == NULL)
        return;
    for (size_t i = 0; i < picture->blocks_count; i++) {
        const tnri_shown_block *block = &picture->blocks[i];
        if (block->shown == TNRI_SHOWN_LIVE && block->stack < count &&
            is_on(picture, block->arena, device))
            sums[block->stack] += block->requested;
    }
    tnri_sink_text(sink, "\nWho holds memory, by where it was allocated:\n");
    for (int shown = 0; shown < STACKS_SHOWN; shown++) {
        size_t most = 1;
        for (size_t stack = 1; stack < count; stack++)
            if (sums[stack] > sums[most])
                most = stack;
        if (most >= count || sums[most] == 0)
            break;
        tnri_sink_format(sink, "  %s live:\n", AMOUNT(sums[most]));
        stack_report(sink, picture, most);
        sums[most] = 0;
    }
    if (sums[0] > 0)
        tnri_sink_format(sink, "  %s live from unknown places; history:full records it.\n",
                         AMOUNT(sums[0]));
    tnri_host_unreserve(sums, count * sizeof(sums[0]));
}

/* ---- the rest ------------------------------------------------------------------------------- */

typedef struct totals {
    uint64_t idle, largest, retired, asleep;
} totals;

static totals totals_of(const tnri_picture *picture, int device)
{
    totals sum = {0, 0, 0, 0};
    for (size_t p = 0; p < picture->pools_count; p++) {
        const tnri_shown_pool *pool = &picture->pools[p];
        if (pool->device != device)
            continue;
        sum.idle += pool->bytes[TNRI_SHOWN_FREE] + pool->bytes[TNRI_SHOWN_BINNED] +
                    pool->bytes[TNRI_SHOWN_RELEASING];
        sum.retired += pool->bytes[TNRI_SHOWN_RETIRED];
        sum.asleep += pool->asleep_bytes;
    }
    for (size_t i = 0; i < picture->cut.arenas_count; i++)
        if (is_on(picture, i, device) && picture->cut.arenas[i].largest_free > sum.largest)
            sum.largest = picture->cut.arenas[i].largest_free;
    return sum;
}

static void waits_report(tnri_sink *sink, const tnri_picture *picture, const totals *sum,
                         int device)
{
    static const char *const kinds[] = {"for work of other streams", "for all streams",
                                        "for exports to be closed", "because graphs refer to them",
                                        "for a capture to end"};
    uint64_t bytes[TNRI_WAIT_KIND_COUNT] = {0};
    size_t last = SIZE_MAX;
    if (sum->retired == 0)
        return;
    for (size_t i = 0; i < picture->waits_count; i++) {
        const tnri_shown_wait *wait = &picture->waits[i];
        const tnri_shown_block *block = &picture->blocks[wait->block];
        if (wait->block != last && block->shown == TNRI_SHOWN_RETIRED &&
            is_on(picture, block->arena, device))
            bytes[wait->kind] += block->bytes;
        last = wait->block;
    }
    tnri_sink_format(sink, "\n%s were freed and wait; that is what waiting would have freed:\n",
                     AMOUNT(sum->retired));
    for (int kind = 0; kind < TNRI_WAIT_KIND_COUNT; kind++)
        if (bytes[kind] > 0)
            tnri_sink_format(sink, "  %s %s\n", AMOUNT(bytes[kind]), kinds[kind]);
}

static void advice_report(tnri_sink *sink, const tnri_picture *picture, const totals *sum,
                          const tnri_shown_device *device, size_t bytes)
{
    const tnri_conf *conf = tnri_conf_get();
    int given = 0;
    tnri_sink_text(sink, "\nWhat would have helped:\n");
    if (device != NULL && device->limit_bytes < ((uint64_t)1 << 53) &&
        device->memory_free_bytes < ((uint64_t)1 << 53) &&
        device->reserved_bytes + bytes > device->limit_bytes && device->memory_free_bytes >= bytes)
        given +=
            (tnri_sink_format(sink,
                              "  A higher limit: %s may be reserved, and the device has %s free "
                              "(tnr_limit_set, per_process_memory_fraction).\n",
                              AMOUNT(device->limit_bytes), AMOUNT(device->memory_free_bytes)),
             1);
    if (sum->idle >= bytes && conf->cross_stream != TNRI_CROSS_WAIT)
        given += (tnri_sink_format(sink, "  cross_stream:wait: %s are idle, but other streams'.\n",
                                   AMOUNT(sum->idle)),
                  1);
    if (sum->retired > 0 && conf->reuse != TNRI_REUSE_WAIT)
        given += (tnri_sink_format(sink, "  reuse:wait: %s wait for other streams.\n",
                                   AMOUNT(sum->retired)),
                  1);
    for (size_t p = 0; p < picture->pools_count; p++) {
        const tnri_shown_pool *pool = &picture->pools[p];
        uint64_t idle = pool->bytes[TNRI_SHOWN_FREE];
        if (!pool->is_graph || idle < bytes / 2 || idle == 0)
            continue;
        tnri_sink_format(sink,
                         "  Fewer graph pools: \"%.63s\" keeps %s that only its graphs use.\n",
                         pool->name, AMOUNT(idle));
        given++;
    }
    if (given == 0)
        tnri_sink_text(sink,
                       "  Nothing that Tenure could be told: free something, or need less.\n");
}

void tnri_oom_text_write(tnri_sink *sink, const tnri_picture *picture, const char *sentence,
                         int device, size_t bytes)
{
    totals sum = totals_of(picture, device);
    const tnri_shown_device *shown = NULL;
    for (size_t i = 0; i < picture->devices_count; i++)
        if (picture->devices[i].index == device)
            shown = &picture->devices[i];
    tnri_sink_text(sink, sentence);
    tnri_sink_text(sink, "\n");
    streams_report(sink, picture, device);
    stacks_report(sink, picture, device);
    tnri_sink_format(sink,
                     "\nFragmentation: %s are idle, the longest run is %s; %s were asked for.\n",
                     AMOUNT(sum.idle), AMOUNT(sum.largest), TNRI_BYTES(bytes));
    waits_report(sink, picture, &sum, device);
    if (sum.asleep > 0)
        tnri_sink_format(sink, "\nPools that sleep will want %s when they wake.\n",
                         AMOUNT(sum.asleep));
    advice_report(sink, picture, &sum, shown, bytes);
}
