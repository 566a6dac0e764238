/* SPDX-License-Identifier: Apache-2.0 */
/* A page of the history's ring, as it is, with the explorer's atomics: see explorer.h. */
#undef TNR_CHECK
#define TNR_CHECK 1

#include <stdint.h>
#include <string.h>

#include "base/assert.h"
#include "base/ticks.h"

#include "atomics.h"
#include "page.h"

#include "log/page.h"

static tnri_page page;

/* The words of a record are its page's number. */
static void record_write(uint64_t number)
{
    for (unsigned word = 0; word < TNRI_RECORD_WORDS; word += 2)
        tnri_record_store(&page.records[0], word, number, number);
    tnri_page_raise(&page, 1);
}

/* One record is in the page, whose number is 1. */
static void start_written(void)
{
    memset(&page, 0, sizeof(page));
    *(volatile uint64_t *)&page.number = 1;
    *(volatile uint32_t *)&page.count = 1;
    explorer_atomic(&page.number, sizeof(page.number));
    explorer_atomic(&page.count, sizeof(page.count));
    for (int i = 0; i < TNRI_RECORD_WORDS; i++) {
        *(volatile uint64_t *)&page.records[0].words[i] = 1;
        explorer_atomic(&page.records[0].words[i], sizeof(page.records[0].words[i]));
    }
}

/* Thread 0 takes the page, and writes a record. Thread 1 reads it: what it keeps is whole. */
static void run_taken_while_read(int thread)
{
    if (thread == 0) {
        tnri_page_empty(&page, 2);
        record_write(2);
        return;
    }
    uint64_t number, words[TNRI_RECORD_WORDS];
    uint32_t count = tnri_page_look(&page, &number);
    if (count == 0)
        return;
    tnri_record_load(words, &page.records[0]);
    if (!tnri_page_is_still(&page, number))
        return;
    for (int i = 0; i < TNRI_RECORD_WORDS; i++)
        if (words[i] != number)
            explorer_failed("a record that is kept is of the page's holder, and whole", __LINE__);
}

const explorer_program page_program = {"a page is taken while it is read", 2, start_written,
                                       run_taken_while_read, 0};
