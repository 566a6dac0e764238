/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a reader keeps of a page of the history's ring is whole, under the memory model of C11, and
 * each order in alloc/log/page.h is needed.
 *
 * Seen to fail: with the number stored before the count, as it once was, so that a reader on any
 * processor could keep a record of which half was overwritten; without the second look.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "page.h"

static void what_is_kept_is_whole(void **state)
{
    (void)state;
    explorer_result result = explorer_run(&page_program, NULL, EXPLORER_NOTHING);
    if (result.went_wrong) {
        fputs(result.text, stderr); /* longer than what CMocka prints */
        fail_msg("%s: it goes wrong", page_program.name);
    }
    assert_true(result.endings > 0);
    printf("%s: %zu states, sound\n", page_program.name, result.states);
}

/* The last word needs its orders too: a reader may have all others from before. */
static void each_order_is_needed(void **state)
{
    (void)state;
    int count = 0;
    (void)explorer_run(&page_program, NULL, EXPLORER_NOTHING);
    for (const explorer_site *site = explorer_sites(); site != NULL; site = site->next) {
        explorer_weakening weakening = site->order == memory_order_acquire   ? EXPLORER_ACQUIRE
                                       : site->order == memory_order_release ? EXPLORER_RELEASE
                                                                             : EXPLORER_NOTHING;
        if (weakening == EXPLORER_NOTHING)
            continue;
        count++;
        if (!explorer_run(&page_program, site, weakening).went_wrong)
            fail_msg("%s:%d: without the order of the %s of %s nothing goes wrong", site->file,
                     site->line, site->operation, site->object);
    }
    assert_true(count >= 6);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(what_is_kept_is_whole),
        cmocka_unit_test(each_order_is_needed),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
