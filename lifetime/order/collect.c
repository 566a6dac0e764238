/* SPDX-License-Identifier: Apache-2.0 */
/* Collecting retired blocks: see collect.h and retire.h. */
#include "order/collect.h"

#include "base/conf/conf.h"
#include "base/heuristics.h"
#include "base/prim/clock.h"
#include "memory/pool/cache.h"
#include "memory/pool/pool.h"
#include "order/batch.h"
#include "order/hold.h"
#include "order/pending.h"
#include "order/retire.h"

/* ---- uses that are over --------------------------------------------------------------------- */

enum { TAKEN_AT_ONCE = 8 };

/* Takes the first uses out of a stream's heap that are known to be over, a few at once: who adds
 * one waits for the lock. Returns them linked by `sibling`. */
static tnri_use *stream_take_over(tnri_stream *stream)
{
    tnri_use *taken = NULL;
    tnri_lock_take(&stream->pending_lock);
    for (int i = 0; i < TAKEN_AT_ONCE; i++) {
        tnri_use *use = stream->pending;
        if (use == NULL || !tnri_stream_is_over(stream, use->number))
            break;
        tnri_pending_leave(stream, use);
        use->sibling = taken;
        taken = use;
    }
    tnri_lock_release(&stream->pending_lock);
    return taken;
}

/* Ends what is known to be over on a stream. */
static size_t stream_end_over(tnri_stream *stream)
{
    size_t freed = 0;
    tnri_use *taken;
    while ((taken = stream_take_over(stream)) != NULL) {
        while (taken != NULL) {
            tnri_use *use = taken;
            taken = use->sibling; /* with the block, the use goes */
            freed += tnri_uses_over(use->owner, 1, TNR_REUSE_EVENT_DONE);
        }
    }
    return freed;
}

/* The event and number of a stream's first pending use, or of its latest, with a reference; null if
 * none pends. What came into the heap last is the first child of its root, if it is not the root.
 * (Seldom it is another one, which is as good an answer.) */
static tnri_event *stream_pending_event(tnri_stream *stream, int latest, uint64_t *number)
{
    tnri_event *event = NULL;
    tnri_lock_take(&stream->pending_lock);
    const tnri_use *use = stream->pending;
    if (use != NULL) {
        if (latest && use->child != NULL)
            use = use->child;
        event = use->event;
        *number = use->number;
        tnri_event_hold(event);
    }
    tnri_lock_release(&stream->pending_lock);
    return event;
}

/* Asks about one of them: 1 if it was over, and so all before it. */
static int stream_ask(tnri_stream *stream, int latest)
{
    uint64_t number;
    tnri_event *event = stream_pending_event(stream, latest, &number);
    if (event == NULL)
        return 0;
    int over = tnri_event_is_over(event);
    tnri_event_drop(event);
    if (over)
        tnri_stream_completed(stream, number);
    return over;
}

/* Ends what is over on one stream. An answer that a use is over is the driver's dearest, and each
 * use has an event of its own: so once the first is over, the latest is asked for, which most often
 * speaks for all; only where it is not over, each until one is not. */
static size_t stream_poll(tnri_stream *stream)
{
    size_t freed = 0;
    int asked = 0;
    do {
        freed += stream_end_over(stream);
        asked++;
    } while ((asked == 2 && stream_ask(stream, 1)) || stream_ask(stream, 0));
    return freed;
}

static size_t device_poll(tnri_device *device)
{
    size_t freed = 0;
    for (tnri_stream *stream = NULL; (stream = tnri_stream_walk_pending(device, stream)) != NULL;)
        freed += stream_poll(stream);
    return freed;
}

/* ---- ending a block early ------------------------------------------------------------------- */

/* Begins to look at a block: 0 if it is about to end. Under the lock of its life. */
static int uses_look(tnri_uses *uses)
{
    uint32_t pending = atomic_load(&uses->pending);
    while (pending > 0 && !atomic_compare_exchange_weak(&uses->pending, &pending, pending + 1))
        ;
    return pending > 0;
}

/* The block after `after` in the order of frees, for this thread to look at: it will not end before
 * tnri_uses_over gives up the look. `after` is one that the thread looks at too, or null. */
static tnri_uses *life_look(tnri_life *life, const tnri_uses *after)
{
    tnri_lock_take(&life->lock);
    tnri_uses *uses = after == NULL ? life->oldest : after->newer;
    while (uses != NULL && !uses_look(uses))
        uses = uses->newer;
    tnri_lock_release(&life->lock);
    return uses;
}

/* Takes a block's uses out of the heaps: its stream is ordered after them, or they are over.
 * Returns how many there were. */
static uint32_t uses_withdraw(tnri_uses *uses)
{
    uint32_t withdrawn = 0;
    for (tnri_use *use = uses->first; use != NULL; use = use->next)
        withdrawn += (uint32_t)tnri_pending_withdraw(use->stream, use);
    return withdrawn;
}

/* 1 if the use is over, or the stream (which may be null) is ordered after it. */
static int use_is_before(const tnri_use *use, tnri_stream *own)
{
    return tnri_stream_is_over(use->stream, use->number) ||
           (own != NULL && tnri_stream_is_after(own, use->stream, use->number, 1));
}

/* Makes the stream wait for those of a fenced block's uses that it is not ordered after. */
static tnr_status uses_order(const tnri_uses *uses, tnri_stream *own, int *waited)
{
    tnr_status status = TNR_OK;
    for (const tnri_use *use = uses->first; use != NULL && status == TNR_OK; use = use->next) {
        if (use_is_before(use, own))
            continue;
        status = tnri_stream_follow(own, use->event, use->stream, use->number);
        *waited |= status == TNR_OK;
    }
    return status;
}

/* 1 if the stream is ordered after all of the block's uses, as it is or, with `wait`, once it has
 * been made to wait. `own` may be null: then only what is over counts. *waited tells
 * which. */
static int uses_are_before(const tnri_uses *uses, tnri_stream *own, int wait, int *waited)
{
    if (tnri_uses_are_unfenced(uses))
        return 0;
    if (wait && own != NULL)
        return uses_order(uses, own, waited) == TNR_OK;
    for (const tnri_use *use = uses->first; use != NULL; use = use->next)
        if (!use_is_before(use, own))
            return 0;
    return 1;
}

/* 1 if a stream cannot be made to wait because it, or for the legacy stream any, is captured. */
static int is_captured(tnri_stream *stream)
{
    return tnri_capturing() && (stream->is_legacy || tnri_stream_may_capture(stream));
}

/* The arena's stream, with a reference, if its order counts: it lives, is not captured, and can be
 * named by this thread. The host, whose memory may be used at once, comes after no stream. */
static tnri_stream *arena_own(tnri_arena *arena)
{
    if (tnri_device_is_host(arena->device))
        return NULL;
    tnri_stream *own = tnri_arena_stream(arena);
    if (own == NULL ||
        (!atomic_load(&own->is_dead) && tnri_stream_is_markable(own) && !is_captured(own)))
        return own;
    tnri_stream_drop(own);
    return NULL;
}

/* Ends blocks that the arena's stream is ordered after, making it wait if `wait`, until `bytes` are
 * free. A wait is never asked of a stream that only another thread can name. If another stream
 * adopts the arena meanwhile, it is ordered after this one. */
static size_t arena_order(tnri_arena *arena, tnri_life *life, size_t bytes, int wait)
{
    tnri_stream *own = arena_own(arena);
    size_t freed = 0;
    size_t looks = 0;
    tnri_uses *uses = life_look(life, NULL);
    while (uses != NULL) {
        int waited = 0;
        uint32_t done = 0;
        if (freed < bytes && uses_are_before(uses, own, wait, &waited))
            done = uses_withdraw(uses);
        int goes_on = freed < bytes && (wait || ++looks < TNRI_FOLLOW_LOOKS);
        tnri_uses *next = goes_on ? life_look(life, uses) : NULL;
        freed += tnri_uses_over(uses, done + 1,
                                waited ? TNR_REUSE_WAITED_ON_DEVICE : TNR_REUSE_ORDERED_BY_CLOCK);
        uses = next;
    }
    if (own != NULL)
        tnri_stream_drop(own);
    return freed;
}

/* ---- what the arena itself waits for --------------------------------------------------------- */

enum { OLDEST_AT_ONCE = 64 }; /* blocks that are looked at, and end, at once */

/* 1 if all uses of a block that the thread looks at are over. The driver is asked about those that
 * are not known to be: an answer speaks for all earlier marks of its stream. */
static int uses_ask(const tnri_uses *uses)
{
    if (tnri_uses_are_unfenced(uses))
        return 0;
    for (const tnri_use *use = uses->first; use != NULL; use = use->next) {
        if (tnri_stream_is_over(use->stream, use->number))
            continue;
        if (!tnri_event_is_over(use->event))
            return 0;
        tnri_stream_completed(use->stream, use->number);
    }
    return 1;
}

/* Asks about blocks in the order of their frees. Most often all are over, or none is; else the
 * place where one ends and the other begins is searched by halves. Of blocks that were freed in
 * another order than they were used in, some are not found. */
static void oldest_ask(tnri_uses *const *oldest, size_t count)
{
    if (count == 0)
        return;
    size_t from = 0;
    size_t to = count - 1;
    int is_last_over = uses_ask(oldest[to]); /* what most often says so of the first, too */
    int is_first_over = uses_ask(oldest[from]);
    while (is_first_over != is_last_over && to - from > 1) {
        size_t middle = (from + to) / 2;
        if (uses_ask(oldest[middle]) == is_first_over)
            from = middle;
        else
            to = middle;
    }
}

/* The oldest blocks of a list, for this thread to look at as life_look does. Returns how many. */
static size_t life_look_oldest(tnri_life *life, tnri_uses **oldest)
{
    size_t count = 0;
    tnri_lock_take(&life->lock);
    for (tnri_uses *uses = life->oldest; uses != NULL && count < OLDEST_AT_ONCE; uses = uses->newer)
        if (uses_look(uses))
            oldest[count++] = uses;
    tnri_lock_release(&life->lock);
    return count;
}

/* Ends the oldest of an arena's retired blocks, as far as they are over. No other arena's block is
 * touched, so threads that work on different streams do not meet here: what the driver said of a
 * stream that they share tells the others all the same, once they ask for their own. */
static size_t arena_end_over(tnri_life *life)
{
    tnri_uses *oldest[OLDEST_AT_ONCE];
    size_t freed = 0;
    size_t count = life_look_oldest(life, oldest);
    oldest_ask(oldest, count);
    for (size_t i = 0; i < count; i++) {
        int waited = 0;
        uint32_t done = uses_are_before(oldest[i], NULL, 0, &waited) ? uses_withdraw(oldest[i]) : 0;
        freed += tnri_uses_over(oldest[i], done + 1, TNR_REUSE_EVENT_DONE);
    }
    return freed;
}

/* ---- waiting on the host -------------------------------------------------------------------- */

/* Waits for one block's uses. 0 if the driver would not. */
static int uses_wait(tnri_uses *uses)
{
    for (tnri_use *use = uses->first; use != NULL; use = use->next) {
        if (tnri_stream_is_over(use->stream, use->number))
            continue;
        if (tnri_event_wait(use->event) != TNR_OK)
            return 0;
        tnri_stream_completed(use->stream, use->number);
    }
    return 1;
}

/* 1 if other threads are about to put a block into the list, or to end one that is in it. */
static int life_is_busy(tnri_life *life)
{
    tnri_lock_take(&life->lock);
    int busy = life->oldest != NULL || atomic_load(&life->coming) > 0;
    tnri_lock_release(&life->lock);
    return busy;
}

/* Waits for the oldest blocks until `bytes` are free, or all are. What another thread is about to
 * end, to fence or to put into the list is waited for too. */
static size_t arena_wait(tnri_arena *arena, tnri_life *life, size_t bytes)
{
    size_t freed = 0;
    int can = 1;
    while (freed < bytes && can) {
        int is_others = 0; /* another thread has something to do first */
        tnri_uses *uses = life_look(life, NULL);
        if (uses == NULL) {
            can = is_others = life_is_busy(life);
        } else if (tnri_uses_are_unfenced(uses)) {
            can = tnri_batch_fence(arena->device) == TNR_OK;
            is_others = tnri_uses_are_unfenced(uses);
            freed += tnri_uses_over(uses, 1, TNR_REUSE_EVENT_DONE);
        } else {
            can = uses_wait(uses);
            uint32_t done = can ? uses_withdraw(uses) : 0;
            is_others = done == 0;
            freed += tnri_uses_over(uses, done + 1, TNR_REUSE_EVENT_DONE);
        }
        if (is_others && can)
            tnri_yield();
    }
    return freed;
}

/* ---- ordering a launch ---------------------------------------------------------------------- */

/* Fences a block that tnr_free_sync freed; another thread may be about to. */
static tnr_status uses_be_fenced(tnri_device *device, const tnri_uses *uses)
{
    tnri_visit visit;
    if (!tnri_uses_are_unfenced(uses))
        return TNR_OK;
    tnr_status status = tnri_device_enter(device, &visit); /* the launch may be on another one */
    if (status != TNR_OK)
        return status;
    while (status == TNR_OK && tnri_uses_are_unfenced(uses)) {
        status = tnri_batch_fence(device);
        if (tnri_uses_are_unfenced(uses))
            tnri_yield();
    }
    tnri_device_leave(&visit);
    return status;
}

tnr_status tnri_collect_order_after(tnri_arena *arena, tnri_stream *stream)
{
    tnri_life *life = atomic_load_explicit(&arena->life, memory_order_acquire);
    if (life == NULL)
        return TNR_OK;
    /* First what is held: a block that goes on meanwhile is then found below. */
    tnr_status status = tnri_holds_order_after(arena, stream);
    while (atomic_load(&life->coming) > 0)
        tnri_yield();
    tnri_uses *uses = life_look(life, NULL);
    while (uses != NULL) {
        int waited = 0;
        if (status == TNR_OK)
            status = uses_be_fenced(arena->device, uses);
        if (status == TNR_OK)
            status = uses_order(uses, stream, &waited);
        tnri_uses *next = life_look(life, uses);
        (void)tnri_uses_over(uses, 1, TNR_REUSE_EVENT_DONE); /* ends it if it was over meanwhile */
        uses = next;
    }
    return status;
}

/* ---- the hook ------------------------------------------------------------------------------- */

static size_t retired_bytes(tnri_arena *arena)
{
    size_t retired = 0;
    tnri_arena_enter(arena);
    for (int i = 0; i < TNRI_WORLDS; i++)
        retired += arena->worlds[i].bytes_in[TNRI_RETIRED];
    tnri_arena_leave(arena);
    return retired;
}

/* Looks whether importers are over, if the arena may have a block that they keep. */
static size_t exports_poll(tnri_arena *arena)
{
    if (tnri_likely(atomic_load(&arena->account->importers) == 0))
        return 0;
    size_t before = retired_bytes(arena);
    if (before == 0)
        return 0;
    (void)tnri_upper_settle(TNRI_ROOM_SHARE, arena->device);
    size_t after = retired_bytes(arena);
    return before > after ? before - after : 0;
}

size_t tnri_collect_arena(tnri_arena *arena, size_t bytes, tnri_collect how)
{
    if (how == TNRI_COLLECT_OWN) {
        tnri_life *own = atomic_load_explicit(&arena->life, memory_order_acquire);
        return own == NULL ? 0 : arena_end_over(own);
    }
    tnri_holds_retry();
    size_t freed = exports_poll(arena);
    (void)tnri_batch_fence(arena->device);
    freed += device_poll(arena->device);
    tnri_life *life = atomic_load_explicit(&arena->life, memory_order_acquire);
    if (life == NULL || freed >= bytes)
        return freed;
    int policy = tnri_conf_get()->reuse;
    /* To wait for a block's memory is asked of the stream that wants it. In reclaiming it is asked
     * of any, but not of one that may be drawn into a capture meanwhile. */
    int may_wait = how == TNRI_COLLECT_ORDER || (how == TNRI_COLLECT_WAIT && !tnri_capturing());
    if (policy != TNRI_REUSE_POLL)
        freed += arena_order(arena, life, bytes - freed, may_wait && policy == TNRI_REUSE_WAIT);
    if (how == TNRI_COLLECT_WAIT && freed < bytes)
        freed += arena_wait(arena, life, bytes - freed);
    return freed;
}
