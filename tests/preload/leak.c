/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program of the runtime that keeps memory, and ends in the way that its argument says: exit,
 * abort, segv, quit (without exit handlers), kill (by SIGKILL) or wait (for a signal).
 */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mock_runtime.h"

enum { KEPT = 6, KEPT_BYTES = 3 << 20, FREED_BYTES = 70000 };

static void *kept[KEPT];

/* Where the memory goes: what a report is to name. */
__attribute__((noinline)) static void leak(int i)
{
    if (cudaMalloc(&kept[i], KEPT_BYTES) != cudaSuccess) /* the line */
        exit(3);
    printf("kept %d\n", i); /* so that the call above is not the last thing done */
}

__attribute__((noinline)) static void use(void)
{
    void *block;
    if (cudaMalloc(&block, FREED_BYTES) != cudaSuccess || cudaFree(block) != cudaSuccess)
        exit(3);
    printf("%p\n", block);
    fflush(stdout);
}

int main(int argc, char **argv)
{
    const char *end = argc > 1 ? argv[1] : "exit";
    for (int i = 0; i < KEPT; i++)
        leak(i);
    use();
    if (strcmp(end, "abort") == 0)
        abort();
    if (strcmp(end, "segv") == 0)
        raise(SIGSEGV);
    if (strcmp(end, "quit") == 0)
        _exit(5);
    if (strcmp(end, "kill") == 0)
        raise(SIGKILL);
    if (strcmp(end, "wait") == 0)
        pause();
    return 0;
}
