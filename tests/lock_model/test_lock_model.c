/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The lock's protocol is sound under the memory model of C11, and each order and fence in it is
 * needed or is said not to be: alloc/base/lock.c itself runs in every way that the model allows
 * (see explorer.h), as it is and with one order or fence weakened at a time.
 *
 * With the second look at the owner in lock_take_unowned relaxed, as it once was, the_lock_is_sound
 * failed: who comes third does not see what the last owner wrote. It failed as well without the
 * second look, without the barrier, and without the wait for the owner in lock_disown; and where
 * lock_take_unowned kept `taken` on seeing an owner, because the threads then wait for ever.
 * "one tries" went wrong without either look of tnri_lock_try_outside: a thread inside got in once
 * more.
 * weakenings_show failed when an order was added to a relaxed load, and with the second look
 * relaxed.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "protocol.h"

typedef struct site_row {
    const char *function, *operation, *object;
    explorer_weakening weakening;
    int is_needed;
    const char *why; /* for the reader */
} site_row;

static const site_row rows[] = {
    {"tnri_lock_take_own", "compiler's fence", "", EXPLORER_FENCE, 1,
     "the owner says that it is inside before it looks whether it is the owner"},
    {"tnri_lock_take_own", "load", "&lock->owner", EXPLORER_ACQUIRE, 0,
     "only the thread itself makes itself the owner: it has seen all that was before"},
    {"tnri_lock_take_own", "store", "&lock->inside[slot]", EXPLORER_RELEASE, 1,
     "who takes the lock away may see this one and not that of the turn before"},
    {"tnri_lock_take", "exchange", "&lock->taken", EXPLORER_ACQUIRE, 1, "sees the last turn"},
    {"tnri_lock_release", "store", "&lock->inside[holder - 1]", EXPLORER_RELEASE, 1,
     "the owner's turn is seen by who takes the lock away"},
    {"tnri_lock_release", "store", "&lock->taken", EXPLORER_RELEASE, 1, "the next sees the turn"},
    {"lock_disown", "exchange", "&lock->owner", EXPLORER_ACQUIRE, 0,
     "the barrier comes before anything of the owner's is read"},
    {"lock_disown", "exchange", "&lock->owner", EXPLORER_RELEASE, 0,
     "nothing was written that the owner does not know; the barrier makes the store known"},
    {"lock_disown", "barrier", "", EXPLORER_FENCE, 1,
     "the owner sees that it is none any more, or is seen inside"},
    {"lock_disown", "load", "inside", EXPLORER_ACQUIRE, 1, "sees the owner's last turn"},
    {"lock_disown", "store", "&lock->owner", EXPLORER_RELEASE, 1,
     "the next sees the owner's last turn, and what became of its record"},
    {"lock_own", "store", "&lock->owner", EXPLORER_RELEASE, 1,
     "who takes the lock away sees the owner's record"},
    {"tnri_lock_wait", "load", "&lock->owner", EXPLORER_ACQUIRE, 0,
     "lock_disown's exchange reads it once more, with acquire order"},
    {"lock_take_unowned", "load", "&lock->owner", EXPLORER_ACQUIRE, 1,
     "sees the last turn of an owner whom another thread has taken the lock away from"},
    {"lock_take_unowned", "exchange", "&lock->taken", EXPLORER_ACQUIRE, 1, "sees the last turn"},
    {"lock_take_unowned", "store", "&lock->taken", EXPLORER_RELEASE, 1,
     "passes on what it has seen: the next sees the last turn that was taken"},
};
enum { ROWS = sizeof(rows) / sizeof(rows[0]) };

static void the_lock_is_sound(void **state)
{
    (void)state;
    for (size_t i = 0; i < protocol_programs_count; i++) {
        const explorer_program *program = &protocol_programs[i];
        explorer_result result = explorer_run(program, NULL, EXPLORER_NOTHING);
        if (result.went_wrong) {
            fputs(result.text, stderr); /* longer than what CMocka prints */
            fail_msg("%s goes wrong", program->name);
        }
        if (result.endings == 0)
            fail_msg("%s: no thread ever came to its end", program->name);
        printf("%s: %zu states, sound\n", program->name, result.states);
    }
}

/* What can be taken away from a site. */
static int site_has(const explorer_site *site, explorer_weakening weakening)
{
    int is_fence = site->object[0] == '\0';
    int is_both = site->order == memory_order_acq_rel || site->order == memory_order_seq_cst;
    switch (weakening) {
    case EXPLORER_FENCE:
        return is_fence;
    case EXPLORER_ACQUIRE:
        return !is_fence && strcmp(site->operation, "store") != 0 &&
               (is_both || site->order == memory_order_acquire);
    case EXPLORER_RELEASE:
        return !is_fence && strcmp(site->operation, "load") != 0 &&
               (is_both || site->order == memory_order_release);
    default:
        return 0;
    }
}

static int site_is_alike(const explorer_site *site, const explorer_site *other)
{
    return strcmp(site->function, other->function) == 0 &&
           strcmp(site->operation, other->operation) == 0 &&
           strcmp(site->object, other->object) == 0;
}

/* The row of a site: of several alike, by line. */
static const site_row *site_row_of(const explorer_site *site, explorer_weakening weakening)
{
    int before = 0;
    for (const explorer_site *other = explorer_sites(); other != NULL; other = other->next)
        before +=
            site_has(other, weakening) && site_is_alike(site, other) && other->line < site->line;
    for (int i = 0; i < ROWS; i++)
        if (rows[i].weakening == weakening && strcmp(rows[i].function, site->function) == 0 &&
            strcmp(rows[i].operation, site->operation) == 0 &&
            strcmp(rows[i].object, site->object) == 0 && before-- == 0)
            return &rows[i];
    return NULL;
}

/* 1 if a program goes wrong with the site weakened. The large ones only until one does. */
static int weakening_shows(const explorer_site *site, explorer_weakening weakening, int is_needed)
{
    for (size_t i = 0; i < protocol_programs_count; i++)
        if (is_needed || !protocol_programs[i].is_large)
            if (explorer_run(&protocol_programs[i], site, weakening).went_wrong)
                return 1;
    return 0;
}

static void weakenings_show(void **state)
{
    static const char *const names[] = {"", "acquire order", "release order", "the fence"};
    (void)state;
    int met = 0;
    for (size_t i = 0; i < protocol_programs_count; i++)
        if (!protocol_programs[i].is_large)
            (void)explorer_run(&protocol_programs[i], NULL, EXPLORER_NOTHING);
    for (const explorer_site *site = explorer_sites(); site != NULL; site = site->next)
        for (explorer_weakening w = EXPLORER_ACQUIRE; w <= EXPLORER_FENCE; w++) {
            if (!site_has(site, w))
                continue;
            const site_row *row = site_row_of(site, w);
            if (row == NULL)
                fail_msg("%s:%d: %s: %s of %s has %s, and no row in this test says why", site->file,
                         site->line, site->function, site->operation, site->object, names[w]);
            if (weakening_shows(site, w, row->is_needed) != row->is_needed)
                fail_msg("%s:%d: %s: without %s of the %s of %s %s (%s)", site->file, site->line,
                         site->function, names[w], site->operation, site->object,
                         row->is_needed ? "nothing goes wrong" : "something goes wrong", row->why);
            met++;
        }
    assert_int_equal(met, ROWS);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(weakenings_show),
        cmocka_unit_test(the_lock_is_sound),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
