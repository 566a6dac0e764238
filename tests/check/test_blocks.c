/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The checker's memory of blocks (tools/check/blocks.c, bases.c), compared with a list that
 * is searched from end to end. Blocks are made, freed and forgotten at random, over parts of other
 * blocks and over several, close together and as far apart as addresses go. Each address must lead
 * to the same block in both. Fails if, say, place_below stops at the word in which the address is,
 * or if a block is not told what is below it: when it is made, or what is below is made, or goes.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "check/bases.h"
#include "check/blocks.h"

enum { ROUNDS = 20000, KNOWN_MAX = 4096, SLOT = 512, FREED_MAX = 65536 };

/* A block as it must be. */
typedef struct known {
    CUdeviceptr base;
    size_t bytes;
    int is_live;
    uint64_t serial, before; /* 0: none */
} known;

static known list[KNOWN_MAX];
static size_t list_count;
static uint64_t random_state;

static size_t random_below(size_t limit)
{
    random_state ^= random_state << 13;
    random_state ^= random_state >> 7;
    random_state ^= random_state << 17;
    return (size_t)(random_state >> 11) % limit;
}

/* Where blocks lie: few places in each of several parts, so that they meet. */
static CUdeviceptr random_base(void)
{
    static const CUdeviceptr parts[] = {SLOT, (CUdeviceptr)1 << 26, ((CUdeviceptr)1 << 31) - 65536,
                                        (CUdeviceptr)1 << 44, ((CUdeviceptr)1 << 49) - (1 << 22)};
    static const size_t steps[] = {SLOT, 32 << 10, 64 << 10};
    CUdeviceptr part = parts[random_below(sizeof(parts) / sizeof(parts[0]))];
    return part + random_below(32) * steps[random_below(3)];
}

static size_t random_bytes(void)
{
    static const size_t most[] = {512, 4096, 512 << 10, (size_t)1 << 30};
    size_t bytes = 1 + random_below(most[random_below(20) == 0 ? 3 : random_below(3)]);
    return random_below(2) == 0 ? bytes : (bytes + SLOT - 1) / SLOT * SLOT; /* so that some meet */
}

static int is_over(const known *one, CUdeviceptr base, size_t bytes)
{
    return one->base < base + bytes && base < one->base + one->bytes;
}

/* Takes what overlaps out of the list. Returns the serial of the last freed one by address. */
static uint64_t list_cut(CUdeviceptr base, size_t bytes)
{
    const known none = {0};
    known last = none;
    size_t kept = 0;
    for (size_t i = 0; i < list_count; i++) {
        if (!is_over(&list[i], base, bytes))
            list[kept++] = list[i];
        else if (!list[i].is_live && list[i].base >= last.base)
            last = list[i];
    }
    list_count = kept;
    return last.serial;
}

static void one_made(void)
{
    CUdeviceptr base = random_base();
    size_t bytes = random_bytes();
    uint64_t before = list_cut(base, bytes);
    const check_block *block = check_block_make(base, bytes);
    assert_non_null(block);
    assert_int_equal(block->before == NULL ? 0 : block->before->serial, before);
    assert_true(list_count < KNOWN_MAX);
    list[list_count++] = (known){base, bytes, 1, block->serial, before};
}

/* 1 if the address leads to where the list says. */
static void address_compared(CUdeviceptr address)
{
    const check_block *found = check_block_at(address);
    const known *must = NULL;
    for (size_t i = 0; i < list_count && must == NULL; i++)
        if (is_over(&list[i], address, 1))
            must = &list[i];
    assert_int_equal(found == NULL, must == NULL);
    if (found == NULL)
        return;
    assert_int_equal(found->serial, must->serial);
    assert_int_equal(found->base, must->base);
    assert_int_equal(found->is_live, must->is_live);
    assert_ptr_equal(check_block_live(address), must->is_live ? found : NULL);
    assert_ptr_equal(check_block_freed(address), must->is_live ? NULL : found);
    int is_beside = found->lower != NULL && found->lower->base + found->lower->bytes == found->base;
    assert_int_equal(found->is_beside, is_beside);
}

static void one_freed(void)
{
    if (list_count == 0)
        return;
    known *one = &list[random_below(list_count)];
    if (!one->is_live)
        return;
    check_block_free(check_block_live(one->base));
    one->is_live = 0;
}

static void visited(const check_block *block, void *user)
{
    CUdeviceptr *last = user;
    assert_true(block->is_live && block->base >= *last);
    *last = block->base + block->bytes;
}

static void test_blocks_are_found_as_in_a_list(void **state)
{
    (void)state;
    random_state = UINT64_C(0x9e3779b97f4a7c15);
    for (int i = 0; i < ROUNDS; i++) {
        size_t what = random_below(10);
        CUdeviceptr base = random_base();
        size_t bytes = random_bytes();
        if (what < 5) {
            one_made();
        } else if (what < 9) {
            one_freed();
        } else {
            (void)list_cut(base, bytes);
            check_blocks_forget(base, bytes);
        }
        address_compared(random_base());
        address_compared(random_base() + random_below(1 << 20));
        if (list_count > 0)
            address_compared(list[list_count - 1].base + list[list_count - 1].bytes - 1);
    }
    CUdeviceptr last = 0;
    check_blocks_each(visited, &last);
    check_blocks_forget(SLOT, (size_t)1 << 49);
    assert_null(check_bases_first());
    assert_null(check_block_at((CUdeviceptr)1 << 44));
}

/* Nothing of Tenure's begins there; and nothing is remembered of it. */
static void test_a_block_that_begins_nowhere_is_not_followed(void **state)
{
    (void)state;
    assert_null(check_block_make(SLOT + 8, 100));
    assert_null(check_block_make((CUdeviceptr)1 << 49, 100));
    assert_null(check_block_at(SLOT + 8));
    assert_null(check_bases_first());
}

static void test_the_oldest_freed_blocks_are_forgotten(void **state)
{
    (void)state;
    for (CUdeviceptr i = 1; i <= FREED_MAX + 100; i++)
        check_block_free(check_block_make(i * SLOT, SLOT));
    assert_null(check_block_freed(100 * SLOT));
    assert_non_null(check_block_freed(101 * SLOT));
    assert_non_null(check_block_freed((FREED_MAX + 100) * SLOT));
    check_blocks_forget(SLOT, (FREED_MAX + 100) * (size_t)SLOT);
    assert_null(check_bases_first());
}

static check_touch touch_of(size_t index, int is_certain)
{
    return (check_touch){.index = index, .number = index + 1, .is_certain = is_certain};
}

/* More streams than a block's own room is for; and a certain use is kept before a possible one. */
static void test_uses_of_many_streams_are_kept(void **state)
{
    (void)state;
    check_block *block = check_block_make(SLOT, SLOT);
    for (size_t i = 0; i < 100; i++) {
        check_touch use = touch_of(i % 20, i >= 20);
        check_block_use(block, &use, use.is_certain);
    }
    assert_int_equal(block->uses_count, 20);
    check_touch possible = touch_of(3, 0);
    check_block_use(block, &possible, 0);
    assert_int_equal(block->uses_count, 21);
    assert_int_equal(block->uses[3].is_certain, 1);
    check_block_free(block);
    assert_int_equal(block->uses_count, 0);
    check_blocks_forget(SLOT, SLOT);
}

/* Notes the record of a block among those that were seen. */
static check_block *seen_make(const check_block **seen, size_t *count, CUdeviceptr base,
                              size_t bytes)
{
    enum { SEEN_MAX = 64 };
    check_block *block = check_block_make(base, bytes);
    size_t i = 0;
    assert_non_null(block);
    while (i < *count && seen[i] != block)
        i++;
    assert_true(i < SEEN_MAX);
    seen[i] = block;
    *count += i == *count;
    return block;
}

/* The records of blocks that nothing leads to any more are those of the next ones: of what had been
 * before what is freed or forgotten, and of all but one of those that a block takes the place of. A
 * program that goes round would ask for more memory with each round. Taken out, each by itself, and
 * seen to fail: either record_end in block_follows, the first in block_end. */
static void test_records_come_back(void **state)
{
    const check_block *seen[64];
    size_t count = 0;
    (void)state;
    for (int i = 0; i < 100; i++) {
        check_block_free(seen_make(seen, &count, SLOT, SLOT));
        check_block_free(seen_make(seen, &count, SLOT, SLOT));
        check_block_free(seen_make(seen, &count, 2 * SLOT, SLOT));
        check_block_free(seen_make(seen, &count, SLOT, 2 * SLOT));
        check_blocks_forget(SLOT, 2 * SLOT);
    }
    assert_true(count <= 4);
}

/* What Tenure said of freed memory is not believed of the block that has it next. */
static void test_a_block_begins_with_nothing(void **state)
{
    (void)state;
    check_block *block = check_block_make(SLOT, SLOT);
    block->own = 7;
    check_block_free(block);
    block->is_known_free = 1;
    check_block *next = check_block_make(SLOT, SLOT);
    assert_ptr_equal(next->before, block);
    assert_true(next->own == 0 && next->is_known_free == 0);
    check_blocks_forget(SLOT, SLOT);
    next = check_block_make(SLOT, SLOT); /* in one of their records */
    assert_null(next->before);
    assert_true(next->own == 0 && next->is_known_free == 0);
    check_blocks_forget(SLOT, SLOT);
}

/* A word of a structure may be left over from any block that is gone. Without block_forgotten in
 * block_forget the last assertion fails. */
static void test_the_first_block_at_an_address(void **state)
{
    const CUdeviceptr at = (CUdeviceptr)1 << 44; /* where no other test was before */
    (void)state;
    check_block *block = check_block_make(at, 2 * SLOT);
    assert_true(check_block_is_first(block));
    check_block_free(block);
    block = check_block_make(at, 2 * SLOT);
    assert_false(check_block_is_first(block));
    check_block_free(block);
    block = check_block_make(at, SLOT); /* the other half is nobody's */
    block = check_block_make(at + SLOT, SLOT);
    assert_false(check_block_is_first(block));
    check_blocks_forget(at, 4 * SLOT);
    block = check_block_make(at + 2 * SLOT, SLOT);
    assert_true(check_block_is_first(block));
    check_blocks_forget(at, 4 * SLOT);
    block = check_block_make(at + 2 * SLOT, SLOT);
    assert_false(check_block_is_first(block));
    check_blocks_forget(at, 4 * SLOT);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_the_first_block_at_an_address),
        cmocka_unit_test(test_blocks_are_found_as_in_a_list),
        cmocka_unit_test(test_a_block_that_begins_nowhere_is_not_followed),
        cmocka_unit_test(test_the_oldest_freed_blocks_are_forgotten),
        cmocka_unit_test(test_uses_of_many_streams_are_kept),
        cmocka_unit_test(test_records_come_back),
        cmocka_unit_test(test_a_block_begins_with_nothing),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
