/* SPDX-License-Identifier: Apache-2.0 */
/* Chunks by the size of their blocks: see held.h. */
#include "memory/device/held.h"

void tnri_peak_raise(_Atomic uint64_t *peak, uint64_t value)
{
    uint64_t before = atomic_load_explicit(peak, memory_order_relaxed);
    while (before < value && !atomic_compare_exchange_weak_explicit(
                                 peak, &before, value, memory_order_relaxed, memory_order_relaxed))
        ;
}

void tnri_flow_come(tnri_flow *flow, uint64_t amount)
{
    uint64_t gone = atomic_load_explicit(&flow->gone, memory_order_acquire);
    uint64_t before = atomic_fetch_add_explicit(&flow->came, amount, memory_order_relaxed);
    tnri_peak_raise(&flow->peak, before + amount - gone);
}

/* What has come is known before it is gone. */
void tnri_flow_go(tnri_flow *flow, uint64_t amount)
{
    atomic_fetch_add_explicit(&flow->gone, amount, memory_order_release);
}

uint64_t tnri_flow_now(const tnri_flow *flow)
{
    uint64_t gone = atomic_load_explicit(&flow->gone, memory_order_acquire);
    return atomic_load_explicit(&flow->came, memory_order_relaxed) - gone;
}

void tnri_flow_reset_peak(tnri_flow *flow)
{
    atomic_store_explicit(&flow->peak, tnri_flow_now(flow), memory_order_relaxed);
}

void tnri_held_add(tnri_held *held, uint64_t bytes)
{
    tnri_flow_come(&held->chunks, 1);
    tnri_flow_come(&held->bytes, bytes);
}

void tnri_held_subtract(tnri_held *held, uint64_t bytes)
{
    tnri_flow_go(&held->chunks, 1);
    tnri_flow_go(&held->bytes, bytes);
}

void tnri_held_reset_peaks(tnri_held held[TNRI_HELD_SIZES])
{
    for (int i = 0; i < TNRI_HELD_SIZES; i++) {
        tnri_flow_reset_peak(&held[i].chunks);
        tnri_flow_reset_peak(&held[i].bytes);
    }
}
