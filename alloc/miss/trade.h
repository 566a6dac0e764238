/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whether the streams of a pool trade, which is to take free memory of each other before the pool
 * grows.
 *
 * Trading saves memory if streams need their most at different times. It has a price: each turn
 * costs an event and a wait, or driver calls. And streams that run side by side take other blocks
 * in each pass of a program, so a program that repeats itself never settles. If all streams need
 * their most at once, trading saves nothing: then each stream keeps what it has, and grows.
 *
 *   needs   the sum over the pool's arenas of the most that each had in use
 *   most    the most that all arenas had in use together
 *
 * Streams trade if needs are more than 1/TNRI_TRADE_SAVES above the most. So to keep costs that
 * share of the pool, and what each stream's own free runs are too small for.
 *
 * In use is what is live or retired, and the request that is being served (price.h). Both numbers
 * are looked at when a request misses. The most may be found too late or too low, and then streams
 * trade.
 */
#ifndef TNRI_MISS_TRADE_H
#define TNRI_MISS_TRADE_H

#include "miss/price.h"

/* 1 if a request that has missed may take memory of other streams. Says so to the account
 * (`trade_saves_nothing`), too. No lock is held. */
int tnri_trade_pays(const tnri_arena *arena, const tnri_use *use);

#endif
