/* SPDX-License-Identifier: Apache-2.0 */
/* What a failed assertion does: see assert.h. */
#include "base/assert.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Writes a string with no buffer and no lock. A short or failed write is ignored: there is nothing
 * left to do about it. */
static void assert_print(const char *text)
{
    ssize_t written = write(STDERR_FILENO, text, strlen(text));
    (void)written;
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
