/* SPDX-License-Identifier: Apache-2.0 */
/* The history's switch: see history.h. */
#include "log/history.h"

#include "base/error.h"
#include "base/prim/thread.h"
#include "log/mappings.h"
#include "log/note.h"
#include "log/origins.h"
#include "log/texts.h"

static tnri_mutex history_lock = TNRI_MUTEX_INIT;

void tnri_history_lock_take(void)
{
    tnri_mutex_lock(&history_lock);
}

void tnri_history_lock_release(void)
{
    tnri_mutex_unlock(&history_lock);
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
    tnri_mappings_follow(0);
    tnri_history_lock_release();
}
