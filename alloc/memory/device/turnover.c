/* SPDX-License-Identifier: Apache-2.0 */
/* Memory that goes back and is taken again: see turnover.h. */
#include "memory/device/turnover.h"

#include "base/conf/conf.h"
#include "base/heuristics.h"
#include "gpu/backend.h"
#include "memory/device/held.h"

static uint64_t get(const _Atomic uint64_t *value)
{
    return atomic_load_explicit(value, memory_order_relaxed);
}

/* Adds to what is known of the rounds before. Where memory goes back in several steps there are
 * empty rounds, which change no quotient. */
static void past_add(_Atomic uint64_t *past, uint64_t amount)
{
    atomic_store_explicit(past, (get(past) + amount) / 2, memory_order_relaxed);
}

/* A round that took far longer for what came in it than those before had a pause in it: a
 * validation, a checkpoint, another process's turn. What comes after that comes as fast as
 * before. So a round counts as at most TNRI_PAUSE_TIMES what the mean of those before gives for
 * its bytes, and a program that has become slower is followed in a few rounds. An empty round
 * counts as no time: that leaves the quotient. Where rounds are long and short in turn, three
 * times and more give their mean. */
static uint64_t round_ns(const tnri_turnover *turnover, uint64_t bytes, uint64_t ns)
{
    double past_ns = (double)get(&turnover->past_ns), past = (double)get(&turnover->past_bytes);
    if (past_ns <= 0 || past <= 0)
        return ns;
    double most = past_ns * TNRI_PAUSE_TIMES * ((double)bytes / past);
    return (double)ns > most ? (uint64_t)most : ns;
}

void tnri_turnover_goes(tnri_turnover *turnover, uint64_t reserved)
{
    uint64_t now_ns = tnri_decision_ns();
    uint64_t began_ns = atomic_exchange_explicit(&turnover->began_ns, now_ns, memory_order_relaxed);
    tnri_peak_raise(&turnover->most_bytes, reserved);
    uint64_t bytes = atomic_exchange_explicit(&turnover->bytes, 0, memory_order_relaxed);
    if (began_ns != 0) /* 0: the first time */
        past_add(&turnover->past_ns, round_ns(turnover, bytes, now_ns - began_ns));
    past_add(&turnover->past_bytes, bytes);
}

void tnri_turnover_comes(tnri_turnover *turnover, uint64_t bytes, uint64_t reserved)
{
    if (reserved <= get(&turnover->most_bytes))
        atomic_fetch_add_explicit(&turnover->bytes, bytes, memory_order_relaxed);
}

/* On the simulated device no time passes, unless a program plays it. */
uint64_t tnri_turnover_chunk_bytes(const tnri_turnover *turnover, uint64_t reserved)
{
    uint64_t past_bytes = get(&turnover->past_bytes);
    if (past_bytes == 0 || reserved > get(&turnover->most_bytes))
        return 0;
    uint64_t chunks = get(&turnover->past_ns) / 100 * tnri_conf_get()->move_percent / TNRI_MOVE_NS;
    return chunks == 0 ? UINT64_MAX : past_bytes / chunks;
}
