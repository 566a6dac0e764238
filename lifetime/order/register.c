/* SPDX-License-Identifier: Apache-2.0 */
/* What the layer below asks: see register.h and memory/device/upper.h. */
#include "order/register.h"

#include "base/host_memory.h"
#include "order/announced.h"
#include "order/collect.h"
#include "order/free.h"
#include "order/hold.h"
#include "memory/pool/pool.h"

static void order_forget(tnri_arena *arena, tnri_block *block)
{
    tnri_assert_held(&arena->lock);
    tnri_uses *uses = block->uses;
    block->uses = NULL;
    tnri_uses_free(uses, 1);
}

static void arena_end(tnri_arena *arena)
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

static tnr_status order_pool_end(tnr_pool pool, int is_gone)
{
    for (tnri_arena *arena = NULL; is_gone && (arena = tnri_arena_walk(pool, arena)) != NULL;)
        arena_end(arena);
    return TNR_OK;
}

static tnr_status order_device(tnri_device *device, tnri_device_step step)
{
    if (step != TNRI_DEVICE_ENDS_USES)
        return TNR_OK;
    tnri_holds_forget(device);
    tnri_announcements_forget(device);
    tnri_use_records_trim();
    return TNR_OK;
}

static size_t order_settle(tnri_device *device, int is_short)
{
    (void)device;
    (void)is_short;
    tnri_holds_retry();
    return 0;
}

/* What the setting auto_record:all asks for may be the first call of this room. */
static tnr_status free_first(tnri_arena *arena, tnri_block *block, void *ptr, int is_sync)
{
    tnri_lifetime_register();
    return tnri_free_ordered(arena, block, ptr, is_sync);
}

__attribute__((constructor)) static void free_offer(void)
{
    static const tnri_upper first = {.free = free_first};
    if (!tnri_upper_collects()) /* a constructor of the program's may have come before */
        tnri_upper_register(TNRI_ROOM_ORDER, &first);
}

const tnri_upper tnri_order_upper = {
    .device = order_device,
    .pool_end = order_pool_end,
    .settle = order_settle,
    .free = tnri_free_ordered,
    .collect = tnri_collect_arena,
    .forget = order_forget,
    .describe = tnri_uses_describe,
};
