/* SPDX-License-Identifier: Apache-2.0 */
/* What the layer below asks: see register.h and memory/arena/upper.h. */
#include "order/register.h"

#include <string.h>

#include "base/host_memory.h"
#include "order/announced.h"
#include "order/collect.h"
#include "order/free.h"
#include "order/hold.h"
#include "share/exported.h"
#include "share/imported.h"
#include "share/offered.h"

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
    /* Whoever has ended the last block may still be about to give up the lock. */
    tnri_lock_take(&life->lock);
    tnri_assert(life->oldest == NULL);
    tnri_lock_release(&life->lock);
    tnri_host_free(life, sizeof(*life));
}

static tnr_status hook_device_ending(tnri_device *device, int force)
{
    tnri_imported_retry(); /* it may be of an own export */
    tnri_offered_pause();  /* no thread of ours is inside */
    tnr_status status = tnri_exported_end(device, force);
    tnri_offered_resume();
    return status == TNR_OK ? tnri_imported_end(device, force) : status;
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

static int hook_import_at(size_t index, tnri_seen_import *seen)
{
    tnr_import_info info;
    if (!tnri_imported_at(index, &info))
        return 0;
    *seen = (tnri_seen_import){.address = (uintptr_t)info.ptr,
                               .bytes = info.bytes,
                               .device = info.device,
                               .process = info.process,
                               .generation = info.generation,
                               .is_read_only = info.is_read_only};
    memcpy(seen->published, info.published, sizeof(seen->published));
    return 1;
}

/* What was freed where its uses could not be marked goes on before anybody says that it is held. */
static void hook_settle(void)
{
    tnri_exported_settle();
    tnri_holds_retry();
}

const tnri_upper tnri_lifetime_hooks = {
    .free_used = tnri_free_used,
    .collect = tnri_collect_arena,
    .describe = tnri_uses_describe,
    .is_piece = tnri_uses_is_piece,
    .forget = hook_forget,
    .arena_gone = hook_arena_gone,
    .device_ending = hook_device_ending,
    .device_gone = hook_device_gone,
    .settle = hook_settle,
    .import_at = hook_import_at,
};
