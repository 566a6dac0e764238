/* SPDX-License-Identifier: Apache-2.0 */
/* The features of the linked programs. A new one is an entry here and in linked.c. */
#ifndef TENURE_TESTS_ALL_H
#define TENURE_TESTS_ALL_H

#include "world.h"

extern const feature device_first, device_second;
extern const feature pool_default, pool_own, pool_graph, pool_vouched, pool_shared, pool_foreign,
    pool_rdma, pool_tagged, pool_host;
extern const feature graph_here, graph_elsewhere, graph_adopted, graph_updated;
extern const feature capture_open, capture_beside, capture_left, capture_wrong_end,
    capture_invalidated, capture_destroyed;
extern const feature state_parked, state_asleep, state_published, state_growable, state_ranged,
    state_guarded;
extern const feature stream_ended;
extern const feature thread_ended, thread_cancelled, thread_forked, thread_host, thread_beside;

#endif
