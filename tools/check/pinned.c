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
 * Two copies must have an order, too, if one of them writes what the other uses. Copies that the
 * host has seen to be over are not looked at: what comes later is ordered after them.
 *
 * Protection goes by pages. Where the first or last page of a copy has other bytes, too, and those
 * are touched, the page is opened, and the copy is watched no more there. Many copies may use one
 * page: so stretches of pages count what uses them, and the system is told where that changes what
 * the host may do.
 *
 * The driver, too, may touch such memory with the processor: it copies little where it knows that
 * all before it is over. That is the copy of a call whose order is looked at. So pages are opened
 * for it, and nothing is said.
 *
 * The signal's handler takes the lock here, which nobody holds while touching what is protected. It
 * notes a touch; the next call that leaves the checker makes a finding of it. The simulated device
 * copies with the processor. It says what it touches, and protection is lifted there meanwhile.
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
#include "check/stack.h"
#include "check/visible.h"
#include "check/walked.h"
#include "driver.h"
#include "service.h"

/* No memory is asked for in a signal's handler: there is room for where each copy begins and ends,
 * and for what the simulated device touches at once. */
enum { PENDING_MAX = 4096, STRETCHES_MAX = 2 * PENDING_MAX + 512, TOUCHES_MAX = 256 };

/* A copy. */
typedef struct pending {
    check_touch copy;
    uintptr_t base, end;   /* the bytes */
    uintptr_t first, last; /* the pages that are protected, to behind the last; equal: none are */
    int is_written;        /* the copy writes them */
} pending;

/* Pages with the same uses, up to where the next stretch begins. */
typedef struct stretch {
    uintptr_t first;
    unsigned reads, writes; /* copies that read them, or write them */
    unsigned lifted;        /* the simulated device is touching them: so many times */
} stretch;

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
static stretch *stretches; /* by their pages; outside of them nothing is protected */
static size_t stretches_count;
static uintptr_t page;
static int refused;             /* what errno said of the last pages that could not be protected */
static struct sigaction before; /* the program's own */
/* The driver's library, and the C library; set before the program runs. */
static check_bounds driver_bounds, library_bounds;

/* ---- protection ----------------------------------------------------------------------------- */

static void protect(uintptr_t first, uintptr_t last, int protection)
{
    if (mprotect((void *)first, last - first, protection) != 0)
        refused = errno;
}

static int protection_of(const stretch *one)
{
    return one->lifted > 0   ? PROT_READ | PROT_WRITE
           : one->writes > 0 ? PROT_NONE
           : one->reads > 0  ? PROT_READ
                             : PROT_READ | PROT_WRITE;
}

static int is_same_use(const stretch *one, const stretch *other)
{
    return one->reads == other->reads && one->writes == other->writes &&
           one->lifted == other->lifted;
}

/* The first stretch that does not begin before the address. */
static size_t stretch_from(uintptr_t at)
{
    size_t from = 0, end = stretches_count;
    while (from < end) {
        size_t middle = (from + end) / 2;
        if (stretches[middle].first < at)
            from = middle + 1;
        else
            end = middle;
    }
    return from;
}

/* The stretch that begins at an address, which is made of the one that lies there. There is room
 * for one more. */
static size_t stretch_cut(uintptr_t at)
{
    size_t i = stretch_from(at);
    if (i < stretches_count && stretches[i].first == at)
        return i;
    stretch fresh = {.first = at};
    if (i > 0) {
        fresh = stretches[i - 1];
        fresh.first = at;
    }
    memmove(&stretches[i + 1], &stretches[i], (stretches_count - i) * sizeof(stretches[0]));
    stretches[i] = fresh;
    stretches_count++;
    return i;
}

/* Makes one of two that lie side by side with the same uses. */
static void stretch_join(uintptr_t at)
{
    static const stretch unused;
    size_t i = stretch_from(at);
    if (!is_same_use(&stretches[i], i > 0 ? &stretches[i - 1] : &unused))
        return;
    stretches_count--;
    memmove(&stretches[i], &stretches[i + 1], (stretches_count - i) * sizeof(stretches[0]));
}

/* The stretches from one on to before another get a use, or (by -1) lose it. What changes for the
 * host is told to the system, at once where it is the same. */
static void stretches_protect(size_t from, size_t end, stretch use, unsigned by)
{
    uintptr_t first = 0, last = 0; /* that are told next */
    int wanted = 0;
    for (size_t i = from; i < end; i++) {
        stretch *one = &stretches[i];
        int was = protection_of(one);
        one->reads += by * use.reads;
        one->writes += by * use.writes;
        one->lifted += by * use.lifted;
        int now = protection_of(one);
        if (now == was)
            continue;
        if (first < last && (last != one->first || now != wanted)) {
            protect(first, last, wanted);
            first = last;
        }
        if (first == last)
            first = one->first;
        last = one[1].first;
        wanted = now;
    }
    if (first < last)
        protect(first, last, wanted);
}

/* Pages get a use, or lose it. The last stretch has none: it says where the one before ends. 0:
 * there is no room. */
static int pages_change(uintptr_t first, uintptr_t last, stretch use, int is_more)
{
    if (first >= last)
        return 1;
    if (stretches_count + 2 > STRETCHES_MAX)
        return 0;
    size_t from = stretch_cut(first), end = stretch_cut(last);
    stretches_protect(from, end, use, is_more ? 1 : (unsigned)-1);
    stretch_join(last);
    stretch_join(first);
    return 1;
}

static stretch use_of(const pending *one)
{
    return (stretch){.reads = !one->is_written, .writes = one->is_written != 0};
}

static void copy_end(size_t at)
{
    pending gone = copies[at];
    copies[at] = copies[--copies_count];
    (void)pages_change(gone.first, gone.last, use_of(&gone), 0);
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

/* Only of a touch of what is protected here: a stack that has run over cannot be read. 1: the
 * driver touches, itself or by a function of the C library that calls no other, as memcpy is. What
 * else it calls may be the program's. */
static int is_driver(const void *context)
{
#if defined(__x86_64__)
    const greg_t *registers = ((const ucontext_t *)context)->uc_mcontext.gregs;
    uintptr_t at = (uintptr_t)registers[REG_RIP];
    return check_is_in(&driver_bounds, at) ||
           (check_is_in(&library_bounds, at) &&
            check_is_in(&driver_bounds, *(uintptr_t *)registers[REG_RSP]));
#elif defined(__aarch64__)
    enum { LINK = 30 };
    const mcontext_t *registers = &((const ucontext_t *)context)->uc_mcontext;
    return check_is_in(&driver_bounds, registers->pc) ||
           (check_is_in(&library_bounds, registers->pc) &&
            check_is_in(&driver_bounds, registers->regs[LINK]));
#else
    (void)context;
    return 0;
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
    else
        return;
    (void)pages_change(at, at + page, use_of(one), 0);
}

/* 1 if the address is, or was, in what is protected here: then it can be touched now. */
static int touched(uintptr_t address, const void *context)
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
        } else if (is_driver(context)) {
            (void)pages_change(one->first, one->last, use_of(one), 0);
            one->first = one->last;
        } else if (one->is_written || is_writing(context)) {
            touch_note(one, address, is_writing(context));
            copy_end(i);
        }
    }
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
        int is_ours = touched(address, context) || may_be_open(address);
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

/* A copy under way with which this one has no order, though one of the two writes what the other
 * uses. 0: there is none. */
static int unordered_find(const check_stream *stream, const pending *later, pending *found)
{
    int is_there = 0;
    pthread_mutex_lock(&lock);
    for (size_t i = 0; i < copies_count && !is_there; i++) {
        const pending *one = &copies[i];
        is_there = one->base < later->end && later->base < one->end &&
                   (one->is_written || later->is_written) &&
                   !check_is_after(stream, one->copy.index, one->copy.number);
        if (is_there)
            *found = *one;
    }
    pthread_mutex_unlock(&lock);
    return is_there;
}

static void order_look(const check_stream *stream, const pending *later)
{
    pending earlier;
    if (check_races_are_seen || !unordered_find(stream, later, &earlier))
        return;
    uintptr_t base = later->base > earlier.base ? later->base : earlier.base;
    uintptr_t end = later->end < earlier.end ? later->end : earlier.end;
    check_block memory = {.base = base, .bytes = end - base};
    check_finding finding = {.kind = CHECK_RACE,
                             .is_certain = 1,
                             .means = check_doubt(stream, earlier.copy.index, earlier.copy.number),
                             .block = &memory,
                             .address = base,
                             .earlier = &earlier.copy,
                             .earlier_is = earlier.is_written ? "written" : "read",
                             .later = &later->copy,
                             .later_is = later->is_written ? "written" : "read"};
    (void)check_found(&finding);
}

void check_pinned_copied(const check_work *copy, check_span at, int is_written, int is_over)
{
    uintptr_t base = (uintptr_t)at.address;
    if (copies == NULL || at.bytes <= WORD || at.has_gaps || !check_is_pinned(base) ||
        !signal_take())
        return;
    pending one = {.copy = copy->touch,
                   .base = base,
                   .end = base + at.bytes,
                   .first = base & ~(page - 1),
                   .last = (base + at.bytes + page - 1) & ~(page - 1),
                   .is_written = is_written};
    one.copy.is_certain = 1;
    order_look(copy->stream, &one);
    if (is_over)
        return;
    pthread_mutex_lock(&lock);
    if (copies_count < PENDING_MAX && pages_change(one.first, one.last, use_of(&one), 1)) {
        copies[copies_count++] = one;
        atomic_store(&check_races_wait, 1);
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
    static uint64_t settled;         /* what the host had learned; the same */
    if (copies == NULL)
        return;
    pthread_mutex_lock(&lock);
    size_t count = touches_count;
    memcpy(taken, touches, count * sizeof(taken[0]));
    touches_count = 0;
    int has_learned = settled != check_host_changes();
    settled = check_host_changes();
    for (size_t i = copies_count; has_learned && i-- > 0;)
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
static void device_touches(int begins, const void *from, size_t bytes)
{
    uintptr_t first = (uintptr_t)from & ~(page - 1);
    pthread_mutex_lock(&lock);
    (void)pages_change(first, ((uintptr_t)from + bytes + page - 1) & ~(page - 1),
                       (stretch){.lifted = 1}, begins);
    pthread_mutex_unlock(&lock);
}

void check_pinned_driver(void)
{
    void (*observe)(void (*)(int, const void *, size_t)) = NULL;
    void *symbol = copies == NULL ? NULL : driver_symbol("simcuda_observe_touches");
    if (copies != NULL) {
        check_bounds_find(driver_symbol("cuInit"), &driver_bounds);
        check_bounds_find((const void *)(uintptr_t)memcpy, &library_bounds);
    }
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
    stretches = calloc(STRETCHES_MAX, sizeof(*stretches));
    copies = stretches == NULL ? NULL : calloc(PENDING_MAX, sizeof(*copies));
    check_is_host_watched = copies != NULL;
}
