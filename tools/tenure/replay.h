/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Replaying a trace: the engine (replay_run.c), its measurements, and the reports
 * (replay_report.c). The command line is in replay.c.
 */
#ifndef TENURE_TOOLS_REPLAY_H
#define TENURE_TOOLS_REPLAY_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <tenure/alloc.h>

#include "exit_code.h"
#include "json.h"
#include "pattern.h"
#include "session.h"
#include "trace.h"

typedef struct replay_settings {
    pattern_extent extent;
    long loops;           /* how often the trace's operations are run, one run after the other */
    int progress_lines;   /* plain lines of progress where stderr is no terminal */
    long speed;           /* as recorded, so many times as fast; 0: as fast as it goes */
    const char *snapshot; /* where to write one, %s being the trace's name; null: nowhere */
    const char *reports;  /* the folder for snapshots with their reports, instead; null: none */
    int is_at_peak;       /* it is taken when the most is live, not when the trace ends */
} replay_settings;

/* One pass over a trace. */
typedef struct replay_pass {
    uint64_t reserved_bytes;      /* at its end, all blocks freed */
    uint64_t peak_reserved_bytes; /* until then */
    uint64_t calls[TNR_DRIVER_KIND_COUNT];
    uint64_t served[TNR_SERVED_COUNT];
    uint64_t chunks_created, chunks_moved;
    uint64_t modelled_ns;
} replay_pass;

/* What one trace has shown. */
typedef struct replay_result {
    const trace *source;
    int simulated;
    long loops;
    long speed;
    replay_pass *passes; /* passes_count of them, one for each loop that was carried out */
    size_t passes_count;
    uint64_t ops_count;          /* allocations and frees that were carried out */
    uint64_t peak_live_bytes;    /* by what the trace asked for */
    uint64_t ns_total;           /* in tnr_malloc and tnr_free, less the clock's own time */
    double ns_median, ns_p99;    /* of single calls */
    uint64_t wall_ns;            /* of the whole replay */
    uint64_t driver_second_half; /* allocations after the midpoint that reached the driver */
    uint64_t driver_ns_second_half;
    uint64_t modelled_ns; /* driver time by the simulated device's table: see modelled.h */
    uint64_t modelled_ns_second_half;
    tnr_stats stats; /* at the end, all blocks freed */
    pattern_result patterns;
    exit_code code;
    char error[2048]; /* why code is not 0: one or more sentences */
} replay_result;

/* Runs a trace on a session whose library is started and holds nothing. Leaves the library shut
 * down. Always fills *result. */
void replay_run(session *active, const trace *source, const replay_settings *settings,
                replay_result *result);

/* Frees what a result holds. Harmless on one that is all zero. */
void replay_release(replay_result *result);

/* Shows, before any trace is run, that the pattern check works on this device. Leaves the library
 * shut down. Returns 0, or an exit code with a sentence in `error`. */
exit_code replay_self_test(session *active, const replay_settings *settings, char *error,
                           size_t error_bytes);

/* One line of JSON. */
void replay_json(const replay_result *result, const session *active, const char *command,
                 FILE *file);
/* Tables of all traces. */
void replay_tables(const replay_result *results, size_t count, FILE *file);

/* What PyTorch reserved for the same, as recorded; all zero where that is not known, or was while
 * freed blocks waited for other streams, and so cannot be compared. `held_bytes` then says what
 * PyTorch had to hold. */
typedef struct replay_recorded {
    uint64_t native_bytes, expandable_bytes, malloc_async_bytes, held_bytes;
} replay_recorded;
replay_recorded replay_recorded_of(const replay_result *result);

/* Makes the folder for reports. Returns 0, or -1 with a sentence. */
int replay_pages_folder(const char *folder, char *error, size_t error_bytes);
/* From the snapshots in the folder: a report of each trace, and index.html with a bar for each.
 * Traces that failed are left out. */
exit_code replay_pages(const replay_result *results, size_t count, const char *folder);

#endif
