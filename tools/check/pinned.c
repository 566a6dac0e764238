/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An experiment: pinned memory is protected against the processor while a copy uses it, until the
 * host has seen the copy end. The device does not mind. If the program touches such memory before
 * that, its signal is a finding, with the stacks of the copy and of the touch. The protection of
 * that copy ends, and the program goes on.
 *
 * A copy to the host may not be read or written, one from the host may not be written. What counts
 * is the order that the program has made, as everywhere in the checker: a touch is an error even if
 * the copy happens to be over.
 *
 * Protection goes by pages. Where the first or last page of a copy has other bytes, too, and those
 * are touched, the page is opened, and the copy is watched no more there.
 *
 * The signal's handler takes the lock here, which nobody holds while touching what is protected. It
 * notes a touch; the next call that leaves the checker makes a finding of it. The simulated device
 * copies with the processor. It says when it begins and ends, and protection is lifted meanwhile.
 */
#include "check/pinned.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include "check/findings.h"
#include "check/race.h"
#include "check/rules.h"
#include "check/visible.h"
#include "driver.h"
#include "service.h"

enum { PENDING_MAX = 4096, TOUCHES_MAX = 256 };

/* A copy. */
typedef struct pending {
    check_touch copy;
    uintptr_t base, end;   /* the bytes */
    uintptr_t first, last; /* the pages that are protected, to behind the last; equal: none are */
    int is_written;        /* the copy writes them */
} pending;

/* The host's, on a copy. */
typedef struct touch {
    check_touch copy;
    check_stack stack;
    uintptr_t address, base, end;
    pid_t thread;
    int is_write;
} touch;

int check_is_host_watched;

static pthread_mutex_t lock =
    PTHREAD_MUTEX_INITIALIZER; /* for all below; no other is taken in it */
static pending *copies;        /* PENDING_MAX; null: not watched */
static size_t copies_count;
static touch touches[TOUCHES_MAX];
static size_t touches_count;
static unsigned lifted; /* how many copies of the simulated device are being made */
static uintptr_t page;
static int refused;             /* what errno said of the last pages that could not be protected */
static struct sigaction before; /* the program's own */

/* ---- protection ----------------------------------------------------------------------------- */

static void protect(uintptr_t first, uintptr_t last, int protection)
{
    if (first < last && mprotect((void *)first, last - first, protection) != 0)
        refused = errno;
}

static void copy_protect(const pending *one)
{
    if (lifted == 0)
        protect(one->first, one->last, one->is_written ? PROT_NONE : PROT_READ);
}

/* Opens pages, but for those that other copies protect. Those that may be read come first, since
 * what may not be read wins. */
static void pages_open(uintptr_t first, uintptr_t last)
{
    protect(first, last, PROT_READ | PROT_WRITE);
    for (int is_written = 0; is_written <= 1; is_written++)
        for (size_t i = 0; i < copies_count; i++)
            if (copies[i].is_written == is_written && copies[i].first < last &&
                first < copies[i].last)
                copy_protect(&copies[i]);
}

static void copy_end(size_t at)
{
    pending gone = copies[at];
    copies[at] = copies[--copies_count];
    pages_open(gone.first, gone.last);
}

/* ---- the signal ----------------------------------------------------------------------------- */

/* 0: it reads; 1: it writes, or nothing says which. */
static int is_writing(const void *context)
{
#if defined(__x86_64__)
    enum { WRITES = 2 };
    return (((const ucontext_t *)context)->uc_mcontext.gregs[REG_ERR] & WRITES) != 0;
#else
    (void)context;
    return 1;
#endif
}

static void touch_note(const pending *one, uintptr_t address, int is_write)
{
    check_stack room;
    if (touches_count == TOUCHES_MAX)
        return;
    atomic_store(&check_races_wait, 1);
    touches[touches_count++] = (touch){.copy = one->copy,
                                       .stack = check_stack_copy(check_stack_whole(&room)),
                                       .address = address,
                                       .base = one->base,
                                       .end = one->end,
                                       .thread = check_thread(),
                                       .is_write = is_write};
}

/* The page has bytes beside the copy's, and one of those was touched. */
static void page_leave(pending *one, uintptr_t at)
{
    if (at == one->first)
        one->first += page;
    else if (at + page == one->last)
        one->last -= page;
}

/* 1 if the address is, or was, in what is protected here: then it can be touched now. */
static int touched(uintptr_t address, int is_write)
{
    uintptr_t at = address & ~(page - 1);
    int is_ours = 0;
    for (size_t i = copies_count; i-- > 0;) {
        pending *one = &copies[i];
        if (at < one->first || at >= one->last)
            continue;
        is_ours = 1;
        if (address < one->base || address >= one->end) {
            page_leave(one, at);
        } else if (one->is_written || is_write) {
            touch_note(one, address, is_write);
            copy_end(i);
        }
    }
    if (is_ours)
        pages_open(at, at + page);
    return is_ours;
}

/* Two threads may touch one page at once: the second finds it open. So what was touched lately is
 * tried again, but not endlessly. */
static int may_be_open(uintptr_t address)
{
    enum { TRIES = 64 };
    static uintptr_t last;
    static int tries;
    tries = last == address ? tries + 1 : 0;
    last = address;
    return tries < TRIES && check_is_visible(address);
}

static void on_signal(int number, siginfo_t *info, void *context)
{
    uintptr_t address = (uintptr_t)info->si_addr;
    if (number == SIGSEGV && info->si_code == SEGV_ACCERR && copies != NULL) {
        pthread_mutex_lock(&lock);
        int is_ours = touched(address, is_writing(context)) || may_be_open(address);
        pthread_mutex_unlock(&lock);
        if (is_ours)
            return;
    }
    if ((before.sa_flags & SA_SIGINFO) != 0)
        before.sa_sigaction(number, info, context);
    else if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN)
        before.sa_handler(number);
    else
        (void)signal(number, SIG_DFL); /* and it comes again */
}

/* Programs set handlers of their own: then theirs comes after this one. */
static int signal_take(void)
{
    struct sigaction now;
    struct sigaction own = {.sa_sigaction = on_signal, .sa_flags = SA_SIGINFO | SA_ONSTACK};
    if (sigaction(SIGSEGV, NULL, &now) != 0)
        return 0;
    if ((now.sa_flags & SA_SIGINFO) != 0 && now.sa_sigaction == on_signal)
        return 1;
    before = now;
    (void)sigemptyset(&own.sa_mask);
    return sigaction(SIGSEGV, &own, NULL) == 0;
}

/* ---- copies --------------------------------------------------------------------------------- */

/* What a host sees at once it may poll: so a copy of a word is not watched. */
enum { WORD = 8 };

static int is_refusal_said; /* under the lock of check_enter */

void check_pinned_copied(const check_touch *copy, check_span at, int is_written)
{
    uintptr_t base = (uintptr_t)at.address;
    if (copies == NULL || at.bytes <= WORD || at.has_gaps || !check_is_pinned(base) ||
        !signal_take())
        return;
    pending one = {.copy = *copy,
                   .base = base,
                   .end = base + at.bytes,
                   .first = base & ~(page - 1),
                   .last = (base + at.bytes + page - 1) & ~(page - 1),
                   .is_written = is_written};
    pthread_mutex_lock(&lock);
    if (copies_count < PENDING_MAX) {
        copies[copies_count++] = one;
        atomic_store(&check_races_wait, 1);
        pages_open(one.first, one.last);
    } else {
        refused = ENOMEM;
    }
    int error = refused;
    pthread_mutex_unlock(&lock);
    if (error != 0 && !is_refusal_said) {
        is_refusal_said = 1;
        service_say("check: pinned memory cannot be protected (0x%llx: %s), so not all that the "
                    "host touches there is found",
                    (unsigned long long)at.address, strerror(error));
    }
}

void check_pinned_gone(const void *memory)
{
    uintptr_t base, end;
    if (copies == NULL || !check_enter())
        return;
    int is_there = check_visible_range((uintptr_t)memory, &base, &end);
    check_leave();
    pthread_mutex_lock(&lock);
    for (size_t i = copies_count; is_there && i-- > 0;)
        if (copies[i].base < end && base < copies[i].end)
            copy_end(i);
    pthread_mutex_unlock(&lock);
}

/* ---- findings ------------------------------------------------------------------------------- */

static void touch_raise(const touch *one)
{
    check_stack stack = one->stack;
    check_block memory = {.base = one->base, .bytes = one->end - one->base};
    check_touch later = {
        .place = check_place_of("the host", NULL, &stack), .thread = one->thread, .is_certain = 1};
    check_finding finding = {.kind = CHECK_HOST_TOUCH,
                             .is_certain = 1,
                             .means = check_doubt(NULL, one->copy.index, one->copy.number),
                             .block = &memory,
                             .address = one->address,
                             .earlier = &one->copy,
                             .earlier_is = "used",
                             .later = &later,
                             .later_is = one->is_write ? "written" : "read"};
    (void)check_found(&finding);
}

void check_pinned_settle(void)
{
    static touch taken[TOUCHES_MAX]; /* under the lock of check_enter */
    if (copies == NULL)
        return;
    pthread_mutex_lock(&lock);
    size_t count = touches_count;
    memcpy(taken, touches, count * sizeof(taken[0]));
    touches_count = 0;
    for (size_t i = copies_count; i-- > 0;)
        if (check_host_is_after(copies[i].copy.index, copies[i].copy.number))
            copy_end(i);
    if (copies_count > 0)
        atomic_store(&check_races_wait, 1);
    pthread_mutex_unlock(&lock);
    for (size_t i = 0; i < count; i++)
        touch_raise(&taken[i]);
}

/* ---- the beginning -------------------------------------------------------------------------- */

/* The simulated device begins or ends to touch memory. */
static void device_touches(int begins)
{
    pthread_mutex_lock(&lock);
    lifted += begins ? 1 : (unsigned)-1;
    if (begins && lifted == 1)
        for (size_t i = 0; i < copies_count; i++)
            protect(copies[i].first, copies[i].last, PROT_READ | PROT_WRITE);
    for (size_t i = 0; i < copies_count && lifted == 0; i++)
        pages_open(copies[i].first, copies[i].last);
    pthread_mutex_unlock(&lock);
}

void check_pinned_driver(void)
{
    void (*observe)(void (*)(int)) = NULL;
    void *symbol = copies == NULL ? NULL : driver_symbol("simcuda_observe_touches");
    if (symbol == NULL)
        return;
    memcpy(&observe, &symbol, sizeof(observe));
    observe(device_touches);
}

void check_pinned_begin(void)
{
    const char *wanted = getenv("TENURE_PRELOAD_CHECK_HOST");
    if (wanted == NULL || strcmp(wanted, "1") != 0)
        return;
    page = (uintptr_t)sysconf(_SC_PAGESIZE);
    copies = calloc(PENDING_MAX, sizeof(*copies));
    check_is_host_watched = copies != NULL;
}
