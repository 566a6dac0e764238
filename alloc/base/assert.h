/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Assertions: how Tenure finds its own mistakes.
 *
 *   tnri_assert(c)        O(1), control path: on from TNR_CHECK=1, which release builds use
 *   tnri_assert_hot(c)    O(1), cached path: on from TNR_CHECK=2
 *   TNR_CHECK_WALKS       1 from TNR_CHECK=3: whole structures are validated at their edges
 *
 * They are for bugs in the library. A caller's mistake is never asserted: it gets a status and a
 * sentence (base/error.h). A failed assertion prints one line with nothing but write(2), so that
 * it works in any state the process can be in, and aborts.
 */
#ifndef TNRI_BASE_ASSERT_H
#define TNRI_BASE_ASSERT_H

#ifndef TNR_CHECK
#define TNR_CHECK 1
#endif

_Noreturn void tnri_assert_failed(const char *condition, const char *file, int line);

#define TNRI_ASSERT_ON(c) ((c) ? (void)0 : tnri_assert_failed(#c, __FILE__, __LINE__))
/* Keeps the names in the condition used, and costs nothing. */
#define TNRI_ASSERT_OFF(c) ((void)sizeof((c) ? 1 : 0))

#if TNR_CHECK >= 1
#define tnri_assert(c) TNRI_ASSERT_ON(c)
#else
#define tnri_assert(c) TNRI_ASSERT_OFF(c)
#endif

#if TNR_CHECK >= 2
#define tnri_assert_hot(c) TNRI_ASSERT_ON(c)
#else
#define tnri_assert_hot(c) TNRI_ASSERT_OFF(c)
#endif

#define TNR_CHECK_WALKS (TNR_CHECK >= 3)

/* Hints for branches whose likelihood the compiler cannot know. */
#define tnri_likely(c) __builtin_expect(!!(c), 1)
#define tnri_unlikely(c) __builtin_expect(!!(c), 0)
/* For a function that is kept out of its caller, which is fast without it. */
#define TNRI_SELDOM __attribute__((noinline, cold))

#endif
