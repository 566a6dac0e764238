/* SPDX-License-Identifier: Apache-2.0 */
/* The history's switch, and its public functions: see history.h. */
#include "history/history.h"

#include <pthread.h>
#include <stdio.h>

#include "base/error.h"
#include "history/note.h"
#include "history/places.h"
#include "history/texts.h"
#include "pool/library.h"

enum { RECORDS_MAX = 1 << 30 };

static pthread_mutex_t history_lock = PTHREAD_MUTEX_INITIALIZER;

void tnri_history_lock_take(void)
{
    pthread_mutex_lock(&history_lock);
}

void tnri_history_lock_release(void)
{
    pthread_mutex_unlock(&history_lock);
}

/* ---- the gate ------------------------------------------------------------------------------- */

static const uint64_t gate_modes[] = {0, TNRI_GATE_LIGHT, TNRI_GATE_LIGHT | TNRI_GATE_STACKS};

tnr_history_mode tnri_history_mode(void)
{
    uint64_t gate = tnri_gate();
    if ((gate & TNRI_GATE_STACKS) != 0)
        return TNR_HISTORY_FULL;
    return (gate & TNRI_GATE_LIGHT) != 0 ? TNR_HISTORY_LIGHT : TNR_HISTORY_OFF;
}

/* In the word only while a picture is taken. */
static uint64_t picture_last; /* the lock */

uint64_t tnri_gate_cut_begin(void)
{
    picture_last++;
    tnri_gate_set(0, TNRI_GATE_CUT | picture_last << TNRI_GATE_NUMBER_SHIFT);
    return picture_last;
}

void tnri_gate_cut_end(void)
{
    tnri_gate_set(TNRI_GATE_CUT | ~(uint64_t)0 << TNRI_GATE_NUMBER_SHIFT, 0);
}

/* ---- the switch ----------------------------------------------------------------------------- */

/* Under the lock. */
static tnr_status history_set(tnr_history_mode mode, size_t records)
{
    const tnri_ring *ring = atomic_load(&tnri_ring_current);
    if (mode != TNR_HISTORY_OFF || ring != NULL) {
        if (!tnri_ring_set(records))
            return tnri_error(TNR_ERR_HOST_MEMORY,
                              "no host memory for a history of %zu records of 64 bytes.", records);
    }
    if (tnri_history_mode() == TNR_HISTORY_OFF)
        tnri_ring_interrupt(); /* what happened meanwhile is not there */
    tnri_gate_set(TNRI_GATE_LIGHT | TNRI_GATE_STACKS, gate_modes[mode]);
    return TNR_OK;
}

tnr_status tnri_history_follow(const tnri_conf *before, const tnri_conf *after)
{
    if (before->history == after->history && before->history_records == after->history_records)
        return TNR_OK;
    tnri_ticks_start();
    tnri_history_lock_take();
    tnr_status status =
        history_set((tnr_history_mode)after->history, (size_t)after->history_records);
    tnri_history_lock_release();
    return status;
}

void tnri_history_end(void)
{
    tnri_history_lock_take();
    tnri_gate_set(TNRI_GATE_LIGHT | TNRI_GATE_STACKS, 0);
    tnri_ring_free();
    tnri_origins_free();
    tnri_texts_free();
    tnri_stacks_free();
    tnri_history_lock_release();
}

/* ---- public functions ----------------------------------------------------------------------- */

tnr_status tnr_history_set(size_t records, tnr_history_mode mode)
{
    if ((int)mode < 0 || mode > TNR_HISTORY_FULL)
        return tnri_error(TNR_ERR_INVALID_ARGUMENT,
                          "tnr_history_set: there is no mode %d. Use TNR_HISTORY_OFF, _LIGHT or "
                          "_FULL.",
                          (int)mode);
    if (records > RECORDS_MAX)
        return tnri_error(TNR_ERR_INVALID_ARGUMENT,
                          "tnr_history_set: %zu records are too many; the most is %d.", records,
                          RECORDS_MAX);
    tnr_status status = tnri_library_start();
    if (status != TNR_OK)
        return status;
    static const char *const words[] = {"off", "light", "full"};
    char text[80];
    if (records == 0)
        snprintf(text, sizeof(text), "history:%s", words[mode]);
    else
        snprintf(text, sizeof(text), "history:%s,history_records:%zu", words[mode], records);
    return tnr_configure(text);
}

tnr_status tnr_history_get(tnr_history_info *info)
{
    if (info == NULL || info->struct_bytes != sizeof(*info))
        return tnri_error(TNR_ERR_INVALID_ARGUMENT,
                          "tnr_history_get: set info->struct_bytes to sizeof(tnr_history_info).");
    tnri_history_lock_take();
    tnri_ring_sums sums = tnri_ring_sums_get();
    info->mode = tnri_history_mode();
    info->records_max = sums.capacity;
    info->written = sums.written;
    info->overwritten = sums.overwritten;
    info->missed = sums.missed;
    info->stacks = tnri_stacks_count();
    info->stacks_missed = tnri_stacks_missed();
    tnri_history_lock_release();
    return TNR_OK;
}

tnr_status tnr_mark(const char *text)
{
    tnr_status status = tnri_library_start();
    if (status != TNR_OK)
        return status;
    int no_host = 0;
    uint32_t number = tnri_text_number(text, &no_host);
    if (no_host)
        return tnri_error(TNR_ERR_HOST_MEMORY, "no host memory for one more text of tnr_mark.");
    tnri_thread *thread = tnri_thread_here();
    thread->mark = number;
    thread->mark_epoch = atomic_load_explicit(&tnri_library_epoch, memory_order_relaxed);
    uint32_t began = tnri_note_begin();
    tnri_note_moment(TNRI_NOTED_MARK);
    tnri_note_end(began);
    return TNR_OK;
}
