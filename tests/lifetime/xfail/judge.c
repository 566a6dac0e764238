/* SPDX-License-Identifier: Apache-2.0 */
/* The judge: see judge.h. */
#include "lifetime/xfail/judge.h"

#include <stdio.h>
#include <string.h>

static int text_has_all(const char *text, const char *const wanted[3])
{
    for (int i = 0; i < 3; i++)
        if (strstr(text, wanted[i]) == NULL)
            return 0;
    return 1;
}

/* 1 if the device reported what the case, or its corrected version, must give. */
static int judge(const struct xfail_case *one, int right)
{
    uint64_t reports = simcuda_races();
    uint64_t violations = simcuda_violations();
    if (right)
        return reports == 0 && violations == 0;
    if (one->kind == XFAIL_NO_REPORT)
        return reports == 0 && violations == 1 &&
               text_has_all(simcuda_violation_last(), one->texts);
    return violations == 0 && reports == 1 &&
           simcuda_races_of((simcuda_report_kind)one->kind) == 1 &&
           text_has_all(simcuda_race_last(), one->texts);
}

/* Runs one version under all schedules. 1 if every one of them is judged as `judged_right` says
 * it should be, -1 if none is, 0 if they differ. */
static int case_run(const struct xfail_suite *suite, const struct xfail_case *one, int right,
                    int judged_right)
{
    static const char *const schedules[][2] = {{"SCHEDULE=lazy", "SEED=0"},
                                               {"SCHEDULE=random", "SEED=1"},
                                               {"SCHEDULE=random", "SEED=2"},
                                               {"SCHEDULE=random", "SEED=3"}};
    enum { SCHEDULES = sizeof(schedules) / sizeof(schedules[0]) };
    int as_judged = 0;
    for (int i = 0; i < SCHEDULES; i++) {
        void *state = NULL;
        life_start(suite->conf, schedules[i][0], schedules[i][1]);
        assert_int_equal(simcuda_races_enabled(), 1);
        if (suite->begin)
            suite->begin();
        one->body(right);
        simcuda_origin(NULL);
        simcuda_run(UINT64_MAX);
        assert_int_equal(simcuda_pending(), 0);
        int good = judge(one, judged_right);
        printf("%s %s, %s %s: %llu reports, %llu violations: %s\n", one->name,
               right ? "right" : "wrong", schedules[i][0], schedules[i][1],
               (unsigned long long)simcuda_races(), (unsigned long long)simcuda_violations(),
               good ? "as expected" : "NOT as expected");
        as_judged += good;
        if (suite->end)
            suite->end();
        /* Else the end of the library, which unmaps, would be reported as well. */
        assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
        simcuda_races_clear();
        simcuda_violations_clear();
        assert_int_equal(life_stop(&state), 0);
    }
    return as_judged == SCHEDULES ? 1 : as_judged == 0 ? -1 : 0;
}

static int check_judge(const struct xfail_suite *suite)
{
    int failed = 0;
    for (int i = 0; i < suite->count; i++)
        for (int right = 0; right < 2; right++)
            if (case_run(suite, &suite->cases[i], right, !right) != -1) {
                fprintf(stderr, "%s: its %s version passes for the other one.\n",
                        suite->cases[i].name, right ? "right" : "wrong");
                failed = 1;
            }
    return failed;
}

int xfail_main(int argc, char **argv, const struct xfail_suite *suite)
{
    int right = argc == 3 && strcmp(argv[2], "--right") == 0;
    if (argc == 2 && strcmp(argv[1], "--check") == 0)
        return check_judge(suite);
    for (int i = 0; i < suite->count && (argc == 2 || right); i++)
        if (strcmp(argv[1], suite->cases[i].name) == 0)
            return case_run(suite, &suite->cases[i], right, right) == 1 ? 0 : 1;
    fprintf(stderr, "usage: %s CASE [--right] | --check\nCASE is one of:", argv[0]);
    for (int i = 0; i < suite->count; i++)
        fprintf(stderr, " %s", suite->cases[i].name);
    fprintf(stderr, "\n");
    return 2;
}
