/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lock of the library, as it is, with the explorer's atomics: see explorer.h. Each step of a
 * report names its line of alloc/base/lock.h or lock.c.
 *
 * The stand-ins for the world outside: the kernel's barrier is the explorer's, no thread is ever
 * gone, no time passes, and threads have small addresses. Each turn under the lock reads and
 * changes plain data.
 */
#undef TNR_CHECK
#define TNR_CHECK 1 /* not the list of held locks, which is the thread's that explores */

#include <stdint.h>
#include <string.h>

#include "base/prim/alive.h"
#include "base/prim/barrier.h"
#include "base/rest.h"
#include "base/ticks.h"

#include "atomics.h"
#include "protocol.h"

#define tnri_alive_self() ((uintptr_t)(explorer_thread() + 1) << 8)
#define tnri_alive_start() ((void)0)
#define tnri_alive_id() ((uint32_t)explorer_thread() + 1)
#define tnri_alive_none_at(address) ((void)(address), 0)
#define tnri_alive_is_gone(address, id) ((void)(address), (void)(id), 0)
#define tnri_barrier_start() 1
#define tnri_barrier_run()                                                                         \
    (explorer_barrier(MODEL_SITE("barrier", "", memory_order_seq_cst)), kernel_serves)
/* The big loop of tnri_lock_wait begins anew with each rest: only how long it rests depends on what
 * was before. That of lock_disown goes on with the owner it knows. */
#define tnri_rest(round) explorer_rest(strcmp(__func__, "tnri_lock_wait") == 0)
#define tnri_ticks() UINT64_C(0)
#define tnri_assert_failed(condition, file, line) explorer_failed(condition, line)

static int kernel_serves; /* 0: it refuses, and the barrier is the slow one */

#include "base/lock.c"

static tnri_lock lock;
static uint64_t data; /* under the lock */

/* A lock that may have owners, and becomes a thread's own with its second turn in a row. */
static void lock_start(int is_ownable)
{
    explorer_atomic(&owners_possible, sizeof(owners_possible));
    *(volatile int *)&owners_possible = is_ownable;
    tnri_lock_init(&lock, TNRI_RANK_ARENA);
    lock.streak_wanted = 1;
    data = 0;
    explorer_atomic(&lock.taken, sizeof(lock.taken));
    explorer_atomic(&lock.owner, sizeof(lock.owner));
    kernel_serves = 1;
    explorer_constant(&kernel_serves, sizeof(kernel_serves));
    explorer_constant(&lock.rank, sizeof(lock.rank));
    explorer_constant(&lock.is_ownable, sizeof(lock.is_ownable));
    explorer_plain(&lock.holder, sizeof(lock.holder));
    explorer_plain(&lock.streak, sizeof(lock.streak));
    explorer_plain(&lock.streak_wanted, sizeof(lock.streak_wanted));
    explorer_plain(&lock.latest, sizeof(lock.owned_ticks));
    explorer_plain(&data, sizeof(data));
    for (int slot = 0; slot < TNRI_LOCK_OWNERS; slot++) {
        explorer_atomic(&lock.inside[slot], sizeof(lock.inside[slot]));
        explorer_plain(&lock.owners[slot], sizeof(lock.owners[slot]));
    }
}

static void start_unownable(void)
{
    lock_start(0);
}

static void start_free(void)
{
    lock_start(1);
}

/* Thread 0 has had one turn: with its next it is the owner. */
static void start_nearly_owned(void)
{
    lock_start(1);
    lock.latest = (uintptr_t)1 << 8;
}

/* Thread 0 is the owner. */
static void start_owned(void)
{
    uintptr_t owner = (uintptr_t)1 << 8;
    lock_start(1);
    lock.owners[0] = owner;
    lock.owner_id = 1;
    lock.owned_ticks = 0;
    *(volatile uintptr_t *)&lock.owner = owner;
}

static void start_refused(void)
{
    start_owned();
    kernel_serves = 0;
}

static void turns(int count)
{
    for (int left = count; left > 0; left--) {
        explorer_settle((uint64_t)left);
        tnri_lock_take(&lock);
        data++;
        tnri_lock_release(&lock);
    }
}

/* A turn if nobody is inside, with a further try from inside, as a driver's callback makes it. */
static void try_once(void)
{
    explorer_settle(1);
    if (!tnri_lock_try(&lock))
        return;
    data++;
    if (tnri_lock_try(&lock))
        explorer_failed("a thread inside got in once more", __LINE__);
    tnri_lock_release(&lock);
}

static void run_1_1(int thread)
{
    (void)thread;
    turns(1);
}

static void run_2_2(int thread)
{
    (void)thread;
    turns(2);
}

static void run_2_1(int thread)
{
    turns(thread == 0 ? 2 : 1);
}

static void run_1_3(int thread)
{
    turns(thread == 0 ? 1 : 3);
}

/* One takes turns, in each of which it tries as well; the other tries. */
static void run_2_try(int thread)
{
    if (thread != 0) {
        try_once();
        return;
    }
    for (int left = 2; left > 0; left--) {
        explorer_settle((uint64_t)left);
        tnri_lock_take(&lock);
        if (tnri_lock_try(&lock))
            explorer_failed("a thread inside got in once more", __LINE__);
        data++;
        tnri_lock_release(&lock);
    }
}

/* One has the lock or owns it, one tries, and one takes the lock away. */
static void run_1_try_1(int thread)
{
    if (thread == 1)
        try_once();
    else
        turns(1);
}

const explorer_program protocol_programs[] = {
    {"without owners", 3, start_unownable, run_1_1, 0},
    {"without owners, two turns each", 2, start_unownable, run_2_2, 0},
    {"a lock is taken away", 2, start_owned, run_2_1, 0},
    {"a lock becomes owned and is taken away", 2, start_nearly_owned, run_2_1, 0},
    {"one owner after the other", 2, start_owned, run_1_3, 0},
    {"the kernel refuses", 2, start_refused, run_1_3, 0},
    {"both may own it", 2, start_free, run_2_2, 0},
    {"one tries, without owners", 2, start_unownable, run_2_try, 0},
    {"one tries, as the other owns it", 2, start_owned, run_2_try, 0},
    {"one tries, as the other becomes the owner", 2, start_nearly_owned, run_2_try, 0},
    {"one tries, and another takes the lock away", 3, start_owned, run_1_try_1, 1},
    {"two take a lock away", 3, start_owned, run_1_1, 1},
    {"a lock becomes owned, and two take it away", 3, start_nearly_owned, run_2_1, 1},
};
const size_t protocol_programs_count = sizeof(protocol_programs) / sizeof(protocol_programs[0]);
