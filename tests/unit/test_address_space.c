/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A device's addresses: spans are apart, large enough, reused once returned, and last for the host
 * that the design asks for: hundreds of streams and pools on each of eight devices.
 *
 * In tnri_space_take, `used_bytes += span_bytes` removed: spans_do_not_overlap failed. In
 * tnri_space_take_at, `base <= base` not asked: at_an_address failed.
 */
#include "unit.h"

#include <string.h>

#include "base/host_memory.h"
#include "memory/space/address_space.h"

#define BASE ((uintptr_t)1 << 42)
#define TIB ((size_t)1 << 40)
enum { SPANS = 2000 };

static tnri_space space;
static tnri_span *spans[SPANS];

static void space_start(size_t bytes, unsigned page_shift)
{
    memset(&space, 0, sizeof(space));
    assert_int_equal(tnri_space_create(&space, BASE, bytes, page_shift), 1);
}

/* Returns every span and ends the space. */
static void space_stop(size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (spans[i] != NULL)
            tnri_space_return(&space, spans[i]);
    tnri_space_destroy(&space);
}

static void spans_are_apart(size_t count)
{
    for (size_t i = 0; i < count; i++) {
        if (spans[i] == NULL)
            continue;
        assert_true(spans[i]->base >= space.base);
        assert_true(spans[i]->base + spans[i]->bytes <= space.base + space.bytes);
        assert_int_equal(spans[i]->bytes & (spans[i]->bytes - 1), 0);
        for (size_t j = 0; j < i; j++)
            if (spans[j] != NULL)
                assert_true(spans[i]->base >= spans[j]->base + spans[j]->bytes ||
                            spans[j]->base >= spans[i]->base + spans[i]->bytes);
    }
}

static void spans_do_not_overlap(void **state)
{
    (void)state;
    space_start(256 * GIB, 21);
    memset(spans, 0, sizeof(spans));
    uint64_t random = 9;
    enum { SOME = 100 };
    for (int step = 0; step < 3000; step++) {
        size_t i = unit_below(&random, SOME);
        if (spans[i] != NULL) {
            tnri_space_return(&space, spans[i]);
            spans[i] = NULL;
        } else {
            size_t bytes = 1 + unit_below(&random, (uint64_t)1 << (20 + unit_below(&random, 13)));
            int addresses_left;
            spans[i] = tnri_space_take(&space, bytes, &addresses_left);
            if (spans[i] != NULL)
                assert_true(spans[i]->bytes >= bytes);
            else
                assert_int_equal(addresses_left, 0);
        }
        if (step % 50 == 0)
            spans_are_apart(SOME);
    }
    spans_are_apart(SOME);
    space_stop(SOME);
}

/* The end of the range, a request beyond it, and reuse of what was returned, split when smaller
 * ones are asked for. */
static void exhaustion_and_reuse(void **state)
{
    (void)state;
    int left;
    space_start(4 * GIB, 21);
    assert_null(tnri_space_take(&space, 5 * GIB, &left));
    assert_int_equal(left, 0);
    assert_null(tnri_space_take(&space, SIZE_MAX / 2, &left));
    assert_int_equal(left, 0);
    for (size_t i = 0; i < 4; i++) {
        spans[i] = tnri_space_take(&space, GIB, &left);
        assert_non_null(spans[i]);
    }
    assert_null(tnri_space_take(&space, 1, &left));
    assert_int_equal(left, 0);
    uintptr_t base = spans[2]->base;
    tnri_space_return(&space, spans[2]);
    enum { PARTS = 16 }; /* 1 GiB is 16 of the smallest spans */
    for (size_t i = 0; i < PARTS; i++) {
        spans[4 + i] = tnri_space_take(&space, 1, &left);
        assert_non_null(spans[4 + i]);
        assert_int_equal(spans[4 + i]->bytes, GIB / PARTS);
        assert_true(spans[4 + i]->base - base < GIB);
    }
    spans[2] = NULL;
    assert_null(tnri_space_take(&space, 1, &left));
    spans_are_apart(4 + PARTS);
    space_stop(4 + PARTS);
}

/* Small spans that are all back are large ones again, in whatever order they came, also those at
 * the end of what was ever dealt out. In tnri_space_return, either call of returned_join removed:
 * this failed; and without the growth in returned_find. */
static void what_is_back_is_whole(void **state)
{
    (void)state;
    enum { PARTS = 64, FIRST = 5 };
    int left;
    for (size_t stride = 1; stride < PARTS; stride += 2) {
        space_start(4 * GIB, 21);
        for (size_t i = 0; i < PARTS; i++)
            spans[i] = tnri_space_take(&space, 64 * MIB, &left);
        assert_null(tnri_space_take(&space, 1, &left));
        for (size_t i = 0; i < PARTS; i++)
            tnri_space_return(&space, spans[i * stride % PARTS]);
        spans[0] = tnri_space_take(&space, 4 * GIB, &left);
        assert_non_null(spans[0]);
        space_stop(1);
    }
    space_start(4 * GIB, 21);
    for (size_t i = 0; i < FIRST; i++)
        spans[i] = tnri_space_take(&space, 64 * MIB, &left);
    for (size_t i = 0; i < FIRST; i++)
        tnri_space_return(&space, spans[i]);
    spans[0] = tnri_space_take(&space, 4 * GIB, &left);
    assert_non_null(spans[0]);
    assert_int_equal(space.used_bytes, 4 * GIB);
    space_stop(1);
}

/* In tnri_space_take, *addresses_left set to 0 when host memory failed: this failed. */
static void no_host_memory(void **state)
{
    (void)state;
    int left;
    space_start(4 * GIB, 21);
    (void)tnri_host_fail_at(1, 0);
    assert_null(tnri_space_take(&space, GIB, &left));
    assert_int_equal(left, 1);
    assert_int_equal(tnri_host_fail_at(0, 0), 1);
    assert_int_equal(space.used_bytes, 0);
    spans[0] = tnri_space_take(&space, GIB, &left);
    tnri_space_return(&space, spans[0]);
    (void)tnri_host_fail_at(1, 1);
    assert_null(tnri_space_take(&space, 1, &left));
    (void)tnri_host_fail_at(0, 0);
    spans[0] = tnri_space_take(&space, GIB, &left); /* the returned one is still whole */
    assert_int_equal(spans[0]->base, BASE);
    space_stop(1);
}

/* One device of the plan: 8 TiB, eight of which fit in 47 bits. 300 streams in the default pool and
 * 100 pools of 10 streams use small and large blocks (64 MiB and 1 GiB of addresses each); eight of
 * them grow to all of the device's 139 GiB, each span twice as large as all before. */
static void the_plan_of_a_large_host(void **state)
{
    (void)state;
    int left;
    assert_true(8 * 8 * TIB <= (size_t)1 << 47);
    space_start(8 * TIB, 21);
    size_t count = 0;
    for (size_t arena = 0; arena < 300 + 100 * 10; arena++) {
        tnri_span *span = tnri_space_take(&space, 64 * MIB, &left);
        assert_non_null(span);
        tnri_space_return(&space, span);
        span = tnri_space_take(&space, 64 * MIB, &left);
        assert_non_null(span);
        spans[count++] = span;
    }
    size_t large = 0;
    for (size_t arena = 0; arena < 1300; arena++) {
        tnri_span *span = tnri_space_take(&space, GIB, &left);
        assert_non_null(span);
        large += span->bytes;
        if (count < SPANS)
            spans[count++] = span;
        else
            tnri_host_free(span, sizeof(*span));
    }
    for (size_t arena = 0; arena < 8; arena++)
        for (size_t all = GIB; all < 139 * GIB;) {
            tnri_span *span = tnri_space_take(&space, all * 2, &left);
            assert_non_null(span);
            all += span->bytes;
            large += span->bytes;
            tnri_host_free(span, sizeof(*span));
        }
    assert_true(large < 8 * TIB);
    spans_are_apart(count);
    for (size_t i = 0; i < count; i++)
        tnri_host_free(spans[i], sizeof(*spans[i]));
    memset(spans, 0, sizeof(spans));
    space_stop(0);
}

static void pages_and_addresses(void **state)
{
    (void)state;
    for (unsigned shift = 21; shift <= 30; shift += 3) {
        space_start(64 * GIB, shift);
        assert_int_equal(tnri_page_bytes(&space), (size_t)1 << shift);
        for (size_t page = 0; page < 64 * GIB >> shift; page += 1 + page / 3) {
            assert_int_equal(tnri_page_of(&space, tnri_page_address(&space, page)), page);
            assert_int_equal(
                tnri_page_of(&space, tnri_page_address(&space, page) + ((size_t)1 << shift) - 1),
                page);
        }
        int left;
        spans[0] = tnri_space_take(&space, 1, &left);
        assert_true(spans[0]->bytes >= (size_t)1 << shift); /* a page fits into the least span */
        space_stop(1);
    }
}

/* Exactly there: above what was dealt out, in the middle of what came back, and nowhere else. */
static void at_an_address(void **state)
{
    (void)state;
    space_start(256 * GIB, 21);
    int left, is_free;
    tnri_span *first = tnri_space_take(&space, 64 * MIB, &left);
    assert_null(tnri_space_take_at(&space, BASE + 2 * MIB, 4 * MIB, &is_free));
    assert_int_equal(is_free, 0);
    assert_null(tnri_space_take_at(&space, BASE + 62 * MIB, 4 * MIB, &is_free)); /* half of it */
    assert_int_equal(is_free, 0);
    tnri_span *far = tnri_space_take_at(&space, BASE + GIB, 6 * MIB, &is_free);
    assert_non_null(far);
    assert_int_equal(far->base, BASE + GIB);
    assert_int_equal(far->bytes, 6 * MIB);
    assert_null(tnri_space_take_at(&space, BASE + GIB, 2 * MIB, &is_free));
    assert_int_equal(is_free, 0);
    tnri_space_return(&space, first);
    tnri_span *middle = tnri_space_take_at(&space, BASE + 10 * MIB, 20 * MIB, &is_free);
    assert_int_equal(middle->base, BASE + 10 * MIB);
    tnri_span *low = tnri_space_take_at(&space, BASE, 10 * MIB, &is_free);
    assert_int_equal(low->bytes, 10 * MIB);
    tnri_span *last = tnri_space_take_at(&space, BASE + 256 * GIB - 2 * MIB, 2 * MIB, &is_free);
    assert_non_null(last);
    for (uint64_t nth = 1; nth <= 3; nth++) { /* of host memory */
        (void)tnri_host_fail_at(nth, 0);
        tnri_span *one = tnri_space_take_at(&space, BASE + 3 * GIB, 2 * MIB, &is_free);
        (void)tnri_host_fail_at(0, 0);
        assert_int_equal(is_free, 1);
        if (one != NULL)
            tnri_space_return(&space, one);
    }
    tnri_space_return(&space, middle);
    tnri_space_return(&space, far);
    tnri_space_return(&space, low);
    tnri_space_return(&space, last);
    assert_int_equal(space.returned->bytes, 256 * GIB); /* one range again */
    assert_null(space.returned->next);
    space_stop(0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(at_an_address),        cmocka_unit_test(spans_do_not_overlap),
        cmocka_unit_test(exhaustion_and_reuse), cmocka_unit_test(what_is_back_is_whole),
        cmocka_unit_test(no_host_memory),       cmocka_unit_test(the_plan_of_a_large_host),
        cmocka_unit_test(pages_and_addresses),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
