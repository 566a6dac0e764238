/* SPDX-License-Identifier: Apache-2.0 */
/*
 * In builds with TNR_COVERAGE: _exit() that writes the counts first. gcc's run-time writes them
 * when a process ends by exit(). Each program and library has a run-time of its own, which cannot
 * be called from outside. So each registers its own (counted.c).
 *
 * A library, so that the dynamic linker finds this _exit() before the C library's.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE /* RTLD_NEXT */
#endif

#include "counts.h"

#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

enum { DUMPS_MAX = 16 };
static void (*dumps[DUMPS_MAX])(void); /* written by constructors, before there are threads */
static unsigned dumps_count;

void tenure_counts_enlist(void (*dump)(void))
{
    if (dumps_count < DUMPS_MAX)
        dumps[dumps_count++] = dump;
}

__attribute__((visibility("default"))) void _exit(int status)
{
    for (unsigned i = 0; i < dumps_count; i++)
        dumps[i]();
    ((void (*)(int))(uintptr_t)dlsym(RTLD_NEXT, "_exit"))(status);
    __builtin_unreachable();
}

__attribute__((visibility("default"))) void _Exit(int status)
{
    _exit(status);
}
