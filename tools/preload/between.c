/* SPDX-License-Identifier: Apache-2.0 */
/* Which frames tell a reader of a finding nothing: see between.h. */
#include "between.h"

#include <string.h>

static int begins_one(const char *text, const char *const *with, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (strncmp(text, with[i], strlen(with[i])) == 0)
            return 1;
    return 0;
}

int between_is_outside(const char *file, const char *function)
{
    static const char *const files[] = {"libc.so",   "libc-",     "ld-linux",  "libpthread",
                                        "libstdc++", "libgcc_s.", "libpython", "python3",
                                        "libffi.",   "_ctypes."};
    static const char *const functions[] = {
        "_start", "__libc_start_", "std::", "__gnu_cxx::", "void std::", "_Py"};
    return (file != NULL && begins_one(file, files, sizeof(files) / sizeof(files[0]))) ||
           (function != NULL &&
            begins_one(function, functions, sizeof(functions) / sizeof(functions[0])));
}
