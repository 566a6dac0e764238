/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Memory that is held and not used, by the place that allocated it.
 *
 * Each block notes when it was made, used and freed. The times are the host's: of the calls that
 * enqueue work, not of the work. So two things make a use longer than its call. Where the host
 * waits for the work and is held up, the blocks of that work are in use until the wait is over. And
 * a time shorter than a bound, 100 ms unless the user asks for another, does not count as idle: to
 * do something about it would take longer than it lasts. Both make waste smaller, never larger.
 *
 * A live block has one record, a place one sum, and there are at most as many places as places.c
 * has. What is live at the end ends with the last thing that was seen of any block: what a program
 * does once it uses no GPU any more is no waste.
 */
#include "check/waste.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "check/check.h"

/* A wait that takes less has not been held up: the work was over before. */
enum { HELD_UP_NS = 50 * 1000 };

/* In a circle. */
typedef struct waste_link {
    struct waste_link *next, *before;
} waste_link;

struct check_waste {
    waste_link link; /* first: in `used` if its last use may be under way, else in `quiet` */
    const check_place *place;
    size_t bytes;
    uint64_t made_ns, first_ns, last_ns; /* 0: it was not used yet */
    uint64_t between_ns;                 /* idle times that are over */
    const void *handle;                  /* of the stream of the last use */
};

static waste_link used = {&used, &used}, quiet = {&quiet, &quiet};
static waste_link spare = {&spare, &spare}; /* records without a block */
static check_wasted *sums;                  /* by the number of the place */
static size_t sums_room;
static uint64_t shortest_ns, latest_ns; /* the bound; when something was seen last */

/* The played clock of a replay is of no program that runs. */
uint64_t check_now(void)
{
    struct timespec now;
    (void)clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

/* ---- links ---------------------------------------------------------------------------------- */

static void link_move(waste_link *one, waste_link *to)
{
    if (one->next != NULL) {
        one->next->before = one->before;
        one->before->next = one->next;
    }
    one->next = to->next;
    one->before = to;
    to->next->before = one;
    to->next = one;
}

/* Records are not given back to the system: a program that goes round has one for each block that
 * comes. */
static check_waste *record_take(void)
{
    if (spare.next == &spare)
        return calloc(1, sizeof(check_waste));
    check_waste *one = (check_waste *)(void *)spare.next;
    waste_link link = one->link;
    *one = (check_waste){.link = link};
    return one;
}

/* ---- sums ----------------------------------------------------------------------------------- */

/* Null: no memory. */
static check_wasted *sum_of(const check_place *place)
{
    size_t number = (size_t)place->number;
    if (number >= sums_room) {
        size_t room = number * 2 + 64;
        check_wasted *grown = realloc(sums, room * sizeof(*grown));
        if (grown == NULL)
            return NULL;
        memset(grown + sums_room, 0, (room - sums_room) * sizeof(*grown));
        sums = grown;
        sums_room = room;
    }
    sums[number].place = place;
    return &sums[number];
}

/* The part of a time that counts. */
static uint64_t idle_ns(uint64_t from, uint64_t to)
{
    return to > from && to - from >= shortest_ns ? to - from : 0;
}

static void sum_add(check_wasted *sum, const check_waste *one, uint64_t end)
{
    double bytes = (double)one->bytes;
    int is_used = one->first_ns != 0;
    sum->bytes_now -= one->bytes;
    sum->held += bytes * (double)(end > one->made_ns ? end - one->made_ns : 0);
    if (!is_used) {
        sum->idle[CHECK_IDLE_NEVER_USED] += bytes * (double)idle_ns(one->made_ns, end);
        return;
    }
    sum->idle[CHECK_IDLE_BEFORE] += bytes * (double)idle_ns(one->made_ns, one->first_ns);
    sum->idle[CHECK_IDLE_BETWEEN] += bytes * (double)one->between_ns;
    sum->idle[CHECK_IDLE_AFTER] += bytes * (double)idle_ns(one->last_ns, end);
}

double check_waste_idle(const check_wasted *self)
{
    double all = 0;
    for (int i = 0; i < CHECK_IDLE_COUNT; i++)
        all += self->idle[i];
    return all;
}

/* ---- blocks --------------------------------------------------------------------------------- */

void check_waste_begin(uint64_t bound_ns)
{
    shortest_ns = bound_ns;
}

uint64_t check_waste_shortest_ns(void)
{
    return shortest_ns;
}

check_waste *check_waste_made(const check_place *place, size_t bytes)
{
    check_wasted *sum = sum_of(place);
    check_waste *one = sum == NULL ? NULL : record_take();
    if (one == NULL)
        return NULL;
    one->place = place;
    one->bytes = bytes;
    one->made_ns = latest_ns = check_now();
    sum->blocks++;
    sum->bytes_now += bytes;
    if (sum->bytes_now > sum->bytes_peak)
        sum->bytes_peak = sum->bytes_now;
    link_move(&one->link, &quiet);
    return one;
}

void check_waste_used(check_waste *self, const void *handle, uint64_t now)
{
    if (self->first_ns == 0)
        self->first_ns = now;
    else
        self->between_ns += idle_ns(self->last_ns, now);
    self->last_ns = latest_ns = now;
    self->handle = handle;
    link_move(&self->link, &used);
}

void check_waste_waited(const void *handle, uint64_t began)
{
    waste_link *next;
    uint64_t now = latest_ns = check_now();
    if (now - began < HELD_UP_NS)
        return;
    for (waste_link *at = used.next; at != &used; at = next) {
        check_waste *one = (check_waste *)(void *)at;
        next = at->next;
        if (handle != NULL && one->handle != handle)
            continue;
        one->last_ns = now;
        link_move(at, &quiet);
    }
}

void check_waste_ended(check_waste *self)
{
    latest_ns = check_now();
    sum_add(&sums[self->place->number], self, latest_ns);
    link_move(&self->link, &spare);
}

check_wasted *check_waste_sums(size_t *count)
{
    waste_link *const lists[] = {&used, &quiet};
    check_wasted *all = malloc((sums_room + 1) * sizeof(*all));
    *count = 0;
    if (all == NULL)
        return NULL;
    if (sums_room > 0)
        memcpy(all, sums, sums_room * sizeof(*all));
    for (size_t i = 0; i < sizeof(lists) / sizeof(lists[0]); i++)
        for (const waste_link *at = lists[i]->next; at != lists[i]; at = at->next) {
            const check_waste *one = (const check_waste *)(const void *)at;
            sum_add(&all[one->place->number], one, latest_ns);
        }
    for (size_t i = 0; i < sums_room; i++)
        if (all[i].blocks > 0)
            all[(*count)++] = all[i];
    return all;
}
