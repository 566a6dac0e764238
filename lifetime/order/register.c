/* SPDX-License-Identifier: Apache-2.0 */
/* What the layer below asks: see register.h and memory/arena/upper.h. */
#include "order/register.h"

#include "base/host_memory.h"
#include "order/announced.h"
#include "order/collect.h"
#include "order/free.h"
#include "order/hold.h"

static void hook_forget(tnri_arena *arena, tnri_block *block)
{
    tnri_assert_held(&arena->lock);
    tnri_uses *uses = block->uses;
    block->uses = NULL;
    tnri_uses_free(uses, 1);
}

static void hook_arena_gone(tnri_arena *arena)
{
    tnri_life *life = atomic_exchange(&arena->life, NULL);
    if (life == NULL)
        return;
    /* The thread that ended the last block may still be about to give up the lock. */
    tnri_lock_take(&life->lock);
    tnri_assert(life->oldest == NULL);
    tnri_lock_release(&life->lock);
    tnri_host_free(life, sizeof(*life));
}

static void hook_device_gone(tnri_device *device)
{
    tnri_holds_forget(device);
    tnri_announcements_forget(device);
    tnri_use_records_trim();
}

static tnr_status free_sync(tnri_block *block, void *ptr)
{
    tnri_lifetime_register();
    return tnri_free_sync(block, ptr, 0);
}

__attribute__((constructor)) static void free_sync_offer(void)
{
    tnri_upper_free_sync = free_sync;
}

const tnri_upper tnri_lifetime_hooks = {
    .free_used = tnri_free_used,
    .collect = tnri_collect_arena,
    .describe = tnri_uses_describe,
    .is_piece = tnri_uses_is_piece,
    .forget = hook_forget,
    .arena_gone = hook_arena_gone,
    .device_gone = hook_device_gone,
    .retry = tnri_holds_retry,
};
