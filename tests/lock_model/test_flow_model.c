/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Chunks that come and go in several threads are never fewer than none: neither the number that is
 * there nor its peak is ever a difference below 0, under the memory model of C11.
 *
 * Seen to fail: with `gone` read behind the change of `came` in tnri_flow_come, as it once was, so
 * that segment.peak of tnr_stats could be 2^64 - 1 for good; with `came` read first in
 * tnri_flow_now.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

#include <cmocka.h>

#include "flow.h"

static void never_fewer_than_none(void **state)
{
    (void)state;
    explorer_result result = explorer_run(&flow_program, NULL, EXPLORER_NOTHING);
    if (result.went_wrong) {
        fputs(result.text, stderr); /* longer than what CMocka prints */
        fail_msg("%s: it goes wrong", flow_program.name);
    }
    assert_true(result.endings > 0);
    printf("%s: %zu states, sound\n", flow_program.name, result.states);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(never_fewer_than_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
