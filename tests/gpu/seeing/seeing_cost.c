/* SPDX-License-Identifier: Apache-2.0 */
/*
 * seeing_cost: what it costs to see memory, beside not looking. Three questions, one run:
 *
 *   history    a cached allocation and its free with the history off, light and full. The modes
 *              take turns, round by round; an operation is one of the two calls.
 *   snapshot   writing a picture with 100,000 and with 1,000,000 records, in each format.
 *   pause      the longest call of a thread that allocates and frees on its own stream while
 *              another one takes snapshots, beside the longest while nobody does.
 *
 * Every round of a question does the same allocations; a checksum of them says so. Snapshots are
 * written to a folder and removed; their sizes are reported.
 */
#include "program.h"

#include <errno.h>
#include <getopt.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tenure/history.h>

#include "clock.h"
#include "samples.h"

enum {
    MODES = 3,
    FORMATS = 4,
    SIZES = 2,
    ROUNDS_MAX = 64,
    LIVE_MAX = 65536,
    STREAMS = 4,
    PAIR_BYTES = 4096,
    BATCH = 64, /* pairs between two readings of the clock */
};

static const char *const mode_names[MODES] = {"off", "light", "full"};

typedef struct format {
    const char *name, *suffix;
    int is_limited; /* the promised times are those of files that are not compressed */
} format;

static const format formats[FORMATS] = {{"json", "json", 1},
                                        {"pickle", "pickle", 1},
                                        {"json_gz", "json.gz", 0},
                                        {"pickle_gz", "pickle.gz", 0}};

typedef struct cost {
    program *self;
    const char *folder;
    FILE *csv;
    long live_count, pairs;
    int rounds, is_limited;
    size_t records[SIZES]; /* in the history when a snapshot is taken */
    double limit_ms[SIZES];
    CUstream streams[STREAMS + 1]; /* the last is the pausing thread's */
    void *live[LIVE_MAX];
    double pair_ns[MODES][ROUNDS_MAX];
    uint64_t checksum[MODES];
    double snapshot_ns[SIZES][FORMATS][ROUNDS_MAX];
    uint64_t snapshot_bytes[SIZES][FORMATS];
} cost;

static double median(const double *values, int count)
{
    double sorted[ROUNDS_MAX];
    memcpy(sorted, values, (size_t)count * sizeof(sorted[0]));
    return samples_quantile(sorted, (size_t)count, 0.5);
}

/* ---- history -------------------------------------------------------------------------------- */

/* So many cached pairs; returns ns for one of them. The checksum is over what was handed out. */
static double pairs_run(cost *run, long count, uint64_t *checksum)
{
    int device = run->self->active.device;
    CUstream stream = run->streams[0];
    uint64_t sum = 0, begin = clock_now_ns();
    for (long i = 0; i < count; i++) {
        void *block;
        if (tnr_malloc(&block, PAIR_BYTES, device, stream) != TNR_OK || tnr_free(block) != TNR_OK)
            program_fail(run->self, "a cached pair: %s", tnr_last_error());
        sum = (sum ^ (uint64_t)(uintptr_t)block) * UINT64_C(0x9E3779B97F4A7C15);
    }
    uint64_t ns = clock_now_ns() - begin;
    *checksum = sum;
    return (double)ns / (double)count;
}

static void history_measure(cost *run)
{
    for (int turn = 0; turn < (run->rounds + 1) * MODES; turn++) {
        int round = turn / MODES - 1; /* the first of each mode warms up */
        int mode = (turn + turn / MODES) % MODES;
        uint64_t checksum;
        must(run->self, tnr_history_set(0, (tnr_history_mode)mode), "tnr_history_set");
        (void)pairs_run(run, run->pairs / 16 + 1, &checksum);
        double ns =
            pairs_run(run, mode == TNR_HISTORY_FULL ? run->pairs / 16 + 1 : run->pairs, &checksum);
        if (round < 0)
            continue;
        run->pair_ns[mode][round] = ns;
        if (round > 0 && checksum != run->checksum[mode])
            program_fail(run->self, "round %d of mode %s did other work", round, mode_names[mode]);
        run->checksum[mode] = checksum;
    }
    if (run->checksum[TNR_HISTORY_OFF] != run->checksum[TNR_HISTORY_LIGHT])
        program_fail(run->self, "the history changed which memory was handed out");
}

/* ---- snapshots ------------------------------------------------------------------------------ */

static void live_make(cost *run)
{
    static const size_t sizes[] = {512, 2048, 10240, 65536, 262144, 786432};
    for (long i = 0; i < run->live_count; i++)
        must(run->self,
             tnr_malloc(&run->live[i], sizes[i % 6], run->self->active.device,
                        run->streams[i % STREAMS]),
             "allocating");
}

static void live_end(cost *run)
{
    for (long i = 0; i < run->live_count; i++)
        must(run->self, tnr_free(run->live[i]), "freeing");
}

/* Fills the history with exactly so many records (an allocation or a free is one), or more. */
static void records_make(cost *run, size_t count)
{
    uint64_t checksum;
    tnr_history_info info = {.struct_bytes = sizeof(info)};
    must(run->self, tnr_history_set(count, TNR_HISTORY_LIGHT), "tnr_history_set");
    (void)pairs_run(run, (long)(count / 2 + 1), &checksum);
    must(run->self, tnr_history_get(&info), "tnr_history_get");
    if (info.written < count || info.records_max < count)
        program_fail(run->self, "%llu records were written, not %zu",
                     (unsigned long long)info.written, count);
}

/* Writes one snapshot to the path and returns how long it took. */
static double snapshot_timed(cost *run, const char *path)
{
    uint64_t begin = clock_now_ns();
    must(run->self, tnr_snapshot_write(path, TNR_SNAPSHOT_AUTO), "tnr_snapshot_write");
    return (double)(clock_now_ns() - begin);
}

static void path_make(const cost *run, int which, char *path, size_t bytes)
{
    snprintf(path, bytes, "%s/seeing_cost.%ld.%s", run->folder, (long)getpid(),
             formats[which].suffix);
}

static void snapshots_measure(cost *run)
{
    char path[PATH_MAX];
    for (int size = 0; size < SIZES; size++) {
        records_make(run, run->records[size]);
        for (int turn = 0; turn < (run->rounds + 1) * FORMATS; turn++) {
            int which = turn % FORMATS, round = turn / FORMATS - 1;
            struct stat facts;
            path_make(run, which, path, sizeof(path));
            double ns = snapshot_timed(run, path);
            if (stat(path, &facts) != 0 || unlink(path) != 0)
                program_fail(run->self, "%s: %s", path, strerror(errno));
            if (round < 0)
                continue;
            run->snapshot_ns[size][which][round] = ns;
            run->snapshot_bytes[size][which] = (uint64_t)facts.st_size;
        }
    }
}

/* ---- pauses --------------------------------------------------------------------------------- */

/* A thread that allocates and frees until it is told to stop, and times each call. */
typedef struct pausing {
    cost *run;
    pthread_t thread;
    atomic_int is_watched; /* calls are timed while it is 1 */
    atomic_int is_over;
    histogram calls;
    uint64_t longest_ns;
    double pair_ns; /* mean, of the calls that were timed */
    tnr_status failed;
} pausing;

static void *pausing_main(void *argument)
{
    pausing *self = argument;
    int device = self->run->self->active.device;
    CUstream stream = self->run->streams[STREAMS];
    uint64_t before = clock_now_ns();
    while (!atomic_load(&self->is_over) && self->failed == TNR_OK) {
        void *block;
        self->failed = tnr_malloc(&block, PAIR_BYTES, device, stream);
        if (self->failed == TNR_OK)
            self->failed = tnr_free(block);
        uint64_t now = clock_now_ns();
        if (atomic_load_explicit(&self->is_watched, memory_order_relaxed)) {
            histogram_add(&self->calls, now - before);
            if (now - before > self->longest_ns)
                self->longest_ns = now - before;
        }
        before = now;
    }
    return NULL;
}

/* Watches the thread for as long as so many snapshots take, or took; returns that in ns. */
static uint64_t pausing_watch(cost *run, pausing *watched, int snapshots, uint64_t ns)
{
    char path[PATH_MAX];
    pthread_attr_t usual;
    memset(watched, 0, sizeof(*watched));
    watched->run = run;
    pthread_attr_init(&usual);
    if (pthread_create(&watched->thread, &usual, pausing_main, watched) != 0)
        program_fail(run->self, "no thread: %s", strerror(errno));
    pthread_attr_destroy(&usual);
    usleep(20000); /* it has its arena, and its memory */
    atomic_store(&watched->is_watched, 1);
    uint64_t begin = clock_now_ns();
    path_make(run, 0, path, sizeof(path));
    for (int i = 0; i < snapshots; i++)
        (void)snapshot_timed(run, path);
    if (snapshots > 0)
        unlink(path);
    else
        usleep((useconds_t)(ns / 1000));
    uint64_t took = clock_now_ns() - begin;
    atomic_store(&watched->is_watched, 0);
    atomic_store(&watched->is_over, 1);
    pthread_join(watched->thread, NULL);
    if (watched->failed != TNR_OK)
        program_fail(run->self, "the allocating thread failed: %s",
                     tnr_status_name(watched->failed));
    return took;
}

/* ---- report --------------------------------------------------------------------------------- */

static int history_report(const cost *run)
{
    double off = median(run->pair_ns[0], run->rounds);
    int code = PROGRAM_OK;
    puts("History: ns for one operation (a cached allocation or its free), medians");
    for (int mode = 0; mode < MODES; mode++) {
        double ns = median(run->pair_ns[mode], run->rounds);
        int is_bad = run->is_limited && mode == TNR_HISTORY_LIGHT && (ns - off) / 2 > 20;
        printf("  %-6s %9.1f  %+9.1f%s\n", mode_names[mode], ns / 2, (ns - off) / 2,
               is_bad ? "  (limit 20)" : "");
        code = is_bad ? PROGRAM_WRONG : code;
        for (int round = 0; run->csv && round < run->rounds; round++)
            fprintf(run->csv, "history,%s,,,%d,%.2f,\n", mode_names[mode], round,
                    run->pair_ns[mode][round] / 2);
        if (run->csv)
            fprintf(run->csv, "history,%s,,,median,%.2f,\n", mode_names[mode], ns / 2);
    }
    return code;
}

static int snapshots_report(const cost *run)
{
    int code = PROGRAM_OK;
    printf("\nSnapshots with %ld live blocks: ms, medians\n", run->live_count);
    for (int size = 0; size < SIZES; size++)
        for (int which = 0; which < FORMATS; which++) {
            double ns = median(run->snapshot_ns[size][which], run->rounds);
            int is_bad =
                run->is_limited && formats[which].is_limited && ns > run->limit_ms[size] * 1e6;
            printf("  %9zu records  %-9s %9.1f  %7.1f MB", run->records[size], formats[which].name,
                   ns / 1e6, (double)run->snapshot_bytes[size][which] / 1e6);
            if (is_bad)
                printf("  (limit %.0f)", run->limit_ms[size]);
            putchar('\n');
            code = is_bad ? PROGRAM_WRONG : code;
            for (int round = 0; run->csv && round <= run->rounds; round++) {
                char number[16] = "median";
                if (round < run->rounds)
                    snprintf(number, sizeof(number), "%d", round);
                fprintf(run->csv, "snapshot,%s,%zu,%ld,%s,%.0f,%llu\n", formats[which].name,
                        run->records[size], run->live_count, number,
                        round < run->rounds ? run->snapshot_ns[size][which][round] : ns,
                        (unsigned long long)run->snapshot_bytes[size][which]);
            }
        }
    return code;
}

static int pause_report(const cost *run, const pausing *alone, const pausing *beside)
{
    const pausing *const both[2] = {alone, beside};
    static const char *const names[2] = {"nobody", "snapshots"};
    int is_bad = run->is_limited && beside->longest_ns > 1000000;
    puts("\nA thread's pairs, each timed, while another thread takes snapshots of the largest "
         "history: us");
    for (int i = 0; i < 2; i++) {
        printf("  %-10s longest %9.1f  99.99 %% %7.2f  median %6.3f  of %llu%s\n", names[i],
               (double)both[i]->longest_ns / 1e3, histogram_quantile(&both[i]->calls, 0.9999) / 1e3,
               histogram_quantile(&both[i]->calls, 0.5) / 1e3,
               (unsigned long long)both[i]->calls.total, i == 1 && is_bad ? "  (limit 1,000)" : "");
        if (run->csv)
            fprintf(run->csv, "pause,%s,%zu,%ld,longest,%llu,\npause,%s,%zu,%ld,p9999,%.0f,\n",
                    names[i], run->records[SIZES - 1], run->live_count,
                    (unsigned long long)both[i]->longest_ns, names[i], run->records[SIZES - 1],
                    run->live_count, histogram_quantile(&both[i]->calls, 0.9999));
    }
    return is_bad ? PROGRAM_WRONG : PROGRAM_OK;
}

/* ---- the program ---------------------------------------------------------------------------- */

static const char usage[] =
    "Usage: seeing_cost [--rounds N] [--live N] [--pairs N] [--records N,N] [--folder PATH]\n"
    "                   [--csv FILE] [--no-limit]\n\n"
    "Measures what the history and snapshots cost.\n\n"
    "  --rounds N     measurements of each kind (default 7)\n"
    "  --live N       live blocks while snapshots are taken (default 10000)\n"
    "  --pairs N      cached pairs in a round (default 1000000)\n"
    "  --records N,N  records in the history (default 100000,1000000)\n"
    "  --folder PATH  where snapshots are written (default: TMPDIR, or /tmp)\n"
    "  --csv FILE     every measurement; - is the standard output:\n"
    "                 what,which,records,live,round,ns,bytes\n"
    "  --no-limit     report only. Otherwise more than 20 ns for an operation, 20 ms for 100,000\n"
    "                 records, 250 ms for 1,000,000, or a pause above 1 ms is a failure\n\n"
    "TENURE_DRIVER=sim uses the simulated device.\n"
    "Exit codes: 0 as it must be; 1 not; 2 bad options; 77 no device.\n";

static int number_read(const char *text, long least, long most, long *number)
{
    char *end;
    errno = 0;
    *number = strtol(text, &end, 10);
    return errno == 0 && end != text && *end == '\0' && *number >= least && *number <= most;
}

static int records_read(cost *run, char *text)
{
    for (int i = 0; i < SIZES; i++) {
        char *part = strsep(&text, ",");
        long number;
        if (!part || !number_read(part, 1000, 100000000, &number))
            return 0;
        run->records[i] = (size_t)number;
        run->limit_ms[i] = (double)number * (number <= 100000 ? 20 / 1e5 : 250 / 1e6);
    }
    return text == NULL;
}

static int option_read(cost *run, int option)
{
    long number = 0;
    switch (option) {
    case 'r':
        if (!number_read(optarg, 1, ROUNDS_MAX, &number))
            return 0;
        run->rounds = (int)number;
        return 1;
    case 'l':
        return number_read(optarg, 1, LIVE_MAX, &run->live_count);
    case 'p':
        return number_read(optarg, 100, 1000000000, &run->pairs);
    case 'R':
        return records_read(run, optarg);
    case 'f':
        run->folder = optarg;
        return 1;
    case 'n':
        run->is_limited = 0;
        return 1;
    case 'c':
        run->csv = strcmp(optarg, "-") == 0 ? stdout : fopen(optarg, "w");
        if (!run->csv)
            fprintf(stderr, "seeing_cost: %s: %s\n", optarg, strerror(errno));
        return run->csv != NULL;
    default:
        return 0;
    }
}

static int options_read(int argc, char **argv, cost *run)
{
    static const struct option options[] = {{"rounds", required_argument, NULL, 'r'},
                                            {"live", required_argument, NULL, 'l'},
                                            {"pairs", required_argument, NULL, 'p'},
                                            {"records", required_argument, NULL, 'R'},
                                            {"folder", required_argument, NULL, 'f'},
                                            {"csv", required_argument, NULL, 'c'},
                                            {"no-limit", no_argument, NULL, 'n'},
                                            {"help", no_argument, NULL, 'h'},
                                            {NULL, 0, NULL, 0}};
    char usual[] = "100000,1000000";
    const char *folder = getenv("TMPDIR");
    run->rounds = 7;
    run->live_count = 10000;
    run->pairs = 1000000;
    run->is_limited = 1;
    run->folder = folder && *folder ? folder : "/tmp";
    records_read(run, usual);
    int option;
    while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
        if (option == 'h') {
            fputs(usage, stdout);
            exit(PROGRAM_OK);
        }
        if (!option_read(run, option)) {
            fputs(usage, stderr);
            return PROGRAM_BAD_INPUT;
        }
    }
    if (optind == argc)
        return PROGRAM_OK;
    fputs(usage, stderr);
    return PROGRAM_BAD_INPUT;
}

static int measure(cost *run)
{
    static pausing alone, beside;
    program *self = run->self;
    const gpu_driver *gpu = self->gpu;
    for (int i = 0; i <= STREAMS; i++)
        must_cu(self, gpu->cuStreamCreate(&run->streams[i], CU_STREAM_NON_BLOCKING),
                "cuStreamCreate");
    history_measure(run);
    live_make(run);
    snapshots_measure(run); /* leaves the largest history behind */
    uint64_t took = pausing_watch(run, &beside, run->rounds, 0);
    (void)pausing_watch(run, &alone, 0, took);
    live_end(run);

    int code = history_report(run);
    code |= snapshots_report(run);
    code |= pause_report(run, &alone, &beside);
    for (int i = 0; i <= STREAMS; i++) {
        must(self, tnr_stream_destroying(self->active.device, run->streams[i]),
             "tnr_stream_destroying");
        must_cu(self, gpu->cuStreamDestroy(run->streams[i]), "cuStreamDestroy");
    }
    return code;
}

int main(int argc, char **argv)
{
    static program self;
    static cost run;
    char text[2 * PATH_MAX];
    int code = options_read(argc, argv, &run);
    if (code != PROGRAM_OK)
        return code;
    run.self = &self;
    program_open(&self, "seeing_cost", 1);
    printf("seeing_cost on %s\n\n", session_describe(&self.active, text, sizeof(text)));
    if (run.csv) {
        program_csv_facts(&self, argc, argv, run.csv);
        fputs("what,which,records,live,round,ns,bytes\n", run.csv);
    }
    code = measure(&run);
    program_close(&self);
    if (run.csv && (fflush(run.csv) != 0 || ferror(run.csv)))
        code = PROGRAM_WRONG;
    return code;
}
