/* SPDX-License-Identifier: Apache-2.0 */
/* What a failed assertion does: see assert.h. */
#include "base/assert.h"

#include <stdlib.h>
#include <string.h>

#include "base/prim/process.h"

static void assert_print(const char *text)
{
    tnri_complain(text, strlen(text));
}

_Noreturn void tnri_assert_failed(const char *condition, const char *file, int line)
{
    char digits[16];
    size_t at = sizeof(digits) - 1;
    digits[at] = '\0';
    do {
        digits[--at] = (char)('0' + line % 10);
        line /= 10;
    } while (line > 0 && at > 0);
    assert_print("tenure: bug in Tenure, please report: ");
    assert_print(condition);
    assert_print(" does not hold at ");
    assert_print(file);
    assert_print(":");
    assert_print(&digits[at]);
    assert_print("\n");
    abort();
}
