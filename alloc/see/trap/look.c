/* SPDX-License-Identifier: Apache-2.0 */
/* Looking at device memory without waiting: see look.h. */
#include "see/trap/look.h"

#include <string.h>

#include "base/host_memory.h"
#include "memory/device/device.h"
#include "memory/stream/mark.h"
#include "see/trap/work.h"

enum { ASKED_AT_ONCE = 4 };

typedef enum look_state { FREE, TAKEN, WAITING } look_state;

typedef struct look {
    look_state state; /* the lock */
    uint64_t number;  /* in the order of the looks; the lock */
    /* Of the thread that has it TAKEN. */
    tnri_event *event;
    tnri_looked what;
} look;

/* A device's. */
typedef struct looks {
    unsigned char *pinned; /* TNRI_LOOKS_MAX slots */
    look slots[TNRI_LOOKS_MAX];
    unsigned waiting;
    uint64_t last; /* number */
} looks;

static struct {
    tnri_lock lock; /* protects the states, and which devices have looks */
    looks *of[TNRI_DEVICE_NUMBERS];
    int is_refused[TNRI_DEVICE_NUMBERS]; /* 1: the driver has no pinned memory for it */
} all = {.lock = {.rank = TNRI_RANK_TRAPS}};

static _Atomic uint64_t made, missed, findings;

tnri_looks_sums tnri_looks_sums_get(void)
{
    return (tnri_looks_sums){atomic_load(&made), atomic_load(&missed), atomic_load(&findings)};
}

/* ---- slots ---------------------------------------------------------------------------------- */

/* Makes looks for the device of the context; null if there is no memory for them, or the driver
 * could not take it back. */
static looks *looks_make(void)
{
    void *pinned = NULL;
    looks *fresh = tnri_host_alloc(sizeof(*fresh));
    if (fresh == NULL)
        return NULL;
    CUresult result = CUDA_ERROR_NOT_SUPPORTED;
    if (tnri_gpu_has(TNRI_GPU_HOST_FREE))
        result = tnri_gpu_host_alloc(&pinned, (size_t)TNRI_LOOKS_MAX * TNRI_LOOK_BYTES);
    if (result != CUDA_SUCCESS) {
        tnri_host_free(fresh, sizeof(*fresh));
        return NULL;
    }
    fresh->pinned = pinned;
    return fresh;
}

/* The device's looks, made when they are first wanted; null: there are none. */
static looks *looks_of(tnri_device *device)
{
    tnri_lock_take(&all.lock);
    looks *found = all.of[device->index];
    int is_refused = all.is_refused[device->index];
    tnri_lock_release(&all.lock);
    if (found != NULL || is_refused)
        return found;
    looks *fresh = looks_make();
    tnri_lock_take(&all.lock);
    found = all.of[device->index];
    if (found == NULL && fresh != NULL) {
        found = all.of[device->index] = fresh;
        fresh = NULL;
    } else if (found == NULL) {
        all.is_refused[device->index] = 1;
    }
    tnri_lock_release(&all.lock);
    if (fresh != NULL) {
        (void)tnri_gpu_host_free(fresh->pinned);
        tnri_host_free(fresh, sizeof(*fresh));
    }
    return found;
}

static unsigned char *slot_bytes(const looks *self, const look *one)
{
    return self->pinned + (size_t)(one - self->slots) * TNRI_LOOK_BYTES;
}

static look *slot_take(looks *self)
{
    look *found = NULL;
    tnri_lock_take(&all.lock);
    for (size_t i = 0; i < TNRI_LOOKS_MAX && found == NULL; i++)
        if (self->slots[i].state == FREE)
            found = &self->slots[i];
    if (found != NULL)
        found->state = TAKEN;
    tnri_lock_release(&all.lock);
    return found;
}

static void slot_set(looks *self, look *one, look_state state)
{
    tnri_lock_take(&all.lock);
    one->state = state;
    if (state == WAITING) {
        self->waiting++;
        if (one->number == 0)
            one->number = ++self->last;
    } else {
        one->number = 0;
    }
    tnri_lock_release(&all.lock);
}

/* Takes the oldest that waits and is younger than `after`; null: none. */
static look *waiting_take(looks *self, uint64_t after)
{
    look *oldest = NULL;
    tnri_lock_take(&all.lock);
    if (self->waiting > 0)
        for (size_t i = 0; i < TNRI_LOOKS_MAX; i++) {
            look *one = &self->slots[i];
            if (one->state == WAITING && one->number > after &&
                (oldest == NULL || one->number < oldest->number))
                oldest = one;
        }
    if (oldest != NULL) {
        oldest->state = TAKEN;
        self->waiting--;
    }
    tnri_lock_release(&all.lock);
    return oldest;
}

/* ---- judging -------------------------------------------------------------------------------- */

/* The copy is over: compares, tells what is wrong, and frees the slot. */
static void look_judge(looks *self, look *one)
{
    const unsigned char *found = slot_bytes(self, one);
    tnri_looked what = one->what;
    tnri_finding finding = {.is_poison = what.is_poison,
                            .story = what.story,
                            .address = what.address,
                            .bytes = what.bytes,
                            .expected = what.expected};
    size_t last = 0;
    for (size_t i = 0; i < what.bytes; i++)
        if (found[i] != what.expected) {
            if (finding.wrong++ == 0)
                finding.first = i;
            last = i;
        }
    if (finding.wrong > 0) {
        finding.found_count = last - finding.first + 1;
        if (finding.found_count > sizeof(finding.found))
            finding.found_count = sizeof(finding.found);
        memcpy(finding.found, found + finding.first, finding.found_count);
    }
    tnri_event_drop(one->event);
    slot_set(self, one, FREE);
    if (finding.wrong == 0 || (what.is_still != NULL && !what.is_still(&what)))
        return;
    atomic_fetch_add(&findings, 1);
    tnri_finding_tell(&finding);
}

static looks *looks_there(const tnri_device *device)
{
    tnri_lock_take(&all.lock);
    looks *self = all.of[device->index];
    tnri_lock_release(&all.lock);
    return self;
}

void tnri_looks_poll(tnri_device *device)
{
    looks *self = looks_there(device);
    uint64_t after = 0;
    for (int i = 0; self != NULL && i < ASKED_AT_ONCE; i++) {
        look *one = waiting_take(self, after);
        if (one == NULL)
            return;
        after = one->number;
        if (tnri_event_is_over(one->event))
            look_judge(self, one);
        else
            slot_set(self, one, WAITING);
    }
}

void tnri_looks_settle(tnri_device *device, uint64_t until_ns)
{
    looks *self = looks_there(device);
    look *one;
    while (self != NULL && (one = waiting_take(self, 0)) != NULL) {
        if (tnri_event_wait_until(one->event, until_ns)) {
            look_judge(self, one);
        } else { /* the copy may still write there: the slot stays taken until the device ends */
            atomic_fetch_add(&missed, 1);
            tnri_event_drop(one->event);
        }
    }
}

void tnri_looks_miss(uint64_t count)
{
    atomic_fetch_add(&missed, count);
}

void tnri_looks_end(tnri_device *device)
{
    tnri_lock_take(&all.lock);
    looks *self = all.of[device->index];
    all.of[device->index] = NULL;
    all.is_refused[device->index] = 0;
    tnri_lock_release(&all.lock);
    if (self == NULL)
        return;
    (void)tnri_gpu_host_free(self->pinned);
    tnri_host_free(self, sizeof(*self));
}

/* ---- looking -------------------------------------------------------------------------------- */

void tnri_look(tnri_stream *stream, const tnri_looked *looked)
{
    tnri_device *device = stream->device;
    looks *self = looks_of(device);
    look *one = self == NULL ? NULL : slot_take(self);
    uint64_t number;
    tnri_assert(looked->bytes <= TNRI_LOOK_BYTES);
    if (one == NULL) {
        atomic_fetch_add(&missed, 1);
        return;
    }
    one->what = *looked;
    one->event = NULL;
    int is_made = tnri_work_copy(stream, slot_bytes(self, one), looked);
    if (is_made && tnri_stream_mark(stream, &one->event, &number) != TNR_OK) {
        /* The copy may still write there: the slot stays taken until the context is idle. */
        is_made = tnri_event_context(device, &one->event) == TNR_OK;
        if (!is_made) {
            atomic_fetch_add(&missed, 1);
            return;
        }
    }
    atomic_fetch_add(is_made ? &made : &missed, 1);
    slot_set(self, one, is_made ? WAITING : FREE);
}
