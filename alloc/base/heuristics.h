/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every number that was tried and not derived. Numbers that a user may change are settings
 * (base/conf/settings.def); users need not change these.
 *
 * Behind each stands its evidence: the commit of a row of docs/benchmarks/changes.csv, which says
 * what was predicted and measured. A `bound` only keeps work from growing, and decides nothing:
 * half of it and twice of it change no trace. docs/benchmarks/heuristics.csv shows that for each
 * bound, and also has the other numbers whose effect traces of one thread can show
 * (tests/bench/heuristics.py makes the file). tests/layers/check_heuristics.py fails if a number
 * has no evidence.
 */
#ifndef TNRI_BASE_HEURISTICS_H
#define TNRI_BASE_HEURISTICS_H

/* ---- the miss: which way a request goes ------------------------------------------------------ */

enum {
    TNRI_SPANS_PER_REQUEST = 5, /* [bound] tries to get addresses before a request is given up */
    TNRI_TRADE_SAVES = 50,  /* [8b21079] streams trade if that saves this part (1/n) of the pool */
    TNRI_PRICE_ARENAS = 16, /* [8b21079] arenas that are asked what they have in use */
    TNRI_RECLAIMS = 3,      /* [bound] climbs after reclaiming, before the user is asked */
    TNRI_CALLBACKS = 8,     /* [bound] times the user's callback is asked for one request */
};

/* ---- slabs of host memory -------------------------------------------------------------------- */

enum {
    TNRI_SLAB_POOLS = 2, /* [f33cb4a] a slab's square is so many times its pool and a MiB */
    TNRI_SLAB_MORE = 2,  /* [f33cb4a] the part (1/n) by which whole blocks may be more than that */
};

/* ---- windows --------------------------------------------------------------------------------- */

enum {
    TNRI_WINDOW_STRETCHES = 512, /* [bound] stretches looked at for one request */
    TNRI_WINDOW_RECORDS = 64,    /* [bound] records of one; what lies above is not considered */
    TNRI_DONOR_RUNS = 32, /* [fd17caf] runs that are put in order at once by what they keep */
};

/* ---- windows that are made again ------------------------------------------------------------- */

enum {
    TNRI_CACHED_WINDOWS_MAX = 16384, /* [8eb4045] windows that a world remembers */
    TNRI_CACHED_WINDOW_LOOKS = 1024, /* [8eb4045] of them that are tried for a request */
    TNRI_RECORDS_NEAR = 64,          /* [44d84ed] neighbours over which its record is sought */
    TNRI_TROUGH_SHARE = 32,          /* [8eb4045] this part (1/n) of the peak is near the least */
    TNRI_TROUGH_FINE = 16,           /* [3d7137d] part (1/n) of that, where chunks cannot go home */
    TNRI_TROUGH_FIRST = 128,         /* [c56e6d7] allocations in which the least is looked for: */
    TNRI_TROUGH_BLOCKS = 65536,      /* [8eb4045] from the first window, doubled, to the last */
};

/* ---- lending --------------------------------------------------------------------------------- */

enum {
    TNRI_LEND_LOOKS = 64,        /* [bound] runs of one world that are looked at */
    TNRI_LEND_ALONG = 4,         /* [bb4bfb4] the rest of a run goes along up to so many times it */
    TNRI_GIVE_BACK_AT_ONCE = 32, /* [bound] holes for which the arenas are walked once */
};

/* ---- the moving budget ----------------------------------------------------------------------- */

enum {
    TNRI_MOVE_NS = 34000,   /* [f6950b7] least charge of a chunk: map, access, unmap on an H200 */
    TNRI_LOAN_NS = 3000,    /* [f6950b7] least charge of a loan: an event, and a wait for it */
    TNRI_PRICE_TIMES = 200, /* [f68a254] a pool that holds twice what it needs may spend so many
                             * times more */
    TNRI_PAUSE_TIMES = 4,   /* [26a0b87] a round of so many times the mean had a pause in it */
};

/* ---- index, bins, worlds --------------------------------------------------------------------- */

enum {
    TNRI_INDEX_SUB_BITS = 7,        /* [d7c229a] 128 classes to a doubling */
    TNRI_INDEX_LOOKS = 16,          /* [bound] runs looked at in one class */
    TNRI_INDEX_ALIGNED_LOOKS = 512, /* [bound] runs looked at for an alignment, in all classes */
    TNRI_BIN_MISSES = 8,            /* [d7c229a] in a row: the large world's bin is not used */
    TNRI_RETURNS_AT_ONCE = 32,      /* [91428bf] returned blocks that an allocation takes back */
    TNRI_PLACED_BYTES = 16 << 20,   /* [0d673f1] from so many on, a block's place is chosen */
    TNRI_SPENT_LOOKS = 64,          /* [bound] free runs looked at before a world stays as it is */
};

/* ---- lanes ----------------------------------------------------------------------------------- */

enum {
    TNRI_LANE_WAITS_FIRST = 256,    /* [78752e1] shortest rests within TNRI_LANE_WINDOW_TICKS that
                                     * a thread moves on for: four waits, some ten microseconds; */
    TNRI_LANE_WAITS_NEXT = 128,     /* [78752e1] where the stream has lanes: threads do meet; */
    TNRI_LANE_WAITS_LAST = 1 << 20, /* [ba7cc9b] twice as many each time there was nowhere to go */
    TNRI_LANE_ROUNDS = 6,           /* [78752e1] what one wait counts for at most: a holder that
                                     * the scheduler stopped is not what lanes are against */
    TNRI_LANES_DEFAULT = 16,        /* [ba7cc9b] most lanes of a stream if lanes_max is 0 */
    TNRI_LANE_WAITS_BORROWING = 1024, /* [78752e1] rests at other lanes' locks, and blocks of
                                       * theirs, before the lane asks for memory of its own */
    TNRI_LANE_FORCED_BORROWING = 16,  /* [78752e1] what a borrowed block counts for if forced */
    TNRI_LANE_OWN_PART = 1024, /* [641cab5] of the pool (1/n): what a lane may ask the driver for */
    TNRI_LANE_WINDOW_TICKS = 1 << 25, /* [78752e1] some milliseconds, in any clock of ticks */
};

/* ---- locks and waiting ----------------------------------------------------------------------- */

enum {
    TNRI_STREAK_FIRST = 128,    /* [4b20db6] turns in a row that make a thread the owner of a lock:
                                  * taking one away costs as much as some hundred turns save; */
    TNRI_STREAK_LAST = 1 << 20, /* [4b20db6] at most, doubled each time one was taken away */
    TNRI_OWNED_LONG_TICKS = 1 << 18, /* [918a6ef] a tenth of a millisecond or some: an owner for so
                                      * long has saved more than taking the lock away costs */
    TNRI_REST_DOUBLED = 6,           /* [966c7eb] rests each twice as long as the one before, */
    TNRI_REST_SPINS = 30,     /* [966c7eb] then as long as the last: some tens of microseconds; */
    TNRI_REST_YIELDS = 100,   /* [d7c229a] then the holder was preempted: let it run; */
    TNRI_REST_NAP_NS = 50000, /* [d7c229a] then it is starved: get out of its way */
};

/* ---- streams and retired blocks -------------------------------------------------------------- */

enum {
    TNRI_STREAM_REAP_AT_ONCE = 64, /* [bound] exited threads that one mark seals */
    TNRI_STREAM_REAP_LOOKS = 16,   /* [bound] threads asked about when one is met, and at a miss:
                                    * those that exited never outnumber the living by much */
    TNRI_STREAM_SETTLE_LOOKS = 4,  /* [bound] ended streams asked about when one is met */
    TNRI_FOLLOW_LOOKS = 64,        /* [bound] retired blocks that a collection holds against the
                                    * clock, oldest first */
};

#endif
