/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stacks of the checker (tools/check/stack.c), which are remembered by thread. Whatever was
 * called before, each stack is that of the caller, as a new walk here finds it. In a program that
 * repeats itself none is walked twice, because a walk takes as much as ten launches. In all there
 * are more stacks than a thread remembers.
 *
 * stack.c is in a library here, since frames of the object that it is in are left out. Broken to
 * see it fail: is_there leaves out a frame; node_enter loses the node that it puts another one
 * above; node_find does not look at `next`; the interpreter's frames are not compared, or not what
 * comes behind them; the stack that came next before is taken without comparing its addresses, or
 * its depth; thread_memory stays when it is freed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <dlfcn.h>
#include <pthread.h>
#include <string.h>
#include <unwind.h>

#include "check/check.h"
#include "check/places.h"

enum { FUNCTIONS = 8, PATHS = 600, DEEPEST = 14, ROUNDS = 18, LEADING_MAX = 8 };
enum { NOISY_PATHS = 1500, NOISE_MAX = 13 };

/* ---- what places.c asks for ----------------------------------------------------------------- */

#define FOUND __attribute__((visibility("default")))
FOUND _Atomic int check_state = CHECK_REPORTS;
FOUND int check_begin(void);
FOUND size_t check_frames_take(uintptr_t *frames, size_t room);

int check_begin(void)
{
    return CHECK_REPORTS;
}

static uintptr_t leading[LEADING_MAX]; /* an interpreter's frames */
static size_t leading_count;

size_t check_frames_take(uintptr_t *frames, size_t room)
{
    size_t count = leading_count < room ? leading_count : room;
    memcpy(frames, leading, count * sizeof(frames[0]));
    return count;
}

static int walks;

FOUND _Unwind_Reason_Code _Unwind_Backtrace(_Unwind_Trace_Fn note, void *user)
{
    static _Unwind_Reason_Code (*real)(_Unwind_Trace_Fn, void *);
    void *symbol = real == NULL ? dlsym(RTLD_NEXT, "_Unwind_Backtrace") : NULL;
    if (symbol != NULL)
        memcpy(&real, &symbol, sizeof(real));
    walks++;
    return real(note, user);
}

/* ---- a program ------------------------------------------------------------------------------- */

typedef struct seen {
    const void *frames[64];
    int count;
} seen;

static _Unwind_Reason_Code frame_note(struct _Unwind_Context *context, void *user)
{
    seen *self = user;
    const void *frame = (const void *)(uintptr_t)_Unwind_GetIP(context);
    if (frame == NULL || self->count == 64)
        return _URC_END_OF_STACK;
    self->frames[self->count++] = frame;
    return _URC_NO_REASON;
}

static int place_of(const void *frame, const void *const *frames, int count)
{
    for (int i = 0; i < count; i++)
        if (frames[i] == frame)
            return i;
    fail();
    return 0;
}

/* From this function's caller on, and an interpreter's frames before. What lies between is where
 * the walks are counted. */
static __attribute__((noinline)) void stack_compare(void)
{
    check_stack room;
    seen fresh = {.count = 0};
    int before = walks;
    check_stack *stack = check_stack_here(&room);
    int walked = walks - before;
    (void)_Unwind_Backtrace(frame_note, &fresh);
    walks = before + walked;
    int first = place_of(__builtin_return_address(0), fresh.frames, fresh.count);
    int own = place_of(__builtin_return_address(0), stack->frames, stack->count);
    assert_in_range(own, leading_count, leading_count + 3);
    assert_true(stack->count == CHECK_FRAMES || stack->count - own == fresh.count - first);
    assert_memory_equal(stack->frames, leading, leading_count * sizeof(leading[0]));
    assert_memory_equal(&stack->frames[own], &fresh.frames[first],
                        (size_t)(stack->count - own) * sizeof(stack->frames[0]));
    const check_place *place = check_place_of("call", NULL, stack);
    assert_int_equal(place->stack.count, stack->count);
    assert_memory_equal(place->stack.frames, stack->frames,
                        (size_t)stack->count * sizeof(stack->frames[0]));
}

typedef void (*step)(uint64_t path, int depth);
static void go_on(uint64_t path, int depth);

#define STEP(n)                                                                                    \
    static __attribute__((noinline)) void step_##n(uint64_t path, int depth)                       \
    {                                                                                              \
        go_on(path, depth);                                                                        \
        __asm__ volatile("# " #n ::: "memory");                                                    \
    }
STEP(0)
STEP(1)
STEP(2)
STEP(3)
STEP(4)
STEP(5)
STEP(6)
STEP(7)

static const step steps[FUNCTIONS] = {step_0, step_1, step_2, step_3,
                                      step_4, step_5, step_6, step_7};

/* Each frame is of another size, with words that are never the same: they lie where other stacks
 * have addresses, as what a program works on does. */
static int is_noisy;

static uint64_t mixed(uint64_t value)
{
    value = (value ^ (value >> 31)) * UINT64_C(0x9e3779b97f4a7c15);
    return value ^ (value >> 29);
}

static __attribute__((noinline)) void go_on(uint64_t path, int depth)
{
    static uint64_t turn;
    size_t words = is_noisy ? 1 + path % NOISE_MAX : 1;
    volatile uint64_t noise[words];
    for (size_t i = 0; i < words; i++)
        noise[i] = mixed(++turn);
    __asm__ volatile("" ::"r"(noise) : "memory");
    if (depth == 0)
        stack_compare();
    else
        steps[path % FUNCTIONS](path / FUNCTIONS, depth - 1);
    __asm__ volatile("" ::: "memory"); /* the call is no tail call */
}

/* Twice in one order, and then twice in another one: what comes next is what came next before, or
 * is not. */
static void go_round(uint64_t turn, size_t leads)
{
    uint64_t count = is_noisy ? NOISY_PATHS : PATHS, stride = turn / 2 % 2 == 0 ? 1 : 7;
    for (uint64_t place = 0; place < count; place++) {
        uint64_t i = place * stride % count;
        leading_count = leads == 0 ? 0 : 1 + i % leads;
        for (size_t k = 0; k < leading_count; k++)
            leading[k] = mixed(turn / 2 * 64 + i % 50 + k) | (uintptr_t)1 << 63;
        go_on(mixed(i), 2 + (int)(i % DEEPEST));
    }
}

/* ---- tests ----------------------------------------------------------------------------------- */

static void rounds(size_t leads)
{
    for (int i = 0; i < ROUNDS; i++) {
        int before = walks;
        go_round((uint64_t)i, leads);
#ifdef __x86_64__   /* elsewhere each is walked anew */
        if (i >= 2) /* the first two may be where all others are forgotten */
            assert_int_equal(walks, before);
#else
        (void)before;
#endif
    }
}

static void test_stacks_are_those_of_the_caller(void **state)
{
    (void)state;
    rounds(0);
}

static void test_an_interpreter_s_frames_come_first(void **state)
{
    (void)state;
    rounds(LEADING_MAX);
}

static void test_what_a_program_works_on_hides_no_stack(void **state)
{
    (void)state;
    is_noisy = 1;
    rounds(0);
    rounds(LEADING_MAX);
    is_noisy = 0;
}

static pthread_key_t last_key; /* made after that of places.c, so that it ends after it */

static void last_end(void *user)
{
    (void)user;
    stack_compare();
}

static void *thread_main(void *user)
{
    rounds(0);
    assert_int_equal(pthread_key_create(&last_key, last_end), 0);
    assert_int_equal(pthread_setspecific(last_key, &last_key), 0);
    return user;
}

/* And another one when that has ended, and it goes on. */
static void test_a_thread_has_its_own(void **state)
{
    pthread_t thread;
    (void)state;
    assert_int_equal(pthread_create(&thread, NULL, thread_main, NULL), 0);
    assert_int_equal(pthread_join(thread, NULL), 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_stacks_are_those_of_the_caller),
        cmocka_unit_test(test_an_interpreter_s_frames_come_first),
        cmocka_unit_test(test_what_a_program_works_on_hides_no_stack),
        cmocka_unit_test(test_a_thread_has_its_own),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
