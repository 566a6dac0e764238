/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What was found: see findings.h. Distinct findings are kept up to a bound, and recognised by their
 * kind and places. The first of them are said. Findings beyond the bound are counted together.
 */
#include "check/findings.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/plural.h"
#include "check/ending.h"
#include "check/kept.h"
#include "check/rules.h"
#include "room.h"
#include "service.h"

enum { KEPT_MAX = 20000, SLOTS = 65536, SAID_MAX = 1000, LEAKS_SHOWN = 100 };

/* Under the lock. */
static check_kept *list[KEPT_MAX];
static uint16_t slots[SLOTS]; /* open addressing: place in the list + 1 */
static uint64_t beyond;       /* findings that found no room */
uint64_t check_launches, check_launches_unread;
static uint64_t engine_blocks;

/* From when on the program orders work by means that are not seen: of whatever is ordered, and of
 * streams that wait for values. */
typedef struct unseen_order {
    const char *means; /* null: it does not */
    const check_place *place;
    uint64_t stream;   /* the first one that did; 0: it is not a stream's */
    uint64_t launches; /* that came before */
} unseen_order;
static unseen_order unseen, unseen_values;

/* Read without it. */
_Atomic size_t check_findings_count;
_Atomic size_t check_findings_said;     /* the first so many were */
static _Atomic uint64_t numbers;        /* of those that were said */
static _Atomic uint64_t counts_said[2]; /* that no rule suppresses: possible ones, certain ones */
static suppress_rules rules;            /* constant since the beginning */

_Static_assert(KEPT_MAX < UINT16_MAX, "a slot has the place + 1");

/* ---- for tenure run ------------------------------------------------------------------------- */

/* What the environment said at the beginning: programs may clear it. */
static struct {
    char *state, *json, *said;
    int has_leaks, has_possible;
} told;
static int state_held = -1; /* the file of states, for as long as the process lives */

static char *path_of(const char *name)
{
    const char *path = getenv(name);
    return path == NULL ? NULL : strdup(path);
}

static int is_on(const char *name)
{
    const char *wanted = getenv(name);
    return wanted != NULL && strcmp(wanted, "1") == 0;
}

static void state_drop(void)
{
    if (state_held >= 0)
        (void)close(state_held);
    state_held = -1;
}

/* A lock that ends with the process: `tenure run` waits until no process has it. One that was
 * forked from this one does not count. */
void check_state_hold(void)
{
    int file = told.state == NULL ? -1 : open(told.state, O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    if (file >= 0 && flock(file, LOCK_SH) == 0)
        state_held = file;
    else if (file >= 0)
        (void)close(file);
    (void)pthread_atfork(NULL, NULL, state_drop);
}

/* Sets a byte of the file of states. */
static void state_tell(size_t index)
{
    int file = told.state == NULL ? -1 : open(told.state, O_WRONLY | O_CLOEXEC);
    if (file < 0)
        return;
    ssize_t written = pwrite(file, "\1", 1, (off_t)index);
    (void)written;
    (void)close(file);
}

/* `tenure run` has read them before, so that what is wrong here is new. */
void check_findings_begin(void)
{
    char error[SUPPRESS_ERROR_BYTES];
    const char *path = getenv("TENURE_PRELOAD_CHECK_SUPPRESS");
    told.state = path_of("TENURE_PRELOAD_CHECK_STATE");
    told.json = path_of("TENURE_PRELOAD_CHECK_JSON");
    told.said = path_of("TENURE_PRELOAD_CHECK_SAID");
    told.has_leaks = is_on("TENURE_PRELOAD_CHECK_LEAKS");
    told.has_possible = is_on("TENURE_PRELOAD_CHECK_POSSIBLE");
    if (path != NULL && suppress_read(&rules, path, error) != 0)
        service_say("check: %s. Nothing is suppressed.", error);
}

void check_unseen_note(const char *means, const check_place *place, uint64_t stream)
{
    unseen_order *to = stream == 0 ? &unseen : &unseen_values;
    if (to->means == NULL)
        *to = (unseen_order){means, place, stream, check_launches};
}

void check_unseen(const char *call, const char *means)
{
    check_stack room;
    check_stack *stack = check_stack_here(&room);
    if (!check_enter())
        return;
    check_unseen_note(means, check_place_of(call, NULL, stack), 0);
    check_leave();
}

void check_unseen_on(const char *call, CUstream handle)
{
    check_stack room;
    check_stack *stack = check_stack_here(&room);
    check_name name = check_name_of(handle);
    if (name.is_capturing || !check_enter())
        return;
    check_stream *stream = check_stream_find(&name);
    if (stream != NULL) {
        check_stream_open(stream);
        check_unseen_note(check_means_values, check_place_of(call, NULL, stack), stream->name);
    }
    check_leave();
}

/* ---- finding -------------------------------------------------------------------------------- */

static const check_place *place_of(const check_touch *touch)
{
    return touch == NULL ? NULL : touch->place;
}

static int is_same(const check_kept *known, const check_finding *finding, int is_certain)
{
    return known->kind == finding->kind && known->is_certain == is_certain &&
           known->sides[CHECK_SIDE_LATER].touch.place == finding->later->place &&
           known->sides[CHECK_SIDE_EARLIER].touch.place == place_of(finding->earlier);
}

/* The slot of a finding, or the empty one where it would be. There always is one. */
static uint16_t *slot_of(const check_finding *finding, int is_certain)
{
    uint64_t mixed = (uint64_t)(uintptr_t)finding->later->place * 31 +
                     (uint64_t)(uintptr_t)place_of(finding->earlier);
    mixed = (mixed * 31 + (uint64_t)finding->kind * 2 + (uint64_t)is_certain) *
            UINT64_C(0x9e3779b97f4a7c15);
    for (size_t at = (size_t)(mixed >> 48);; at = (at + 1) % SLOTS)
        if (slots[at] == 0 || is_same(list[slots[at] - 1], finding, is_certain))
            return &slots[at];
}

static void side_fill(check_kept *to, check_side_index index, const check_touch *touch,
                      const char *is)
{
    if (touch != NULL)
        to->sides[index] =
            (check_side){*touch, check_stream_label(touch->index, touch->stream), is};
}

static void kept_fill(check_kept *fresh, const check_finding *finding, int is_certain)
{
    const check_block *block = finding->block;
    const service_device *device = service_of_address(block->base);
    fresh->kind = finding->kind;
    fresh->is_certain = is_certain;
    fresh->base = block->base;
    fresh->address = finding->address;
    fresh->touched = finding->bytes;
    fresh->bytes = block->bytes;
    fresh->device = device == NULL ? -1 : device->index;
    fresh->is_made_earlier = finding->earlier == &block->made;
    side_fill(fresh, CHECK_SIDE_MADE, &block->made, "allocated");
    int is_of_reuse = finding->kind == CHECK_REUSE_WITHOUT_ORDER || finding->kind == CHECK_RACE;
    if (is_of_reuse && block->before != NULL) {
        side_fill(fresh, CHECK_SIDE_BEFORE, &block->before->freed, "the block before freed");
        fresh->base_before = block->before->base;
    }
    side_fill(fresh, CHECK_SIDE_EARLIER, finding->earlier, finding->earlier_is);
    side_fill(fresh, CHECK_SIDE_LATER, finding->later, finding->later_is);
}

/* Frees of what is no block, and bytes behind one, are wrong whatever is ordered. Work that is
 * enqueued after a free is not ordered before it by anything that exists then. And of races the
 * device knows it, by whatever means. */
static int depends_on_order(check_kind kind)
{
    return kind == CHECK_FREE_IN_USE || kind == CHECK_USE_BEFORE_ALLOC ||
           kind == CHECK_REUSE_WITHOUT_ORDER;
}

/* By which means the program may have ordered it unseen. Null: by none. */
static const char *means_of(const check_finding *finding)
{
    if (finding->means != NULL)
        return finding->means;
    return depends_on_order(finding->kind) ? unseen.means : NULL;
}

static int is_same_stack(const check_touch *one, const check_touch *other)
{
    const check_stack *first = &one->place->stack, *second = &other->place->stack;
    return first->count > 0 && first->count == second->count &&
           memcmp(first->frames, second->frames, (size_t)first->count * sizeof(first->frames[0])) ==
               0;
}

/* The error of lifetime that a race comes from: one that was found in the same memory, and to which
 * one of its sides belongs. Null: none. */
static check_kept *race_cause(const check_finding *finding)
{
    size_t count = atomic_load(&check_findings_count);
    for (size_t i = 0; i < count; i++) {
        check_kept *one = list[i];
        if (one->kind == CHECK_RACE || !one->is_certain ||
            finding->address - one->base >= one->bytes)
            continue;
        for (int side = 0; side < CHECK_SIDE_COUNT; side++) {
            const check_touch *touch = &one->sides[side].touch;
            if (touch->place != NULL &&
                (is_same_stack(touch, finding->earlier) || is_same_stack(touch, finding->later)))
                return one;
        }
    }
    return NULL;
}

void check_found_again(check_kept *one, check_kind kind, uint64_t times)
{
    *(kind == one->kind ? &one->times : &one->met) += times;
}

void check_found_beyond(uint64_t times)
{
    beyond += times;
    if (times > 0)
        state_tell(0);
}

check_kept *check_found(const check_finding *finding)
{
    uint64_t times = finding->times > 0 ? finding->times : 1;
    if (!check_does(CHECK_REPORTS))
        return NULL;
    check_kept *cause = finding->kind == CHECK_RACE ? race_cause(finding) : NULL;
    if (cause != NULL) {
        check_found_again(cause, finding->kind, times);
        return cause;
    }
    const char *means = means_of(finding);
    int is_certain = finding->is_certain && means == NULL;
    static check_kept *latest; /* a list of addresses brings the same one again and again */
    if (latest != NULL && latest->is_certain >= is_certain &&
        is_same(latest, finding, latest->is_certain)) {
        check_found_again(latest, finding->kind, times);
        return latest;
    }
    uint16_t *slot = slot_of(finding, 1);
    if (*slot == 0) /* what is possible of what is certain already is the same error */
        slot = slot_of(finding, is_certain);
    if (*slot != 0) {
        latest = list[*slot - 1];
        check_found_again(latest, finding->kind, times);
        return latest;
    }
    size_t count = atomic_load(&check_findings_count);
    check_kept *fresh = count < KEPT_MAX ? calloc(1, sizeof(*fresh)) : NULL;
    if (fresh == NULL) {
        beyond += times;
        if (is_certain)
            state_tell(0);
        return NULL;
    }
    kept_fill(fresh, finding, is_certain);
    fresh->means = finding->is_certain ? means : NULL;
    fresh->times = times;
    list[count] = latest = fresh; /* if it is certain, it counts for what is possible, too */
    *slot = (uint16_t)(count + 1);
    atomic_store(&check_findings_count, count + 1);
    return fresh;
}

void check_count_block(void)
{
    engine_blocks++;
}

void check_counts_get(uint64_t *seen, uint64_t *unread)
{
    *seen = check_launches;
    *unread = check_launches_unread;
}

/* ---- saying --------------------------------------------------------------------------------- */

/* A file that takes no more is given up: half a line would spoil those after it. */
void check_json_write(const check_text *from)
{
    static _Atomic int is_given_up;
    const char *path = told.json;
    if (path == NULL || atomic_load(&is_given_up))
        return;
    int file = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    int error = file < 0 ? errno : room_to_grow(file, from->length);
    if (error == 0)
        error = check_text_write(from, file);
    if (file >= 0 && close(file) != 0 && error == 0)
        error = errno;
    if (error != 0 && !atomic_exchange(&is_given_up, 1))
        service_say("check: %s: %s. Findings are on stderr alone from now on.", path,
                    strerror(error));
}

/* `tenure run` prints what is written to this file, with lines of the source; without one it goes
 * to stderr. What is written at once stays together. */
void check_said_write(const check_text *from)
{
    int file =
        from->has_places ? open(told.said, O_WRONLY | O_APPEND | O_NONBLOCK | O_CLOEXEC) : -1;
    if (file < 0 || check_text_write(from, file) != 0)
        (void)check_text_write(from, STDERR_FILENO);
    if (file >= 0)
        (void)close(file);
}

int check_said_has_places(void)
{
    return told.said != NULL;
}

/* What a function says of a finding, however long it is. The string is the caller's to free; null:
 * no memory. */
static check_text text_whole(void (*say)(check_text *, const check_kept *), const check_kept *one)
{
    check_text text = {NULL, 0, 1 << 14, told.said != NULL};
    for (;;) {
        char *grown = realloc(text.string, text.room);
        if (grown == NULL)
            break;
        text.string = grown;
        text.length = 0;
        say(&text, one);
        if (text.length + 1 < text.room || text.room >= 1 << 24)
            break;
        text.room *= 4;
    }
    return text;
}

/* Of words that may be no address, and hosts that may poll, right programs have some: they are
 * counted, told to machines, and printed on request. */
static int is_printed(const check_kept *one)
{
    return !check_kept_is_doubted(one) || told.has_possible;
}

/* 1 if one missing call is what both lack. A free that must wait for a stream is one, whatever that
 * stream does; a block that is freed too early is one, whoever uses it afterwards. */
static int is_same_call(const check_kept *one, const check_kept *other)
{
    const check_side *earlier = &one->sides[CHECK_SIDE_EARLIER];
    const check_side *later = &one->sides[CHECK_SIDE_LATER];
    const check_side *first = &other->sides[CHECK_SIDE_EARLIER];
    const check_side *second = &other->sides[CHECK_SIDE_LATER];
    if (one->kind != other->kind || one->is_certain != other->is_certain)
        return 0;
    int are_of_streams =
        earlier->touch.stream == first->touch.stream && later->touch.stream == second->touch.stream;
    switch (one->kind) {
    case CHECK_FREE_IN_USE:
        return later->touch.place == second->touch.place && are_of_streams;
    case CHECK_USE_BEFORE_ALLOC:
    case CHECK_REUSE_WITHOUT_ORDER:
        return earlier->touch.place == first->touch.place && are_of_streams;
    case CHECK_USE_AFTER_FREE:
        return earlier->touch.place == first->touch.place;
    default:
        return 0;
    }
}

/* Finds the report that the finding belongs to; its own, if there is none. */
static void kept_lead(check_kept *one)
{
    static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* not waited for in a child */
    static check_kept *leaders[2 * SAID_MAX];
    static size_t count;
    if (pthread_mutex_lock(&lock) != 0)
        return;
    for (size_t i = 0; i < count && one->leader == NULL; i++)
        if (is_same_call(leaders[i], one))
            one->leader = leaders[i];
    if (one->leader == NULL)
        leaders[count++] = one;
    pthread_mutex_unlock(&lock);
}

static void kept_say(check_kept *one)
{
    int rule = check_kept_rule(one, &rules);
    atomic_store(&one->is_suppressed, rule >= 0);
    if (rule >= 0) {
        state_tell((size_t)rule + 1);
        return;
    }
    if (one->is_certain)
        state_tell(0);
    if (atomic_fetch_add(&counts_said[one->is_certain != 0], 1) >= SAID_MAX)
        return;
    atomic_store(&one->number, atomic_fetch_add(&numbers, 1) + 1);
    kept_lead(one);
    check_text said = {NULL, 0, 0, 0};
    if (is_printed(one) && one->leader == NULL) {
        said = text_whole(check_kept_text, one);
        check_said_write(&said);
        free(said.string);
    }
    said = text_whole(check_kept_json, one);
    check_json_write(&said);
    free(said.string);
}

/* What is in the list does not change any more but for the times, so it is read without the lock:
 * whoever takes a number says it. */
void check_findings_say_new(void)
{
    size_t next = atomic_load_explicit(&check_findings_said, memory_order_relaxed);
    while (next < atomic_load(&check_findings_count))
        if (atomic_compare_exchange_weak(&check_findings_said, &next, next + 1))
            kept_say(list[next++]);
}

void check_cannot_read(void)
{
    static _Atomic int is_said;
    static char line[] =
        "tenure: check: this driver does not tell the parameters of kernels (CUDA 12.4 does): what "
        "launches use is not seen, but for those that pass them in one buffer\n";
    if (!atomic_exchange(&is_said, 1))
        (void)check_text_write(&(check_text){line, sizeof(line) - 1, sizeof(line), 0},
                               STDERR_FILENO);
}

/* ---- the end -------------------------------------------------------------------------------- */

typedef struct leak {
    CUdeviceptr base;
    size_t bytes;
    check_side made;
} leak;

typedef struct leaks {
    leak shown[LEAKS_SHOWN];
    uint64_t blocks, bytes;
} leaks;

static void leak_add(const check_block *block, void *user)
{
    leaks *all = user;
    if (all->blocks < LEAKS_SHOWN)
        all->shown[all->blocks] = (leak){
            block->base,
            block->bytes,
            {block->made, check_stream_label(block->made.index, block->made.stream), "allocated"}};
    all->bytes += block->bytes;
    all->blocks++;
}

/* Without the lock: names are looked up. */
static void leaks_say(const leaks *all)
{
    enum { ROOM = 1 << 18 };
    check_text said = {malloc(ROOM), 0, ROOM, told.said != NULL};
    if (said.string == NULL)
        return;
    for (size_t i = 0; i < all->blocks && i < LEAKS_SHOWN; i++) {
        check_text_add(&said, "tenure: check: live at the end: block 0x%llx of %zu byte%s\n",
                       (unsigned long long)all->shown[i].base, all->shown[i].bytes,
                       tnri_plural(all->shown[i].bytes));
        check_side_text(&said, &all->shown[i].made);
    }
    check_text_add(&said,
                   "tenure: check: %" PRIu64 " block%s (%" PRIu64 " byte%s) live at the end\n",
                   all->blocks, tnri_plural(all->blocks), all->bytes, tnri_plural(all->bytes));
    check_said_write(&said);
    free(said.string);
}

/* Of all that was found. */
typedef struct sums {
    uint64_t certain, certain_times, possible, possible_times, suppressed, suppressed_times;
    uint64_t hidden; /* possible ones that were not printed */
} sums;

static sums sums_of(void)
{
    sums all = {.certain = 0};
    for (size_t i = 0; i < check_findings_count; i++) {
        check_kept *one = list[i];
        uint64_t *distinct = one->is_certain ? &all.certain : &all.possible;
        uint64_t *times = one->is_certain ? &all.certain_times : &all.possible_times;
        if (one->is_suppressed) {
            distinct = &all.suppressed;
            times = &all.suppressed_times;
        }
        check_kept *leader = one->leader != NULL ? one->leader : one;
        *distinct += leader == one;
        *times += one->times;
        leader->pairs++;
        leader->times_of_all += one->times;
        all.hidden += !one->is_suppressed && !is_printed(one);
    }
    return all;
}

static void times_text(check_text *said, const check_kept *one)
{
    if (one->times_of_all > 1)
        check_text_add(said, "tenure: check: finding %" PRIu64 ": %" PRIu64 " times", one->number,
                       one->times_of_all);
    if (one->pairs > 1)
        check_text_add(said, ", at %" PRIu64 " pairs of places", one->pairs);
    if (one->times_of_all > 1)
        check_text_add(said, "\n");
    if (one->met > 0)
        check_text_add(said,
                       "tenure: check: finding %" PRIu64 ": the device met it, %" PRIu64
                       " time%s: a race\n",
                       one->number, one->met, tnri_plural(one->met));
}

/* From when on what is not certain any more, and why. */
static void unseen_text(check_text *said, const unseen_order *one)
{
    if (one->means == NULL)
        return;
    check_text_add(said,
                   "tenure: check: NOT ALL COULD BE CERTAIN: %s (%s), which the check cannot "
                   "follow: ",
                   one->means, one->place->call);
    if (one->stream != 0)
        check_text_add(said,
                       "from launch %" PRIu64 " of %" PRIu64 " on what depends on the order of "
                       "such streams is only possible, first of stream %" PRIu64 "\n",
                       one->launches + 1, check_launches, one->stream);
    else
        check_text_add(said,
                       "from launch %" PRIu64 " of %" PRIu64 " on all that depends on order is "
                       "only possible\n",
                       one->launches + 1, check_launches);
}

/* That nothing was found is said only if all was looked at. */
static void nothing_text(check_text *said)
{
    uint64_t passed = atomic_load(&service_counts[COUNT_ALLOCS_PASSED]);
    if (check_launches_unread + passed == 0) {
        check_text_add(said, "tenure: check: nothing found\n");
        return;
    }
    check_text_add(said, "tenure: check: no finding, but not all was looked at:");
    if (check_launches_unread > 0)
        check_text_add(said, " %" PRIu64 " of %" PRIu64 " launch%s could not be read",
                       check_launches_unread, check_launches, check_launches == 1 ? "" : "es");
    if (passed > 0)
        check_text_add(said, "%s %" PRIu64 " allocation%s had memory of the driver's",
                       check_launches_unread > 0 ? "," : "", passed, tnri_plural(passed));
    check_text_add(said, "\n");
}

static void sums_text(check_text *said, const sums *all)
{
    uint64_t followed = engine_blocks + atomic_load(&service_counts[COUNT_ALLOCS_SERVED]);
    check_text_add(said,
                   "tenure: check: process %ld: %" PRIu64 " distinct certain finding%s (%" PRIu64
                   " time%s), %" PRIu64 " possible (%" PRIu64 " time%s); %" PRIu64
                   " launch%s, %" PRIu64 " of them not read; %" PRIu64
                   " allocation%s followed, %" PRIu64 " passed on to the driver and not followed",
                   (long)getpid(), all->certain, tnri_plural(all->certain), all->certain_times,
                   tnri_plural(all->certain_times), all->possible, all->possible_times,
                   tnri_plural(all->possible_times), check_launches,
                   check_launches == 1 ? "" : "es", check_launches_unread, followed,
                   tnri_plural(followed), atomic_load(&service_counts[COUNT_ALLOCS_PASSED]));
    if (all->suppressed > 0)
        check_text_add(said, "; %" PRIu64 " suppressed (%" PRIu64 " time%s)", all->suppressed,
                       all->suppressed_times, tnri_plural(all->suppressed_times));
    if (counts_said[0] + counts_said[1] > numbers)
        check_text_add(said, "; the last %" PRIu64 " %s not said",
                       counts_said[0] + counts_said[1] - numbers,
                       counts_said[0] + counts_said[1] - numbers == 1 ? "was" : "were");
    if (all->hidden > 0)
        check_text_add(said,
                       "; --possible prints %" PRIu64 " that rest%s on words which may be no "
                       "address, or on an order that the host may know",
                       all->hidden, all->hidden == 1 ? "s" : "");
    if (beyond > 0)
        check_text_add(said, "; %" PRIu64 " time%s more, only counted", beyond,
                       tnri_plural(beyond));
    check_text_add(said, "\n");
    unseen_text(said, &unseen);
    unseen_text(said, &unseen_values);
    if (check_order_is_lost)
        check_text_add(said,
                       "tenure: check: NOT ALL COULD BE CERTAIN: %s: from then on all that "
                       "depends on order is only possible\n",
                       check_means_lost);
    for (size_t i = 0; i < check_findings_count && said->length + 80 < said->room; i++)
        if (list[i]->number != 0 && is_printed(list[i]) && list[i]->leader == NULL)
            times_text(said, list[i]);
    if (all->certain + all->possible + all->suppressed + beyond == 0)
        nothing_text(said);
}

static void sums_say(void)
{
    char room[4096], machine[1024];
    check_text said = {room, 0, sizeof(room), told.said != NULL};
    check_text json = {machine, 0, sizeof(machine), 0};
    sums all = sums_of();
    sums_text(&said, &all);
    check_said_write(&said);
    check_text_add(&json,
                   "{\"summary\": true, \"pid\": %ld, \"certain\": %" PRIu64
                   ", \"certain_times\": %" PRIu64 ", \"possible\": %" PRIu64
                   ", \"possible_times\": %" PRIu64 ", \"suppressed\": %" PRIu64
                   ", \"not_told_apart\": %" PRIu64 ", \"launches\": %" PRIu64
                   ", \"launches_unread\": %" PRIu64 ", \"allocations_followed\": %" PRIu64
                   ", \"allocations_passed_on\": %" PRIu64 "}\n",
                   (long)getpid(), all.certain, all.certain_times, all.possible, all.possible_times,
                   all.suppressed, beyond, check_launches, check_launches_unread,
                   engine_blocks + atomic_load(&service_counts[COUNT_ALLOCS_SERVED]),
                   atomic_load(&service_counts[COUNT_ALLOCS_PASSED]));
    check_json_write(&json);
}

void check_findings_end(void)
{
    if (!check_does(CHECK_REPORTS) || service_is_forked() || !atomic_load(&driver_is_found))
        return;
    check_memory_left();
    if (check_enter())
        check_leave(); /* what the device has told since is found */
    check_findings_say();
    leaks *all = told.has_leaks ? calloc(1, sizeof(*all)) : NULL;
    if (all != NULL && check_enter()) {
        check_blocks_each(leak_add, all);
        check_leave();
        leaks_say(all);
    }
    free(all);
    if (!check_enter())
        return;
    sums_say();
    check_leave();
}
