/* SPDX-License-Identifier: Apache-2.0 */
/*
 * misuse EVERY [STATE [FUNCTION]]: the table of misuse, or one cell of EVERY.
 *
 * A cell is a function in a state. For each of the function's arguments, and each value of that
 * argument's kind, the function is called once with that value and with good ones for the others,
 * in a process that has entered the state. What is checked of each call:
 *
 *   - it returns: a process that crashes, or does not come to the next call within a deadline, is
 *     reported with the call, and the table goes on behind it;
 *   - its status is one that its manual names: tests/statuses/note.h, where that is linked in;
 *   - a call that is refused leaves a sentence in tnr_last_error, and has changed nothing: the
 *     picture of the process (below) is the same before and after;
 *   - it does not call the driver, unless its manual says so or names TNR_ERR_DRIVER;
 *   - its status is not false: "no driver" where there is one, "asleep" where nothing sleeps;
 *   - tnr_validate finds nothing, whatever the call returned.
 *
 * A call that succeeds may change the state, so the process ends behind it, and the next call comes
 * in a fresh one. Values are not bad in every state, nor for every function: nothing here says what
 * a call has to return, beyond what the manual says.
 *
 * It was seen to fail with each of these lines taken out of the library:
 *   use.c       block_check in tnr_keep_until, and in record_use_of_peer (a stream was kept)
 *   at.c        arena_take_at: the first tnri_world_find (it crashed)
 *   staging.c   tnri_staging_check: the bound of `missing` (a false status, after much pinning)
 * and with these words out of the manual: "calls the driver" of tnr_stream_is_asked (lifetime.h)
 * and of tnr_stats_json (alloc.h).
 */
#include "misuse.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tenure/simcuda.h>

#include "commit_seed.h"

enum { DEADLINE_SECONDS = 60, TEXT_BYTES = 512, FIELDS_MAX = 128, DEVICES = 2 };

/* How a process ends: all calls of its cell are made, or one succeeded, or one was wrong. */
enum { END_CELL = 0, END_SUCCEEDED = 11, END_WRONG = 12 };

/* Where the process is; shared with the one that started it. */
typedef struct misuse_place {
    size_t call; /* of the cell, counted from 0 */
    char text[TEXT_BYTES];
} misuse_place;

static misuse_place *place;

/* ---- the picture ---------------------------------------------------------------------------- */

typedef struct picture {
    size_t count;
    const char *names[FIELDS_MAX];
    uint64_t values[FIELDS_MAX];
} picture;

static void field(picture *to, const char *name, uint64_t value)
{
    if (to->count == FIELDS_MAX)
        abort();
    to->names[to->count] = name;
    to->values[to->count++] = value;
}

static void picture_stats(picture *to, const tnr_stats *stats)
{
    field(to, "live blocks", stats->allocation[TNR_WORLD_ALL].current);
    field(to, "allocated bytes", stats->allocated_bytes[TNR_WORLD_ALL].current);
    field(to, "allocations ever", stats->allocation[TNR_WORLD_ALL].allocated);
    field(to, "frees ever", stats->allocation[TNR_WORLD_ALL].freed);
    field(to, "bytes live", stats->bytes_live);
    field(to, "bytes slack", stats->bytes_slack);
    field(to, "blocks retired", stats->blocks_retired);
    field(to, "bytes parked", stats->bytes_parked);
    field(to, "parks", stats->parks);
    field(to, "unparks", stats->unparks);
    field(to, "bytes asleep", stats->bytes_asleep);
    field(to, "sleeps", stats->sleeps);
    field(to, "wakes", stats->wakes);
    field(to, "pools", stats->pools);
    field(to, "limit", stats->limit_bytes);
}

static uint64_t text_hash(uint64_t hash, const char *text)
{
    for (; *text != '\0'; text++)
        hash = (hash ^ (unsigned char)*text) * UINT64_C(0x100000001b3);
    return hash;
}

static uint64_t settings_hash(void)
{
    uint64_t hash = UINT64_C(0xcbf29ce484222325);
    tnr_setting_info info = {.struct_bytes = sizeof(info)};
    for (size_t i = 0; tnr_setting_get(&info, i) == TNR_OK; i++)
        hash = text_hash(hash, info.value);
    return hash;
}

static void picture_library(picture *to, const misuse_world *world)
{
    tnr_import_info imported = {.struct_bytes = sizeof(imported)};
    tnr_publication_info publication = {.struct_bytes = sizeof(publication)};
    tnr_export_info exported = {.struct_bytes = sizeof(exported)};
    tnr_graph_info graph = {.struct_bytes = sizeof(graph)};
    tnr_history_info history = {.struct_bytes = sizeof(history)};
    size_t imports = 0, publications = 0, tags = 0;
    while (tnr_import_at(&imported, imports) == TNR_OK)
        imports++;
    while (tnr_publication_at(&publication, publications) == TNR_OK)
        publications++;
    while (tnr_tag_name(tags) != NULL)
        tags++;
    field(to, "imports", imports);
    field(to, "publications", publications);
    field(to, "tags", tags);
    field(to, "settings", settings_hash());
    field(to, "status of the export", tnr_export_get(&exported, world->exported));
    field(to, "importers", exported.importers);
    field(to, "status of the graph", tnr_graph_get(&graph, world->graph));
    field(to, "kept blocks", graph.kept_blocks);
    field(to, "launches", graph.launches);
    field(to, "status of the history", tnr_history_get(&history));
    field(to, "mode of the history", (uint64_t)history.mode);
    field(to, "mappings written down", tnr_mappings_take(NULL, NULL, 0));
}

static void picture_driver(picture *to)
{
    simcuda_live live;
    CUcontext context = NULL;
    memset(&live, 0, sizeof(live));
    (void)simcuda_live_get(-1, &live);
    field(to, "pinned buffers", live.pinned);
    field(to, "pinned bytes", live.pinned_bytes);
    field(to, "streams", live.streams);
    field(to, "contexts", live.contexts + live.primary_references);
    field(to, "graphs", live.graphs + live.graph_execs + live.user_objects);
    field(to, "reserved addresses", live.reserved_bytes);
    field(to, "status of the context", (uint64_t)cuCtxGetCurrent(&context));
    field(to, "the current context", (uintptr_t)context);
}

static int descriptors_count(void)
{
    int count = 0;
    for (int i = 0; i < 256; i++)
        count += fcntl(i, F_GETFD) >= 0;
    return count;
}

/* What a refused call must leave as it is. Of a library that does not run nothing is asked: the
 * call may start it. */
static void picture_take(picture *to, const misuse_world *world)
{
    to->count = 0;
    if (!tnr_is_running())
        return;
    field(to, "descriptors", (uint64_t)descriptors_count());
    for (int i = 0; i < 2 * DEVICES; i++) {
        int device = i < DEVICES ? i : TNR_HOST(i - DEVICES);
        tnr_device_info info = {.struct_bytes = sizeof(info)};
        tnr_stats stats = {.struct_bytes = sizeof(stats)};
        field(to, "status of the device", tnr_device_get(&info, device));
        field(to, "device in use", (uint64_t)info.in_use);
        if (info.in_use == 0)
            continue;
        field(to, "status of statistics", tnr_stats_get(&stats, NULL, device));
        picture_stats(to, &stats);
    }
    picture_library(to, world);
    picture_driver(to);
}

/* Returns the name of what differs; null: nothing. What came into being meanwhile is none. */
static const char *picture_other(const picture *before, const picture *after)
{
    static char text[TEXT_BYTES];
    if (before->count == 0)
        return NULL;
    for (size_t i = 0; i < before->count && i < after->count; i++) {
        int is_started = strcmp(before->names[i], "device in use") == 0 && before->values[i] == 0;
        if (is_started && after->values[i] != 0)
            return NULL;
        if (before->values[i] != after->values[i]) {
            snprintf(text, sizeof(text), "%s, %llu before and %llu after", before->names[i],
                     (unsigned long long)before->values[i], (unsigned long long)after->values[i]);
            return text;
        }
    }
    return before->count == after->count ? NULL : "how much there is";
}

/* ---- one call ------------------------------------------------------------------------------- */

/* The bad value that call number `index` gives, and to which argument; null past the last call. */
static const char *bad_find(misuse_value *bad, size_t *argument, const misuse_world *world,
                            const misuse_call *call, size_t index)
{
    for (*argument = 0; *argument < call->arguments; ++*argument)
        for (size_t v = 1;; v++) {
            const char *what = misuse_value_get(bad, world, call->kinds[*argument],
                                                &call->details[*argument], *argument, v);
            if (what == NULL)
                break;
            if (--index == 0)
                return what;
        }
    return NULL;
}

/* Call number `index` of a cell: the first has good values alone. Returns 0 past the last. */
static int values_of(misuse_value *values, const misuse_world *world, const misuse_call *call,
                     size_t index)
{
    misuse_value bad;
    size_t argument = call->arguments;
    const char *what = index == 0 ? "all good" : bad_find(&bad, &argument, world, call, index);
    if (what == NULL)
        return 0;
    for (size_t a = 0; a < call->arguments; a++)
        if (a == argument)
            values[a] = bad;
        else
            (void)misuse_value_get(&values[a], world, call->kinds[a], &call->details[a], a, 0);
    snprintf(place->text, TEXT_BYTES, "argument %zu: %s", argument, what);
    return 1;
}

/* Their manuals say that a part may have been done when they fail. */
static int is_partial(const char *name)
{
    static const char *const names[] = {
        "tnr_shutdown",          "tnr_device_end",  "tnr_capture_end",   "tnr_capture_ended",
        "tnr_device_access_set", "tnr_export_send", "tnr_import_receive"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++)
        if (strcmp(name, names[i]) == 0)
            return 1;
    return 0;
}

/* What the call left in tnr_last_error, before anything else was asked. */
static char said[TEXT_BYTES];

static void wrong(const char *what, const char *more, tnr_status status)
{
    fprintf(stderr, "%s: %s%s (%s: %s)\n", place->text, what, more, tnr_status_name(status), said);
    _exit(END_WRONG);
}

/* Functions that only look: their success changes nothing, and the process goes on. */
static int is_look(const char *name)
{
    static const char *const ends[] = {
        "_get",     "_at",      "_json",     "_name",       "_text",    "_of",         "_path",
        "_walk",    "_now",     "_asked",    "_announced",  "_version", "_error",      "_result",
        "_changes", "_running", "_validate", "_generation", "_audit",   "_audit_write"};
    size_t length = strlen(name);
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        size_t bytes = strlen(ends[i]);
        if (length > bytes && strcmp(name + length - bytes, ends[i]) == 0)
            return strcmp(name, "tnr_pool_malloc_at") != 0 && strcmp(name, "tnr_import_at") != 0;
    }
    return 0;
}

/* 1 if another state owns the status, and this one does not: the call blames what is not so. */
static int is_false(const misuse_state *state, tnr_status status)
{
    int is_owned = 0;
    for (size_t s = 0; s < misuse_states_count; s++)
        for (int i = 0; i < 2; i++)
            is_owned |= misuse_states[s].owns[i] == status;
    if (status == TNR_ERR_HOST_MEMORY && strstr(said, "of host memory, and ") != NULL)
        return 0; /* tnr_sleep_prepare was asked for more than there is */
    return status != TNR_OK && is_owned && state->owns[0] != status && state->owns[1] != status;
}

static void call_check(const misuse_state *state, const misuse_call *call,
                       const misuse_value *values, const misuse_world *world)
{
    static picture before, after;
    picture_take(&before, world);
    if (state->before != NULL)
        state->before();
    uint64_t driver_calls = simcuda_calls_here();
    tnr_status status = call->call(values);
    driver_calls = simcuda_calls_here() - driver_calls;
    if (state->after != NULL)
        state->after();
    snprintf(said, sizeof(said), "%s", tnr_last_error());
    if (status != TNR_OK && said[0] == '\0')
        wrong("tnr_last_error is empty", "", status);
    if (driver_calls > 0 && !call->may_call_driver)
        wrong("calls the driver, and its manual does not say so", "", status);
    if (is_false(state, status))
        wrong("the status is false", "", status);
    picture_take(&after, world);
    const char *other = picture_other(&before, &after);
    if (status != TNR_OK && !is_partial(call->name) && other != NULL)
        wrong("refused, and changed: ", other, status);
    if (status == TNR_OK && is_look(call->name) && other != NULL)
        wrong("only looks, and changed: ", other, status);
    tnr_status valid = tnr_is_running() ? tnr_validate(-1) : TNR_OK;
    if (valid != TNR_OK && valid != TNR_ERR_AFTER_FORK)
        wrong("tnr_validate afterwards: ", tnr_last_error(), valid);
    if ((status == TNR_OK && !is_look(call->name)) || (status != TNR_OK && is_partial(call->name)))
        _exit(END_SUCCEEDED);
}

/* ---- one cell ------------------------------------------------------------------------------- */

/* In a process of its own: the calls of a cell from place->call on. */
static void cell_run(const misuse_state *state, const misuse_call *call, const char *folder)
{
    static misuse_world world;
    char errors[TEXT_BYTES];
    struct rlimit none = {0, 0};
    (void)setrlimit(RLIMIT_CORE, &none);
    snprintf(errors, sizeof(errors), "%s.errors", folder);
    int file = open(errors, O_WRONLY | O_CREAT | O_TRUNC, 0600);
    if (file < 0 || dup2(file, 2) < 0 || close(file) != 0)
        _exit(4);
    /* Files of calls without a folder stay in it, and those one or two further up. */
    if (chdir(folder) != 0 || mkdir("here", 0700) != 0 || chdir("here") != 0 ||
        mkdir("too", 0700) != 0 || chdir("too") != 0)
        _exit(4);
    world.folder = folder;
    (void)alarm(DEADLINE_SECONDS);
    snprintf(place->text, TEXT_BYTES, "entering the state");
    state->enter(&world);
    static picture first;
    picture_take(&first, &world); /* does what a first look does */
    for (;; place->call++) {
        misuse_value values[MISUSE_ARGUMENTS_MAX];
        memset(values, 0, sizeof(values));
        if (!values_of(values, &world, call, place->call))
            _exit(END_CELL);
        (void)alarm(DEADLINE_SECONDS);
        call_check(state, call, values, &world);
    }
}

static int entry_remove(const char *path, const struct stat *stat, int type, struct FTW *walk)
{
    (void)stat;
    (void)type;
    (void)walk;
    return remove(path);
}

/* The last lines of what the process said. */
static void errors_show(const char *folder)
{
    char path[TEXT_BYTES], text[2001];
    snprintf(path, sizeof(path), "%s.errors", folder);
    FILE *file = fopen(path, "r");
    if (file == NULL)
        return;
    (void)fseek(file, -2000, SEEK_END);
    text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
    (void)fclose(file);
    fprintf(stderr, "%s", text);
}

/* Returns how many calls of the cell were wrong; *calls counts all. */
static int cell_check(const misuse_state *state, const misuse_call *call, uint64_t *calls)
{
    int wrongs = 0;
    place->call = 0;
    for (;;) {
        char folder[] = "/tmp/misuse.XXXXXX", errors[TEXT_BYTES];
        if (mkdtemp(folder) == NULL)
            return 1;
        pid_t child = fork();
        if (child == 0)
            cell_run(state, call, folder);
        int status = 0;
        while (child > 0 && waitpid(child, &status, 0) < 0 && errno == EINTR)
            ;
        int end = child < 0 ? 4 : WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status);
        if (end != END_CELL && end != END_SUCCEEDED) {
            fprintf(stderr, "%s, %s, %s: %s %d\n", state->name, call->name, place->text,
                    end < 0 ? "ended by signal" : "exit", end < 0 ? -end : end);
            errors_show(folder);
            wrongs++;
        }
        (void)nftw(folder, entry_remove, 8, FTW_DEPTH | FTW_PHYS);
        snprintf(errors, sizeof(errors), "%s.errors", folder);
        (void)remove(errors);
        if (end == END_CELL || strcmp(place->text, "entering the state") == 0)
            break;
        place->call++;
    }
    *calls += place->call;
    return wrongs;
}

int main(int argc, char **argv)
{
    size_t every = argc > 1 ? strtoul(argv[1], NULL, 10) : 0;
    if (every == 0) {
        fprintf(stderr, "usage: %s EVERY [STATE [FUNCTION]]\n", argv[0]);
        return 2;
    }
    place = mmap(NULL, sizeof(*place), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (place == MAP_FAILED)
        return 2;
    uint64_t calls = 0, cells = 0;
    int wrongs = 0;
    for (size_t s = 0; s < misuse_states_count; s++)
        for (size_t f = 0; f < misuse_calls_count; f++) {
            if ((argc > 2 && argv[2][0] != '\0' && strcmp(argv[2], misuse_states[s].name) != 0) ||
                (argc > 3 && strcmp(argv[3], misuse_calls[f].name) != 0) ||
                (s * misuse_calls_count + f + commit_seed()) % every != 0)
                continue;
            cells++;
            wrongs += cell_check(&misuse_states[s], &misuse_calls[f], &calls);
        }
    printf("%llu calls in %llu cells (%zu states, %zu functions): %d wrong\n",
           (unsigned long long)calls, (unsigned long long)cells, misuse_states_count,
           misuse_calls_count, wrongs);
    return wrongs > 0 || cells == 0;
}
