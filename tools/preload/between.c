/* SPDX-License-Identifier: Apache-2.0 */
/* Where a stack begins for its reader: see between.h. */
#include "between.h"

#include <ctype.h>
#include <stddef.h>
#include <string.h>

static int begins(const char *text, const char *with)
{
    return strncmp(text, with, strlen(with)) == 0;
}

static int begins_one(const char *text, const char *const *with, size_t count)
{
    for (size_t i = 0; i < count; i++)
        if (begins(text, with[i]))
            return 1;
    return 0;
}

/* 1 for a function of the runtime's as programs call it. A program may have names that begin with
 * "cuda", too. */
static int is_runtime_call(const char *function)
{
    static const char *const calls[] = {"Malloc", "Free",   "Mem",   "Stream", "Graph",
                                        "Device", "Launch", "Event", "Host"};
    if (!begins(function, "cuda") ||
        !begins_one(function + 4, calls, sizeof(calls) / sizeof(calls[0])))
        return 0;
    for (const char *rest = function + 4; *rest != '\0'; rest++)
        if (!isalnum((unsigned char)*rest) && *rest != '_')
            return 0;
    return 1;
}

int between_is(const char *file, const char *function)
{
    static const char *const files[] = {"libcudart", "libcuda.so", "libtenure"};
    static const char *const functions[] = {
        "tnr_",     "tnri_",      "__cudart",         "__device_stub__",
        "cudart::", "_ZN6cudart", "libcudart_static_"};
    if (file != NULL && begins_one(file, files, sizeof(files) / sizeof(files[0])))
        return 1;
    return function != NULL &&
           (begins_one(function, functions, sizeof(functions) / sizeof(functions[0])) ||
            is_runtime_call(function));
}
