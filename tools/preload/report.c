/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The line at the end of the program: what was served, what was passed on, what is still allocated.
 * TENURE_PRELOAD_STATS says how: text or json, on stderr. A process that used no GPU says nothing.
 */
#include <inttypes.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/bytes_text.h"
#include "base/plural.h"
#include "lookup.h"
#include "service.h"
#include "watch/journal.h"

enum { NEWER_MAX = 8 };

static const char *const names[] = {
#define NAME(name, text) text,
    SERVICE_COUNT_LIST(NAME)
#undef NAME
};

/* What all served devices have, or the host memory near them: the first is at 0 or TNR_HOST(0). */
typedef struct sums {
    uint64_t live_blocks, live_bytes, peak_live_bytes, peak_reserved_bytes;
} sums;

static sums sums_take(int first)
{
    sums all = {0, 0, 0, 0};
    for (int i = 0; i < SERVICE_DEVICES_MAX; i++) {
        tnr_stats stats = {.struct_bytes = sizeof(stats)};
        if (!atomic_load(&service_device_at(i)->is_on) ||
            tnr_stats_get(&stats, NULL, first + i) != TNR_OK)
            continue;
        all.live_blocks += stats.allocation[TNR_WORLD_ALL].current;
        all.live_bytes += stats.bytes_live;
        all.peak_live_bytes += stats.allocated_bytes[TNR_WORLD_ALL].peak;
        all.peak_reserved_bytes += stats.reserved_bytes.peak;
    }
    return all;
}

/* Asked only where there is some: a question would put host memory into use. */
static sums sums_of_pinned(void)
{
    sums none = {0, 0, 0, 0};
    return atomic_load(&service_counts[COUNT_PINNED_SERVED]) > 0 ? sums_take(TNR_HOST(0)) : none;
}

typedef struct line {
    char text[3072];
    size_t length;
} line;

__attribute__((format(printf, 2, 3))) static void line_add(line *to, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    int added = vsnprintf(to->text + to->length, sizeof(to->text) - to->length, format, arguments);
    va_end(arguments);
    if (added > 0 && (size_t)added < sizeof(to->text) - to->length)
        to->length += (size_t)added;
}

/* Functions that the program asked for in versions that we do not know; the first eight. */
static void newer_json(line *to)
{
    const char *name, *between = "";
    size_t index = 0;
    int version = 0;
    line_add(to, ", \"newer_entry_points\": [");
    for (int i = 0; i < NEWER_MAX && (name = lookup_newer(&index, &version)) != NULL; i++) {
        line_add(to, "%s\"%s %d.%d\"", between, name, version / 1000, version % 1000 / 10);
        between = ", ";
    }
    line_add(to, "]");
}

static void newer_text(line *to)
{
    const char *name;
    size_t index = 0;
    int version = 0, count = 0;
    for (; count < NEWER_MAX && (name = lookup_newer(&index, &version)) != NULL; count++)
        line_add(to, "%s%s (CUDA %d.%d)",
                 count > 0 ? ", " : "tenure: newer than this Tenure, and passed on to the driver: ",
                 name, version / 1000, version % 1000 / 10);
    if (count > 0)
        line_add(to, "; memory that they hand out is the driver's. A newer Tenure may serve it\n");
}

static void line_json(line *to, const sums *all, const sums *pinned)
{
    line_add(to, "{\"pid\": %ld", (long)getpid());
    for (int i = 0; i < COUNT_COUNT; i++)
        line_add(to, ", \"%s\": %" PRIu64, names[i], atomic_load(&service_counts[i]));
    newer_json(to);
    line_add(to,
             ", \"live_blocks\": %" PRIu64 ", \"live_bytes\": %" PRIu64
             ", \"peak_live_bytes\": %" PRIu64 ", \"peak_reserved_bytes\": %" PRIu64
             ", \"pinned_live_blocks\": %" PRIu64 ", \"pinned_live_bytes\": %" PRIu64
             ", \"pinned_peak_live_bytes\": %" PRIu64 ", \"pinned_peak_reserved_bytes\": %" PRIu64
             "}\n",
             all->live_blocks, all->live_bytes, all->peak_live_bytes, all->peak_reserved_bytes,
             pinned->live_blocks, pinned->live_bytes, pinned->peak_live_bytes,
             pinned->peak_reserved_bytes);
}

static void line_text(line *to, const sums *all, const sums *pinned)
{
    uint64_t allocs = atomic_load(&service_counts[COUNT_ALLOCS_SERVED]);
    uint64_t frees = atomic_load(&service_counts[COUNT_FREES_SERVED]);
    line_add(to,
             "tenure: process %ld: %" PRIu64 " allocation%s served, %" PRIu64 " passed on to the "
             "driver, %" PRIu64 " failed; %" PRIu64 " free%s served, %" PRIu64 " passed on; peak "
             "%s live, %s reserved; %" PRIu64 " block%s (%s) live at the end\n",
             (long)getpid(), allocs, tnri_plural(allocs),
             atomic_load(&service_counts[COUNT_ALLOCS_PASSED]),
             atomic_load(&service_counts[COUNT_ALLOCS_FAILED]), frees, tnri_plural(frees),
             atomic_load(&service_counts[COUNT_FREES_PASSED]),
             TNRI_BYTES_OF(all->peak_live_bytes, all->peak_reserved_bytes),
             TNRI_BYTES(all->peak_reserved_bytes), all->live_blocks, tnri_plural(all->live_blocks),
             TNRI_BYTES_OF(all->live_bytes, all->peak_reserved_bytes));
    uint64_t count = atomic_load(&service_counts[COUNT_PINNED_SERVED]);
    if (count > 0)
        line_add(to,
                 "tenure: process %ld: pinned host memory: %" PRIu64 " allocation%s served; peak "
                 "%s live, %s reserved; %" PRIu64 " block%s (%s) live at the end\n",
                 (long)getpid(), count, tnri_plural(count),
                 TNRI_BYTES_OF(pinned->peak_live_bytes, pinned->peak_reserved_bytes),
                 TNRI_BYTES(pinned->peak_reserved_bytes), pinned->live_blocks,
                 tnri_plural(pinned->live_blocks),
                 TNRI_BYTES_OF(pinned->live_bytes, pinned->peak_reserved_bytes));
    uint64_t handles = atomic_load(&service_counts[COUNT_CREATES_PASSED]);
    if (handles > 0)
        line_add(to,
                 "tenure: process %ld: it mapped memory by hand (cuMemCreate), which is its own "
                 "business: %" PRIu64 " handle%s, %s\n",
                 (long)getpid(), handles, tnri_plural(handles),
                 TNRI_BYTES(atomic_load(&service_counts[COUNT_CREATES_PASSED_BYTES])));
    newer_text(to);
}

__attribute__((destructor)) static void report_write(void)
{
    const char *how = getenv("TENURE_PRELOAD_STATS");
    journal_over();
    if (how == NULL || *how == '\0' || service_is_forked() || !atomic_load(&driver_is_found) ||
        !service_enter())
        return;
    line text = {.length = 0};
    sums all = sums_take(0), pinned = sums_of_pinned();
    if (strcmp(how, "json") == 0)
        line_json(&text, &all, &pinned);
    else
        line_text(&text, &all, &pinned);
    service_leave();
    ssize_t written = write(STDERR_FILENO, text.text, text.length);
    (void)written;
}
