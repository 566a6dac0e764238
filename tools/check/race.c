/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Races that the simulated device has seen.
 *
 * The device knows which bytes its operations touch and what orders them. So it finds what no
 * parameter shows: addresses that lie in device memory, launches that cannot be read, two streams
 * that write one live block. It asks here who queues something. It gets a number, the tag, that
 * stands for the call, the kernel, the stream and the stack. A race comes with the tags of both
 * sides.
 *
 * Both functions are called with the simulation locked, and the checker calls the driver with its
 * own lock held (record.c). So they do not take the checker's lock. They take only the lock here,
 * under which no other is taken. The next thread that leaves the checker makes findings of the
 * races they have noted: at the latest right after the call that has queued something, so that a
 * stream's name is asked for while the stream exists.
 */
#include "check/race.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <tenure/simcuda.h>

#include "check/kept.h"
#include "check/rules.h"
#include "driver.h"
#include "service.h"

enum { TAGS_MAX = 65535, RACES_MAX = 20000, SLOTS = 1 << 17 };

/* Who queued something. Constant but for the touch, which is under the lock of check_enter. */
typedef struct tag {
    const char *call;
    char *kernel; /* null: none */
    check_stack stack;
    CUstream handle;
    const void *key; /* the stream's, as streams.c knows it */
    uint64_t stream_id;
    pid_t thread;
    check_touch touch; /* its place is null: not asked for yet */
} tag;

/* Two of them that met. */
typedef struct race {
    uint32_t earlier, later; /* tags */
    CUdeviceptr address;
    size_t bytes;
    uint64_t times;     /* that were told since the last look */
    check_kept *raised; /* the finding; under the lock of check_enter */
} race;

/* Lists that only grow, each with a table to find what is in it: place + 1, by open addressing. */
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static tag *tags[TAGS_MAX]; /* the tag n is at n - 1 */
static uint32_t tags_count, tags_bound;
static uint16_t tag_slots[SLOTS];
static race races[RACES_MAX];
static uint32_t races_count;
static uint16_t race_slots[SLOTS];
static uint32_t waiting[RACES_MAX]; /* races with times */
static uint32_t waiting_count;
static uint64_t beyond; /* races that found no room */

int check_races_are_seen;
_Atomic int check_races_wait;
static _Atomic(void (*)(int)) wait_device; /* null: no simulated device */

/* ---- under the simulation's lock ------------------------------------------------------------ */

static uint64_t mixed(uint64_t hash, uint64_t value)
{
    return (hash ^ value) * UINT64_C(0x9e3779b97f4a7c15) >> 7 ^ hash << 5;
}

static int is_same_text(const char *one, const char *other)
{
    return one == other || (one != NULL && other != NULL && strcmp(one, other) == 0);
}

static int is_same_tag(const tag *known, const tag *asked)
{
    return known->call == asked->call && known->key == asked->key &&
           known->stream_id == asked->stream_id && known->thread == asked->thread &&
           known->stack.count == asked->stack.count &&
           memcmp(known->stack.frames, asked->stack.frames,
                  (size_t)asked->stack.count * sizeof(asked->stack.frames[0])) == 0 &&
           is_same_text(known->kernel, asked->kernel);
}

static size_t tag_hash(const tag *asked)
{
    uint64_t hash = mixed((uintptr_t)asked->call, asked->stream_id);
    for (int i = 0; i < asked->stack.count; i++)
        hash = mixed(hash, (uintptr_t)asked->stack.frames[i]);
    return (size_t)(hash * UINT64_C(0x9e3779b97f4a7c15) >> 47);
}

/* The number of a tag, which is entered if it is new; 0: there is no room, or no memory. */
static uint32_t tag_find(const tag *asked)
{
    size_t at = tag_hash(asked);
    for (; tag_slots[at] != 0; at = (at + 1) % SLOTS)
        if (is_same_tag(tags[tag_slots[at] - 1], asked))
            return tag_slots[at];
    tag *fresh = tags_count < TAGS_MAX ? malloc(sizeof(*fresh)) : NULL;
    if (fresh == NULL)
        return 0;
    *fresh = *asked;
    if (asked->kernel != NULL)
        fresh->kernel = strdup(asked->kernel);
    tags[tags_count++] = fresh;
    tag_slots[at] = (uint16_t)tags_count;
    atomic_store(&check_races_wait, 1);
    return tags_count;
}

static uint32_t call_note(const simcuda_call *call, void *user)
{
    (void)user;
    check_stack room;
    tag asked = {.call = call->what,
                 .kernel = (char *)(uintptr_t)call->kernel,
                 .stack = check_stack_copy(check_stack_whole(&room)),
                 .handle = call->stream,
                 .key = check_stream_key(call->stream, call->device),
                 .stream_id = call->stream_id,
                 .thread = check_thread()};
    pthread_mutex_lock(&lock);
    uint32_t number = tag_find(&asked);
    pthread_mutex_unlock(&lock);
    return number;
}

/* The race of two tags, entered if it is new. Null: there is no room. */
static race *race_find(uint32_t earlier, uint32_t later)
{
    size_t at = (size_t)(mixed(earlier, later) * UINT64_C(0x9e3779b97f4a7c15) >> 47);
    for (; race_slots[at] != 0; at = (at + 1) % SLOTS) {
        race *known = &races[race_slots[at] - 1];
        if (known->earlier == earlier && known->later == later)
            return known;
    }
    if (races_count == RACES_MAX)
        return NULL;
    race *fresh = &races[races_count++];
    race_slots[at] = (uint16_t)races_count;
    fresh->earlier = earlier;
    fresh->later = later;
    return fresh;
}

/* 1 if the side that ran later comes first. Which of the two ran first says nothing of the program:
 * what was queued first has nothing to wait for. In a loop the two places take turns, and each of
 * them may lack a wait for the other, or one alone. Threads queue in no order of their own: there
 * the place counts that was seen first, so that one error is one finding. */
static int is_reversed(const simcuda_touch *ran, const simcuda_touch *ran_later)
{
    uint32_t first = ran->tag, second = ran_later->tag;
    if (first == 0 || second == 0 || tags[first - 1]->thread != tags[second - 1]->thread)
        return second < first;
    return ran_later->queued < ran->queued;
}

static void race_note(const simcuda_report *report, void *user)
{
    uint32_t first = report->earlier.tag, second = report->later.tag;
    (void)user;
    pthread_mutex_lock(&lock);
    int must_swap = is_reversed(&report->earlier, &report->later);
    race *one = race_find(must_swap ? second : first, must_swap ? first : second);
    if (one == NULL) {
        beyond++;
    } else if (one->times++ == 0) {
        one->address = report->later.address;
        one->bytes = report->later.bytes;
        waiting[waiting_count++] = (uint32_t)(one - races);
    }
    atomic_store(&check_races_wait, 1);
    pthread_mutex_unlock(&lock);
}

/* ---- findings ------------------------------------------------------------------------------- */

/* Asks for the place, and for the stream, which is there now. */
static void tag_bind(tag *one)
{
    const check_stream *stream = check_stream_keyed(one->key);
    one->touch =
        (check_touch){.place = check_place_of(one->call, check_text_keep(one->kernel), &one->stack),
                      .thread = one->thread,
                      .handle = one->handle,
                      .is_certain = 1};
    if (stream != NULL) {
        one->touch.index = stream->index;
        one->touch.stream = stream->name;
    }
}

static check_touch touch_of(uint32_t number)
{
    if (number > 0)
        return tags[number - 1]->touch;
    return (check_touch){.place = check_place_of("a call", NULL, NULL), .is_certain = 1};
}

static void race_raise(race *one)
{
    check_touch earlier = touch_of(one->earlier), later = touch_of(one->later);
    check_block unknown = {.base = one->address, .bytes = one->bytes}, *block;
    block = check_block_live(one->address);
    if (block == NULL)
        block = check_block_freed(one->address);
    check_finding finding = {.kind = CHECK_RACE,
                             .is_certain = 1,
                             .block = block != NULL ? block : &unknown,
                             .address = one->address,
                             .earlier = &earlier,
                             .earlier_is = "used",
                             .later = &later,
                             .later_is = "used",
                             .times = one->times};
    if (one->raised == NULL)
        one->raised = check_found(&finding);
    else
        check_found_again(one->raised, CHECK_RACE, one->times);
}

/* Copies are made first: nothing of the checker's is done under the lock here. */
void check_races_find(void)
{
    static race taken[64]; /* under the lock of check_enter */
    uint32_t indices[sizeof(taken) / sizeof(taken[0])];
    uint32_t count;
    uint64_t untold;
    do {
        pthread_mutex_lock(&lock);
        atomic_store(&check_races_wait, 0);
        uint32_t until = tags_count;
        untold = beyond;
        beyond = 0;
        for (count = 0; count < sizeof(taken) / sizeof(taken[0]) && waiting_count > 0; count++) {
            race *one = &races[indices[count] = waiting[--waiting_count]];
            taken[count] = *one;
            one->times = 0;
        }
        pthread_mutex_unlock(&lock);
        check_found_beyond(untold);
        while (tags_bound < until)
            tag_bind(tags[tags_bound++]);
        for (uint32_t i = 0; i < count; i++) {
            race_raise(&taken[i]);
            races[indices[i]].raised = taken[i].raised;
        }
    } while (count == sizeof(taken) / sizeof(taken[0]));
}

/* ---- the beginning -------------------------------------------------------------------------- */

/* Inside of service_enter, so that a signal handler's free does not come here again. The lock is
 * not held: host functions that run meanwhile take it. */
void check_races_wait_for(int device)
{
    void (*function)(int) = atomic_load_explicit(&wait_device, memory_order_relaxed);
    if (function == NULL || !service_enter())
        return;
    function(device);
    service_leave();
}

void check_races_begin(void)
{
    void (*observe)(simcuda_call_function, simcuda_report_function, void *) = NULL;
    void (*wait)(int) = NULL;
    void *symbol = check_does(CHECK_REPORTS) ? driver_symbol("simcuda_observe") : NULL;
    void *second = symbol == NULL ? NULL : driver_symbol("simcuda_wait_device");
    if (symbol == NULL)
        return;
    const char *is_on = getenv("TENURE_SIM_RACES");
    check_races_are_seen = is_on != NULL && strcmp(is_on, "1") == 0;
    memcpy(&wait, &second, sizeof(wait));
    atomic_store(&wait_device, wait);
    check_stack_pass(symbol);
    memcpy(&observe, &symbol, sizeof(observe));
    observe(call_note, race_note, NULL);
}
