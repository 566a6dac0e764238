/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The crew by itself. Once a job has been waited for, every byte of it is copied: with any number
 * of threads, sizes and alignments, with several jobs under way, written past the caches and not. A
 * thread that waits for some jobs may use their memory while others are under way: under the race
 * detector that is checked, too.
 *
 * Lines changed in the library to see it fail:
 *   slice_take: SLICE_BYTES added instead of `bytes`; `begun` never advanced
 *   slice_do: `done` counted before the copy
 *   job_undone: `first` as `last`
 *   copy_past_caches without the memcpy of the rest
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "away/crew.h"

enum { ROOM = 1300 << 10, GUARD = 64 };

static int rounds = 4;

/* A job: its memory has bytes around it that nobody may touch. */
typedef struct job {
    unsigned char *to, *from;
    size_t bytes, to_at, from_at;
} job;

static uint64_t seed;

static size_t below(size_t most)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (size_t)(seed >> 33) % most;
}

static void job_choose(job *one, unsigned number)
{
    static const size_t steps[] = {1, 16, 64};
    size_t step = steps[below(3)];
    one->bytes = 1 + below(below(2) == 0 ? 4096 : ROOM - 2 * GUARD);
    one->to_at = GUARD + below(64) / step * step;
    one->from_at = GUARD + below(64) / step * step;
    if (one->bytes + 2 * GUARD + 64 > ROOM)
        one->bytes = ROOM - 2 * GUARD - 64;
    memset(one->to, 0xa5, ROOM);
    for (size_t i = 0; i < one->bytes; i++)
        one->from[one->from_at + i] = (unsigned char)(i * 7 + i / 251 + number);
}

static void job_check(const job *one)
{
    assert_memory_equal(one->to + one->to_at, one->from + one->from_at, one->bytes);
    for (size_t i = 0; i < GUARD; i++) {
        assert_int_equal(one->to[one->to_at - 1 - i], 0xa5);
        assert_int_equal(one->to[one->to_at + one->bytes + i], 0xa5);
    }
}

/* Gives jobs and waits for them late, up to as many as may be under way. */
static void jobs_run(long cores, int keeps_cache)
{
    job jobs[TNRI_CREW_JOBS];
    unsigned given = 0, checked = 0;
    for (int i = 0; i < TNRI_CREW_JOBS; i++) {
        jobs[i].to = aligned_alloc(64, ROOM);
        jobs[i].from = aligned_alloc(64, ROOM);
    }
    tnri_crew_cores = cores;
    tnri_crew *crew = cores < 0 ? NULL : tnri_crew_hire((size_t)1 << 30, keeps_cache);
    for (int i = 0; i < rounds * TNRI_CREW_JOBS; i++) {
        unsigned left = (unsigned)below(TNRI_CREW_JOBS);
        job *next = &jobs[given % TNRI_CREW_JOBS];
        job_choose(next, given);
        tnri_crew_give(crew, next->to + next->to_at, next->from + next->from_at, next->bytes);
        given++;
        tnri_crew_wait(crew, left);
        for (; checked + left < given; checked++)
            job_check(&jobs[checked % TNRI_CREW_JOBS]);
    }
    tnri_crew_wait(crew, 0);
    for (; checked < given; checked++)
        job_check(&jobs[checked % TNRI_CREW_JOBS]);
    tnri_crew_dismiss(crew);
    tnri_crew_cores = 0;
    for (int i = 0; i < TNRI_CREW_JOBS; i++) {
        free(jobs[i].to);
        free(jobs[i].from);
    }
}

static void every_byte_is_copied(void **state)
{
    (void)state;
    static const long cores[] = {-1, 1, 2, 4, 16}; /* no crew, no threads, and some */
    for (size_t i = 0; i < sizeof(cores) / sizeof(cores[0]); i++)
        for (int keeps_cache = 0; keeps_cache <= 1; keeps_cache++) {
            seed = i * 2 + (size_t)keeps_cache;
            jobs_run(cores[i], keeps_cache);
        }
}

/* A crew that was hired and given nothing. */
static void idle_crews_end(void **state)
{
    (void)state;
    tnri_crew_cores = 16;
    for (int i = 0; i < 2 * rounds; i++) {
        tnri_crew *crew = tnri_crew_hire((size_t)i << 20, 1);
        assert_non_null(crew);
        tnri_crew_wait(crew, 0);
        tnri_crew_wait(crew, 3);
        tnri_crew_dismiss(crew);
    }
    tnri_crew_cores = 0;
    tnri_crew_dismiss(NULL);
}

/* Argument: rounds. */
int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(every_byte_is_copied),
        cmocka_unit_test(idle_crews_end),
    };
    if (argc > 1)
        rounds = atoi(argv[1]);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
