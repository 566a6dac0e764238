/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The judge of programs that are wrong on purpose, each of them put right by one step (--right). On
 * the simulated device with its race detector the wrong version must be caught, with exactly the
 * report that is expected, and the right one must give none.
 *
 * A race is one whatever the schedule does, so each case runs under the lazy schedule and under
 * random ones with several seeds, and all of them must agree.
 *
 *   PROGRAM CASE [--right]   0: caught (or, with --right, clean); 1: not; 2: usage
 *   PROGRAM --check          0: the judge tells right from wrong: each version fails when it is
 *                            judged as the other
 *
 * Seen to fail: with `judge` answering 1 whatever was reported, --check of both programs.
 */
#ifndef TENURE_TESTS_XFAIL_JUDGE_H
#define TENURE_TESTS_XFAIL_JUDGE_H

#include "lifetime/life.h"

enum { XFAIL_NO_REPORT = -1 };

struct xfail_case {
    const char *name;
    void (*body)(int right);
    int kind;             /* of the race report, or XFAIL_NO_REPORT: a violation instead */
    const char *texts[3]; /* what the report must say: its kind, and both origins */
};

struct xfail_suite {
    const struct xfail_case *cases;
    int count;
    const char *conf;
    void (*begin)(void); /* null: nothing is to be done */
    void (*end)(void);   /* once a case is judged; null: nothing is to be done */
};

int xfail_main(int argc, char **argv, const struct xfail_suite *suite);

#endif
