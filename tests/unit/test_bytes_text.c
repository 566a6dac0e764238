/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Amounts of bytes in words: one unit for a page, but for amounts of which it would say nothing.
 * The report's are the same: tests/report/test_data.mjs has these cases.
 *
 * Seen to fail: with each amount in its own unit; without the units of their own below a hundredth,
 * and from 1,024 on; with two digits whatever stands before the point.
 */
#include <stdio.h>

#include "base/bytes_text.h"
#include "unit.h"

#define TIB (UINT64_C(1) << 40)

static void a_page_has_one_unit(void **state)
{
    static const struct {
        uint64_t most, bytes;
        const char *text;
    } cases[] = {
        {0, 0, "0 B"},
        {0, 1023, "1023 B"},
        {0, 1024, "1.00 KiB"},
        {0, 1000 * 1024, "1000 KiB"},
        {0, 41 * MIB / 4, "10.25 MiB"},
        {0, 80 * GIB, "80.00 GiB"},
        {0, UINT64_C(3) << 60, "3.00 EiB"},
        {24 * GIB, 0, "0 B"},
        {24 * GIB, 512, "512 B"},
        {24 * GIB, 10 * MIB, "10.00 MiB"},
        {24 * GIB, 11 * MIB, "0.01 GiB"},
        {24 * GIB, 64 * MIB, "0.06 GiB"},
        {24 * GIB, 900 * MIB, "0.88 GiB"},
        {24 * GIB, 24 * GIB, "24.00 GiB"},
        {24 * GIB, TIB, "1.00 TiB"},
        {40 * MIB, 8 * 1024, "8.00 KiB"},
        {40 * MIB, 64 * 1024, "0.06 MiB"},
        {40 * MIB, 3 * MIB / 2, "1.50 MiB"},
        {40 * MIB, 139 * GIB, "139.0 GiB"},
        {0, UINT64_MAX, "16.00 EiB"},
        {UINT64_MAX, UINT64_MAX, "16.00 EiB"},
    };
    (void)state;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
        assert_string_equal(TNRI_BYTES_OF(cases[i].bytes, cases[i].most), cases[i].text);
    assert_string_equal(TNRI_BYTES(5 * MIB), "5.00 MiB");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_page_has_one_unit),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
