/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Locks, and what they ask about threads, when the kernel refuses: everything from the start,
 * something later (a sandbox that puts a filter on a running process), or any one call at any use.
 * No two threads may be inside a lock at once, and all must go on.
 *
 * The filters are the kernel's own (seccomp), in children. For single uses the functions of the C
 * library are this program's: see refused().
 *
 * With an assertion instead of the slow barrier, as it once was, the tests of a barrier that is
 * refused later and the_library_goes_on ended in aborts. With nothing instead of it, the first
 * two failed in two runs of three (two processors) and time_passes_without_naps in each; without
 * the visits, or without the way back, a_slow_barrier_visits_all_processors. With owners after a
 * refusal: the first two again. Where tnri_barrier_start only registered:
 * a_barrier_that_is_refused_gives_no_owners. Where tnri_alive_none_at took any failure for
 * "gone", or tnri_alive_is_gone did not ask for the id: who_cannot_be_told_is_taken_to_live.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "unit.h"

#include <dlfcn.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

#include "base/prim/alive.h"
#include "base/prim/barrier.h"
#include "base/lock.h"

/* ---- calls of the library that fail here ---------------------------------------------------- */

static _Atomic int calls_made;                            /* of those below */
static _Atomic int refused_first = -1, refused_last = -1; /* which of them fail; -1: none */
static _Atomic int refused_error;
static cpu_set_t visited; /* processors that a thread was sent to */

/* 1 if this use of a call is to fail. */
static int refused(void)
{
    int number = atomic_fetch_add(&calls_made, 1);
    if (number < atomic_load(&refused_first) || number > atomic_load(&refused_last))
        return 0;
    errno = atomic_load(&refused_error);
    return 1;
}

static void refuse(int first, int last, int error)
{
    atomic_store(&calls_made, 0);
    atomic_store(&refused_first, first);
    atomic_store(&refused_last, last);
    atomic_store(&refused_error, error);
}

/* The C library's own function of that name. */
#define ORIGINAL(name) ((__typeof__(&(name)))(uintptr_t)dlsym(RTLD_NEXT, #name))

/* Callers pass fewer arguments than these functions hand on. The registers and the stack beyond
 * hold whatever was there, and the kernel does not look at it. AddressSanitizer must not either. */
#define HANDS_ON __attribute__((no_sanitize("address")))

HANDS_ON long syscall(long number, ...)
{
    va_list arguments;
    long of[6];
    if (refused())
        return -1;
    va_start(arguments, number);
    for (int i = 0; i < 6; i++)
        of[i] = va_arg(arguments, long);
    va_end(arguments);
    long result = ORIGINAL(syscall)(number, of[0], of[1], of[2], of[3], of[4], of[5]);
    if (number == SYS_sched_setaffinity && result == 0)
        CPU_SET((unsigned)sched_getcpu(), &visited);
    return result;
}

static int is_word_told; /* 1: the kernel says that the thread's word is there: */
static const void *word_told;

HANDS_ON int prctl(int option, ...)
{
    va_list arguments;
    unsigned long of[4];
    if (refused())
        return -1;
    va_start(arguments, option);
    if (option == PR_GET_TID_ADDRESS && is_word_told) {
        const void **told = va_arg(arguments, const void **);
        *told = word_told;
        va_end(arguments);
        return 0;
    }
    for (int i = 0; i < 4; i++)
        of[i] = va_arg(arguments, unsigned long);
    va_end(arguments);
    return ORIGINAL(prctl)(option, of[0], of[1], of[2], of[3]);
}

ssize_t process_vm_readv(pid_t process, const struct iovec *to, unsigned long to_count,
                         const struct iovec *from, unsigned long from_count, unsigned long flags)
{
    return refused() ? -1
                     : ORIGINAL(process_vm_readv)(process, to, to_count, from, from_count, flags);
}

int sched_yield(void)
{
    return refused() ? -1 : ORIGINAL(sched_yield)();
}

int nanosleep(const struct timespec *time, struct timespec *left)
{
    return refused() ? -1 : ORIGINAL(nanosleep)(time, left);
}

/* From now on the kernel refuses these system calls to all threads. 0 if it has no filters. */
static int filter_set(const int *numbers, int count)
{
    struct sock_filter filter[16];
    int length = 0;
    filter[length++] = (struct sock_filter)BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
                                                    (unsigned)offsetof(struct seccomp_data, nr));
    for (int i = 0; i < count; i++) {
        filter[length++] =
            (struct sock_filter)BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, (unsigned)numbers[i], 0, 1);
        filter[length++] =
            (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | (unsigned)EPERM);
    }
    filter[length++] = (struct sock_filter)BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW);
    struct sock_fprog program = {(unsigned short)length, filter};
    return prctl(PR_SET_NO_NEW_PRIVS, 1UL, 0UL, 0UL, 0UL) == 0 &&
           syscall(SYS_seccomp, (long)SECCOMP_SET_MODE_FILTER, (long)SECCOMP_FILTER_FLAG_TSYNC,
                   &program, 0L, 0L, 0L) == 0;
}

/* How children end. */
enum { ENDED_WELL = 0, ENDED_WRONG = 2, ENDED_WITHOUT_FILTER = 3, ENDED_WITHOUT_OWNERS = 4 };

static void child_filters(const int *numbers, int count)
{
    if (!filter_set(numbers, count))
        _exit(ENDED_WITHOUT_FILTER);
}

static void child_expect(int is_right)
{
    if (!is_right)
        _exit(ENDED_WRONG);
}

static void in_child(void (*body)(void *), void *data)
{
    int ended = unit_in_child(body, data, 0);
    if (ended == ENDED_WITHOUT_FILTER || ended == ENDED_WITHOUT_OWNERS)
        skip();
    assert_int_equal(ended, ENDED_WELL);
}

/* ---- locks that lose the barrier ------------------------------------------------------------ */

enum { LOCKS = 200, COLD_BYTES = 1 << 25, COLD_STORES = 12, STAY = 300 };

/* A lock that a thread owns until another comes, once. */
typedef struct shared {
    tnri_lock lock;
    uint64_t by_owner, by_visitor, by_both; /* turns; the lock */
    _Atomic int is_visited;
} shared;

static shared shares[LOCKS];
static _Atomic int owner_is_at; /* its number among the shares */

static void turn(shared *share, uint64_t *mine, int stay)
{
    tnri_lock_take(&share->lock);
    uint8_t holder = share->lock.holder;
    ++*mine;
    ++share->by_both;
    for (volatile int i = stay; i > 0; i--)
        continue;
    child_expect(share->lock.holder == holder &&
                 share->by_both == share->by_owner + share->by_visitor);
    tnri_lock_release(&share->lock);
}

/* Stores that keep back those after them. */
static void stores_to_memory(uint64_t *random)
{
    static unsigned char far[COLD_BYTES];
    for (int i = 0; i < COLD_STORES; i++) {
        *random = *random * UINT64_C(6364136223846793005) + 1;
        __atomic_store_n(&far[(*random >> 20) % COLD_BYTES], 1, __ATOMIC_RELAXED);
    }
}

/* Makes all locks its own, then is at one after the other until each has been visited. */
static void *owner_stays(void *user)
{
    uint64_t random = 1;
    (void)user;
    for (int i = 0; i < LOCKS; i++)
        while (atomic_load(&shares[i].lock.owner) == 0)
            turn(&shares[i], &shares[i].by_owner, 0);
    for (int i = 0; i < LOCKS; i++) {
        while (!atomic_load(&shares[i].is_visited)) {
            stores_to_memory(&random);
            turn(&shares[i], &shares[i].by_owner, 0);
            atomic_store_explicit(&owner_is_at, i + 1, memory_order_relaxed);
        }
        for (int more = 0; more < 1000; more++)
            turn(&shares[i], &shares[i].by_owner, 0);
        child_expect(atomic_load(&shares[i].lock.owner) == 0);
    }
    return NULL;
}

/* All locks are owned by one thread when the filter comes, and taken away from it after. */
static void refused_later(void *data)
{
    const int *numbers = data;
    pthread_t owner;
    int count = 0;
    tnri_lock_owners_start();
    for (int i = 0; i < LOCKS; i++) {
        tnri_lock_init(&shares[i].lock, TNRI_RANK_ARENA);
        if (!shares[i].lock.is_ownable)
            _exit(ENDED_WITHOUT_OWNERS);
        shares[i].lock.streak_wanted = 1;
    }
    while (numbers[count] >= 0)
        count++;
    assert_int_equal(pthread_create(&owner, NULL, owner_stays, NULL), 0);
    for (int i = 0; i < LOCKS; i++) {
        while (atomic_load(&owner_is_at) <= i)
            sched_yield();
        if (i == 0)
            child_filters(numbers, count);
        turn(&shares[i], &shares[i].by_visitor, STAY);
        atomic_store(&shares[i].is_visited, 1);
    }
    assert_int_equal(pthread_join(owner, NULL), 0);
    _exit(ENDED_WELL);
}

static void a_barrier_that_is_refused_later_has_a_substitute(void **state)
{
    (void)state;
    int barrier[] = {SYS_membarrier, -1};
    in_child(refused_later, barrier);
}

/* Then nothing is left but time. */
static void so_has_one_without_visits(void **state)
{
    (void)state;
    int all[] = {SYS_membarrier, SYS_sched_setaffinity, SYS_sched_getaffinity, -1};
    in_child(refused_later, all);
}

/* On each processor that there is, and back where it was, errno with it. */
static void visit_all(void *data)
{
    static const int barrier[] = {SYS_membarrier};
    cpu_set_t all, one, after;
    (void)data;
    child_expect(tnri_barrier_start());
    child_filters(barrier, 1);
    child_expect(sched_getaffinity(0, sizeof(all), &all) == 0);
    for (int processor = 0; processor < CPU_SETSIZE; processor++) {
        CPU_ZERO(&one);
        CPU_SET(processor, &one);
        if (!CPU_ISSET(processor, &all) || sched_setaffinity(0, sizeof(one), &one) != 0)
            continue;
        CPU_ZERO(&visited);
        errno = EDOM;
        child_expect(tnri_barrier_run() == 0 && errno == EDOM);
        CPU_AND(&visited, &visited, &all);
        child_expect(CPU_EQUAL(&visited, &all));
        child_expect(sched_getaffinity(0, sizeof(after), &after) == 0);
        child_expect(CPU_EQUAL(&after, &one));
    }
}

static void a_slow_barrier_visits_all_processors(void **state)
{
    (void)state;
    in_child(visit_all, NULL);
}

/* ---- from the start ------------------------------------------------------------------------- */

/* What a process that shares a stream among threads sees of it: nothing. */
enum { LIBRARY_THREADS = 3, LIBRARY_ROUNDS = 3000 };

static void *library_use(void *user)
{
    const _Atomic int *filtered = user;
    for (int i = 0; i < LIBRARY_ROUNDS || !atomic_load(filtered); i++) {
        void *block = NULL;
        child_expect(tnr_malloc(&block, 512, 0, NULL) == TNR_OK);
        child_expect(tnr_free(block) == TNR_OK);
    }
    return NULL;
}

static void library_goes_on(void *data)
{
    static const int barrier[] = {SYS_membarrier};
    const int *from_the_start = data;
    pthread_t threads[LIBRARY_THREADS];
    _Atomic int filtered = 0;
    if (*from_the_start)
        child_filters(barrier, 1);
    unit_start(NULL, NULL);
    for (int i = 0; i < LIBRARY_THREADS; i++)
        child_expect(pthread_create(&threads[i], NULL, library_use, &filtered) == 0);
    if (!*from_the_start)
        child_filters(barrier, 1);
    atomic_store(&filtered, 1);
    for (int i = 0; i < LIBRARY_THREADS; i++)
        child_expect(pthread_join(threads[i], NULL) == 0);
    child_expect(tnr_validate(-1) == TNR_OK);
    child_expect(unit_stop(NULL) == 0);
}

static void the_library_goes_on(void **state)
{
    (void)state;
    for (int from_the_start = 0; from_the_start < 2; from_the_start++)
        in_child(library_goes_on, &from_the_start);
}

static void refused_from_the_start(void *data)
{
    static const int barrier[] = {SYS_membarrier};
    static tnri_lock lock;
    (void)data;
    child_filters(barrier, 1);
    child_expect(tnri_barrier_start() == 0);
    tnri_lock_owners_start();
    tnri_lock_init(&lock, TNRI_RANK_ARENA);
    child_expect(!lock.is_ownable);
}

static void a_barrier_that_is_refused_gives_no_owners(void **state)
{
    (void)state;
    in_child(refused_from_the_start, NULL);
}

/* ---- any one call at any use ---------------------------------------------------------------- */

enum { COMERS = TNRI_LOCK_OWNERS + 3, COMER_TURNS = 40, USES_TRIED = 60, USES_MAX = 1 << 30 };

static tnri_lock busy;
static uint64_t busy_turns; /* the lock `busy` */

/* A thread that stays, or goes at once. */
typedef struct comer {
    pthread_t thread;
    _Atomic int is_done, may_go;
} comer;

static void busy_turn(void)
{
    tnri_lock_take(&busy);
    busy_turns++;
    busy.streak_wanted = 4; /* so that there are always owners */
    tnri_lock_release(&busy);
}

static void *comer_run(void *user)
{
    comer *self = user;
    for (int i = 0; i < COMER_TURNS; i++)
        busy_turn();
    atomic_store(&self->is_done, 1);
    while (!atomic_load(&self->may_go))
        ORIGINAL(sched_yield)();
    return NULL;
}

static void comer_start(comer *one)
{
    child_expect(pthread_create(&one->thread, NULL, comer_run, one) == 0);
    while (!atomic_load(&one->is_done))
        ORIGINAL(sched_yield)();
}

static void comer_end(comer *one)
{
    atomic_store(&one->may_go, 1);
    child_expect(pthread_join(one->thread, NULL) == 0);
}

/* A lock in its life: owners that stay until there is no place any more, owners that go, a wait
 * for one that is long inside. `data`, if not null, is told how many calls that took. */
static void life_of_a_lock(void *data)
{
    static comer comers[COMERS];
    static comer late;
    tnri_lock_owners_start();
    tnri_lock_init(&busy, TNRI_RANK_ARENA);
    for (int i = 0; i < COMERS; i++)
        comer_start(&comers[i]);
    for (int i = 0; i < COMERS; i++) {
        comer_end(&comers[i]);
        for (int j = 0; j < COMER_TURNS; j++)
            busy_turn();
    }
    tnri_lock_take(&busy);
    child_expect(pthread_create(&late.thread, NULL, comer_run, &late) == 0);
    for (int i = 0; i < 20; i++)
        ORIGINAL(sched_yield)();
    tnri_lock_release(&busy);
    comer_end(&late);
    child_expect(busy_turns == (2 * COMERS + 1) * COMER_TURNS);
    if (data != NULL)
        *(int *)data = atomic_load(&calls_made);
}

static void any_call_may_fail(void **state)
{
    static const int errors[] = {EPERM, ENOSYS, EINVAL, ENOMEM};
    (void)state;
    int *uses =
        mmap(NULL, sizeof(*uses), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    assert_ptr_not_equal(uses, MAP_FAILED);
    refuse(-1, -1, 0);
    assert_int_equal(unit_in_child(life_of_a_lock, uses, 0), ENDED_WELL);
    print_message("%d calls\n", *uses);
    /* A wait takes as many calls as it takes: what comes after so many is more of them. */
    for (int first = 0; first < *uses && first < USES_TRIED; first++)
        for (int for_ever = 0; for_ever < 2; for_ever++) {
            refuse(first, for_ever ? USES_MAX : first, errors[first % 4]);
            int ended = unit_in_child(life_of_a_lock, NULL, 0);
            if (ended != ENDED_WELL)
                fail_msg("call %d refused with %d%s: the child ended with %d", first,
                         errors[first % 4], for_ever ? ", and all after it" : "", ended);
        }
    refuse(-1, -1, 0);
    munmap(uses, sizeof(*uses));
}

/* Who says "gone" of a thread that lives lets two threads have one place. */
static void who_cannot_be_told_is_taken_to_live(void **state)
{
    static const int errors[] = {EPERM, ENOSYS, EINVAL, ENOMEM};
    (void)state;
    if (!unit_knows_the_gone())
        skip();
    tnri_alive_start();
    uintptr_t self = tnri_alive_self();
    uint32_t id = tnri_alive_id();
    assert_int_equal(tnri_alive_none_at(self), 0);
    assert_int_equal(tnri_alive_is_gone(self, id), 0);
    for (size_t i = 0; i < sizeof(errors) / sizeof(errors[0]); i++) {
        for (int first = 0; first < 3; first++) {
            refuse(first, USES_MAX, errors[i]);
            errno = EDOM;
            assert_int_equal(tnri_alive_none_at(self), 0);
            assert_int_equal(errno, EDOM);
            refuse(first, USES_MAX, errors[i]);
            assert_int_equal(tnri_alive_is_gone(self, id), 0);
            assert_int_equal(errno, EDOM);
        }
    }
    refuse(-1, -1, 0);
    assert_int_equal(tnri_alive_is_gone(self, id + 1), 1); /* another thread had the address */
}

/* A kernel that does not say where its word is: only ids tell, and no place is free. */
static void unknown_words(void *data)
{
    (void)data;
    refuse(0, 0, EINVAL);
    tnri_alive_start();
    refuse(-1, -1, 0);
    uint32_t id = tnri_alive_id();
    child_expect(tnri_alive_none_at(16) == 0);
    child_expect(tnri_alive_is_gone(16, id) == 0);
    child_expect(tnri_alive_is_gone(16, 0) == 1);
    child_expect(tnri_alive_is_gone(16, UINT32_MAX) == 1);
    child_expect(tnri_alive_is_gone(16, INT32_MAX) == 1);
}

static void ids_tell_where_words_do_not(void **state)
{
    (void)state;
    in_child(unknown_words, NULL);
}

/* Naps and yields that end at once are no reason to go on too early, nor for ever. */
static void time_passes_without_naps(void **state)
{
    struct timespec before, after;
    (void)state;
    refuse(0, 1 << 30, EPERM);
    clock_gettime(CLOCK_MONOTONIC, &before);
    assert_int_equal(tnri_barrier_run(), 0);
    clock_gettime(CLOCK_MONOTONIC, &after);
    refuse(-1, -1, 0);
    int64_t ns =
        (after.tv_sec - before.tv_sec) * INT64_C(1000000000) + after.tv_nsec - before.tv_nsec;
    assert_true(ns >= 2000000);
}

/* A kernel that says something odd, whose word may be anything: as if it had said nothing. */
static void odd_words(void *data)
{
    (void)data;
    static uint32_t far;
    static _Thread_local uint32_t near; /* beside the C library's record of the thread */
    const void *const odd[] = {NULL, &far, (const char *)tnri_alive_self() - (1 << 20),
                               (const char *)tnri_alive_self() + (1 << 20), &near};
    far = tnri_alive_id();
    near = tnri_alive_id() + 1;
    is_word_told = 1;
    for (size_t i = 0; i < sizeof(odd) / sizeof(odd[0]); i++) {
        word_told = odd[i];
        tnri_alive_start();
        child_expect(tnri_alive_none_at(16) == 0); /* there is no memory, but who could tell? */
    }
    is_word_told = 0;
    tnri_alive_start();
    child_expect(tnri_alive_none_at(16) == 1);
}

static void odd_words_are_not_believed(void **state)
{
    (void)state;
    if (!unit_knows_the_gone())
        skip();
    in_child(odd_words, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        /* Before the kernel's word is known to this process. */
        cmocka_unit_test(ids_tell_where_words_do_not),
        cmocka_unit_test(odd_words_are_not_believed),
        cmocka_unit_test(a_barrier_that_is_refused_gives_no_owners),
        cmocka_unit_test(a_barrier_that_is_refused_later_has_a_substitute),
        cmocka_unit_test(so_has_one_without_visits),
        cmocka_unit_test(a_slow_barrier_visits_all_processors),
        cmocka_unit_test(the_library_goes_on),
        cmocka_unit_test(who_cannot_be_told_is_taken_to_live),
        cmocka_unit_test(time_passes_without_naps),
        cmocka_unit_test(any_call_may_fail),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
