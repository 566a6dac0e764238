/* SPDX-License-Identifier: Apache-2.0 */
/*
 * auto_record:seen in a program all of whose memory is of one stream, as most of PyTorch's have it.
 *
 * Such memory is handed out again in the order of that stream, so work of the stream itself needs
 * no record. Its launches and copies are not read, and its blocks are not followed. Work of any
 * other stream is read as ever: Tenure is asked about each address then.
 *
 * This ends for ever as soon as another stream may have memory: with the first block in the order
 * of a second stream, or in an order that is not known; with the first capture, and the first graph
 * that is instantiated; and with the stream itself, whose handle may be another's then. All blocks
 * that live at that moment are the stream's, and are followed from then on. No thread can use
 * memory of another stream before: whoever allocates it ends this before the allocation returns.
 *
 * Memory of cuMemAlloc has no order, and is followed. cuMemFree waits for all work. Only where it
 * is freed in the order of another stream must the sole one's use be recorded.
 */
#include "check/sole.h"

#include <tenure/history.h>

#include "check/record.h"
#include "check/rules.h"

_Atomic(const void *) check_sole_key;

static check_name sole; /* under the lock of check_enter; set once */
static _Atomic uint64_t launches;

/* A stream that each thread has its own of is none. */
static int may_become(const check_name *name)
{
    return !check_does(CHECK_REPORTS | CHECK_WASTE) && !name->is_capturing &&
           name->stream != CU_STREAM_PER_THREAD;
}

int check_sole_takes_more(const check_name *name)
{
    if (check_sole_is(name))
        return 1;
    if (atomic_load(&check_sole_key) == NULL && may_become(name) && check_enter()) {
        if (atomic_load(&check_sole_key) == NULL) { /* still */
            const void *none = NULL;
            sole = *name;
            (void)atomic_compare_exchange_strong(&check_sole_key, &none, name->key);
        }
        check_leave();
    }
    if (check_sole_is(name))
        return 1;
    check_sole_ends();
    return 0;
}

static void stretch_follow(const tnr_stretch *stretch, void *user)
{
    const check_work *work = user;
    for (size_t i = 0; i < stretch->blocks_count; i++) {
        const tnr_walked_block *walked = &stretch->blocks[i];
        if (walked->state != TNR_WALKED_LIVE || check_block_live(walked->base) != NULL)
            continue;
        check_block *block = check_block_make(walked->base, walked->bytes_requested);
        if (block == NULL)
            continue; /* Tenure is asked about it each time */
        block->own = work->touch.stream;
        block->made = work->touch;
    }
}

/* The stream may have used it so far. */
static void unordered_record(const check_block *block, void *user)
{
    (void)user;
    if (block->own == 0)
        check_record(block->base, sole.stream);
}

void check_sole_ends(void)
{
    check_work work;
    if (atomic_load_explicit(&check_sole_key, memory_order_relaxed) == CHECK_SOLE_NONE)
        return;
    const void *was = atomic_exchange(&check_sole_key, CHECK_SOLE_NONE);
    if (was == NULL || was == CHECK_SOLE_NONE || !check_enter())
        return;
    check_blocks_each(unordered_record, NULL);
    /* Without memory for the picture Tenure is asked about each use. */
    if (check_work_begin(&work, &sole, NULL)) {
        tnr_status status = tnr_memory_walk(NULL, sole.device, stretch_follow, &work);
        (void)status;
    }
    check_leave();
}

void check_sole_stream_ends(CUstream stream)
{
    if (check_sole_is_there() && atomic_load(&check_sole_key) == (const void *)stream)
        check_sole_ends();
}

void check_sole_device_ends(int device)
{
    if (check_sole_is_there() && sole.device == device)
        atomic_store(&check_sole_key, CHECK_SOLE_NONE);
}

void check_sole_record(CUdeviceptr address)
{
    if (check_sole_is_there())
        check_record(address, sole.stream);
}

void check_sole_count(void)
{
    atomic_fetch_add_explicit(&launches, 1, memory_order_relaxed);
}

uint64_t check_sole_launches(void)
{
    return atomic_load(&launches);
}
