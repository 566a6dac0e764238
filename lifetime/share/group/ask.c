/* SPDX-License-Identifier: Apache-2.0 */
/* See ask.h. */
#include "share/group/ask.h"

#include "base/conf/conf.h"
#include "base/error.h"
#include "base/prim/thread.h"
#include "memory/device/chunk.h"
#include "memory/device/host.h"
#include "miss/reclaim.h"

/* How often it is looked who has died meanwhile, how often the driver is asked what it has, and how
 * long the memory of somebody who has died may stay away. */
enum { LOOK_NS = 10000000, POLL_NS = 1000000, QUIET_NS = 100000000 };

/* Whom a call waits for: the ring that must be answered. */
typedef struct pending {
    uint32_t ring[TNRI_SEATS_MAX];
    uint8_t is_awaited[TNRI_SEATS_MAX];
} pending;

static tnri_seat *seat_at(const tnri_member *self, int seat)
{
    return &self->at.board->seats[seat];
}

/* ---- asking --------------------------------------------------------------------------------- */

/* 1 if each other has looked at all that it was asked. */
static int all_have_answered(const tnri_member *self)
{
    for (int i = 0; i < TNRI_SEATS_MAX; i++) {
        const tnri_seat *seat = seat_at(self, i);
        if (i != self->at.own && atomic_load(&seat->process) != 0 &&
            atomic_load(&seat->answered) != atomic_load(&seat->rings))
            return 0;
    }
    return 1;
}

/* What all others have looked at, and could not give, does not stay wanted; nor does what came
 * beyond a former ask, since chunks are whole, count for the next one. */
static void waive(tnri_member *self)
{
    tnri_seat *own = tnri_seat_own(&self->at);
    uint64_t given = atomic_load(&own->given_bytes);
    int64_t open = (int64_t)(atomic_load(&own->asked_bytes) - given);
    if (open != 0 && (open < 0 || all_have_answered(self)) &&
        atomic_compare_exchange_strong(&own->given_bytes, &given, given + (uint64_t)open))
        atomic_fetch_add(&self->waived, (uint64_t)open);
}

/* What this process is giving to others just now is on its way, and may be what is short here: that
 * is waited for, too. */
static void await_self(const tnri_member *self, pending *whom)
{
    const tnri_seat *own = tnri_seat_own(&self->at);
    whom->ring[self->at.own] = atomic_load(&own->rings);
    whom->is_awaited[self->at.own] = atomic_load(&own->answered) != whom->ring[self->at.own];
}

/* Asks all others that may have something to give. With `whom`, who waits for their answers: it is
 * filled. */
static void ask(tnri_member *self, uint64_t bytes, pending *whom)
{
    waive(self);
    atomic_fetch_add(&tnri_seat_own(&self->at)->asked_bytes, bytes);
    if (whom != NULL)
        await_self(self, whom);
    for (int i = 0; i < TNRI_SEATS_MAX && bytes > 0; i++) {
        tnri_seat *seat = seat_at(self, i);
        if (i == self->at.own || atomic_load(&seat->process) == 0 ||
            atomic_load(&seat->reserved_bytes) <= atomic_load(&seat->floor_bytes))
            continue;
        tnri_word_ring(&seat->rings);
        if (whom == NULL)
            continue;
        whom->ring[i] = atomic_load(&seat->rings);
        whom->is_awaited[i] = !atomic_load(&seat->is_silent);
        tnri_word_ring(&seat->urgent);
    }
}

void tnri_ask_floor(tnri_member *self)
{
    uint64_t floor = atomic_load(&tnri_seat_own(&self->at)->floor_bytes);
    if (floor > 0)
        ask(self, floor, NULL);
}

/* ---- waiting -------------------------------------------------------------------------------- */

/* 1 if somebody who lives has not answered yet. */
static int is_awaiting(const tnri_member *self, pending *whom)
{
    for (int i = 0; i < TNRI_SEATS_MAX; i++) {
        if (!whom->is_awaited[i])
            continue;
        if ((int32_t)(atomic_load(&seat_at(self, i)->answered) - whom->ring[i]) < 0 &&
            (i == self->at.own || tnri_seat_lives(&self->at, i)))
            return 1;
        whom->is_awaited[i] = 0;
    }
    return 0;
}

/* Those who have not answered in time are not waited for again before they have. */
static void silence(const tnri_member *self, const pending *whom)
{
    for (int i = 0; i < TNRI_SEATS_MAX; i++) {
        tnri_seat *seat = seat_at(self, i);
        if (!whom->is_awaited[i] || i == self->at.own)
            continue;
        atomic_store(&seat->is_silent, 1);
        if ((int32_t)(atomic_load(&seat->answered) - whom->ring[i]) >= 0)
            atomic_store(&seat->is_silent, 0); /* just now, and it did not see that */
    }
}

/* Waits for answers until enough was given, or the time is over. */
static void answers_wait(tnri_member *self, pending *whom, uint64_t enough, uint64_t until_ns)
{
    const tnri_seat *own = tnri_seat_own(&self->at);
    for (;;) {
        uint32_t answers = atomic_load(&self->at.board->answers);
        if ((int64_t)(atomic_load(&own->given_bytes) - enough) >= 0 || !is_awaiting(self, whom))
            return;
        uint64_t now = tnri_clock_ns();
        if (now >= until_ns) {
            silence(self, whom);
            return;
        }
        tnri_word_wait(&self->at.board->answers, answers,
                       until_ns - now < LOOK_NS ? until_ns - now : LOOK_NS);
    }
}

/* Waits until the driver has so much, the time is over, or nothing has come for a while. */
static void driver_wait(size_t bytes, uint64_t until_ns)
{
    size_t left = 0, before = 0, total;
    uint64_t now = tnri_clock_ns(), moved_ns = now;
    for (; now < until_ns && now - moved_ns < QUIET_NS; now = tnri_clock_ns()) {
        if (tnri_gpu_memory_left(&left, &total) != CUDA_SUCCESS || left >= bytes)
            return;
        if (left > before)
            moved_ns = now;
        before = left;
        _Atomic uint32_t nobody = 0;
        tnri_word_wait(&nobody, 0, POLL_NS);
    }
}

/* Clears the seats of those who have ended. Their memory may be on its way back yet: then waits for
 * it. Returns what they had. */
static uint64_t dead_wait(const tnri_member *self, size_t bytes, uint64_t until_ns)
{
    uint64_t had = 0;
    for (int i = 0; i < TNRI_SEATS_MAX; i++)
        had += tnri_seat_clear_dead(&self->at, i);
    if (had > 0)
        driver_wait(bytes, until_ns);
    return had;
}

/* All that members have given to each other. */
static uint64_t gave_all(const tnri_member *self)
{
    uint64_t sum = 0;
    for (int i = 0; i < TNRI_SEATS_MAX; i++)
        sum += atomic_load(&seat_at(self, i)->gave_bytes);
    return sum;
}

/* This process is short itself, and no other gives any more. 1: something is free that was not. */
static int own_yield(tnri_member *self, size_t bytes)
{
    size_t held;
    if (bytes == 0 || !tnri_member_yield(self))
        return 0;
    (void)tnri_reclaim_for_others(self->device, bytes, 0, 1, &held);
    return 1;
}

/* What was on its way to one asker may be free by now for another, and who gives may die before it
 * has said so: the first call always says that there may be more, and later ones if anybody has
 * given anything since, or has ended. When no other gives any more, this process's own published
 * blocks yield, one in each call. */
int tnri_ask_wait(tnri_device *device, size_t bytes, tnri_asking *asking)
{
    tnri_member *self = tnri_member_on(device);
    tnri_seat *own = tnri_seat_own(&self->at);
    pending whom = {.ring = {0}};
    uint64_t now = tnri_clock_ns();
    int is_first = asking->began_ns == 0;
    if (is_first)
        asking->began_ns = now;
    uint64_t until_ns = asking->began_ns + tnri_conf_get()->group_wait_ms * 1000000;
    if (now > until_ns)
        return own_yield(self, bytes);
    atomic_fetch_add(&self->asks, is_first && bytes > 0);
    atomic_fetch_add(&own->short_count, 1);
    ask(self, bytes, &whom);
    int gives = whom.is_awaited[self->at.own];
    answers_wait(self, &whom, atomic_load(&own->given_bytes) + bytes, until_ns);
    atomic_fetch_sub(&own->short_count, 1);
    uint64_t had = dead_wait(self, bytes, until_ns);
    uint64_t gave = gave_all(self);
    int is_new =
        is_first || gives || had > 0 || gave != asking->gave_bytes || own_yield(self, bytes);
    asking->gave_bytes = gave;
    return is_new;
}

/* ---- growing -------------------------------------------------------------------------------- */

/* What the others have and want. */
typedef struct others {
    uint64_t lack;     /* up to their floors */
    uint64_t coming;   /* what they, and other threads of this one, are about to take */
    uint64_t reserved; /* of all members with this one; only where there is a limit */
    uint64_t limit;    /* the least that a member names; UINT64_MAX: none does */
} others;

/* The least limit that is written at a seat, whether its owner lives or not. */
static uint64_t limit_least(const tnri_member *self)
{
    uint64_t least = UINT64_MAX;
    for (int i = 0; i < TNRI_SEATS_MAX; i++) {
        const tnri_seat *seat = seat_at(self, i);
        uint64_t limit = atomic_load(&seat->limit_bytes);
        if (atomic_load(&seat->process) != 0 && limit < least)
            least = limit;
    }
    return least;
}

static void others_add(others *sum, const tnri_seat *seat)
{
    uint64_t floor = atomic_load(&seat->floor_bytes);
    uint64_t has = atomic_load(&seat->reserved_bytes);
    uint64_t limit = atomic_load(&seat->limit_bytes);
    sum->lack += floor > has ? floor - has : 0;
    sum->coming += atomic_load(&seat->coming_bytes);
    sum->reserved += has;
    if (limit < sum->limit)
        sum->limit = limit;
}

/* Whether a member lives is asked only where its answer counts. */
static others others_look(const tnri_member *self, size_t bytes)
{
    const tnri_seat *own = tnri_seat_own(&self->at);
    others sum = {.coming = atomic_load(&own->coming_bytes) - bytes,
                  .reserved = atomic_load(&own->reserved_bytes),
                  .limit = atomic_load(&own->limit_bytes)};
    int has_limit = limit_least(self) != UINT64_MAX;
    for (int i = 0; i < TNRI_SEATS_MAX; i++) {
        const tnri_seat *seat = seat_at(self, i);
        int counts = has_limit || atomic_load(&seat->coming_bytes) != 0 ||
                     atomic_load(&seat->floor_bytes) > atomic_load(&seat->reserved_bytes);
        if (counts && tnri_seat_lives(&self->at, i))
            others_add(&sum, seat);
    }
    return sum;
}

/* The limit of all, of which `lack` is kept for others' floors. */
static tnr_status limit_check(const tnri_device *device, const others *sum, size_t bytes,
                              uint64_t lack)
{
    uint64_t used = sum->reserved + sum->coming;
    uint64_t left = sum->limit > used ? sum->limit - used : 0;
    if (left >= bytes && left - bytes >= lack)
        return TNR_OK;
    tnri_chunk_lacks = TNR_OOM_GROUP;
    return tnri_error(TNR_ERR_OUT_OF_MEMORY,
                      "all members of group \"%s\" may have %llu bytes reserved on device %d and "
                      "have %llu, with %llu kept for floors; %zu more were needed. Raise "
                      "group_limit_mb.",
                      tnri_conf_get()->group, (unsigned long long)sum->limit, device->index,
                      (unsigned long long)used, (unsigned long long)lack, bytes);
}

/* Leaves the others what the driver has for their floors. */
static tnr_status floors_check(const tnri_device *device, const others *sum, size_t bytes)
{
    size_t left = 0, total;
    if (sum->lack == 0 || tnri_device_left(device, &left, &total) != CUDA_SUCCESS ||
        (left >= sum->lack && left - sum->lack >= sum->coming &&
         left - sum->lack - sum->coming >= bytes))
        return TNR_OK;
    tnri_chunk_lacks = TNR_OOM_GROUP;
    return tnri_error(TNR_ERR_OUT_OF_MEMORY,
                      "device %d has %zu bytes left, of which group \"%s\" keeps %llu for the "
                      "floors of other processes; %zu more were needed. Lower their "
                      "group_floor_mb.",
                      device->index, left, tnri_conf_get()->group, (unsigned long long)sum->lack,
                      bytes);
}

tnr_status tnri_ask_take(tnri_device *device, size_t bytes)
{
    tnri_member *self = tnri_member_on(device);
    tnri_seat *own = tnri_seat_own(&self->at);
    atomic_fetch_add(&own->coming_bytes, bytes); /* before the look: see member.h */
    int is_within = atomic_load(&own->reserved_bytes) + bytes <= atomic_load(&own->floor_bytes);
    if (is_within && limit_least(self) == UINT64_MAX)
        return TNR_OK;
    others sum = others_look(self, bytes);
    tnr_status status = limit_check(device, &sum, bytes, is_within ? 0 : sum.lack);
    if (status == TNR_OK && !is_within)
        status = floors_check(device, &sum, bytes);
    if (status != TNR_OK)
        atomic_fetch_sub(&own->coming_bytes, bytes);
    return status;
}

void tnri_ask_took(tnri_device *device, size_t asked, int64_t change)
{
    tnri_member *self = tnri_member_on(device);
    tnri_seat *own = tnri_seat_own(&self->at);
    atomic_fetch_add(&own->reserved_bytes, (uint64_t)change);
    atomic_fetch_sub(&own->coming_bytes, asked);
    if (change > 0)
        ask(self, (uint64_t)change, NULL);
}
