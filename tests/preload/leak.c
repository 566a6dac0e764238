/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program of the runtime that keeps memory, and ends in the way that its argument says: exit,
 * abort, segv, quit (without exit handlers), kill (by SIGKILL) or wait (for a signal). Before its
 * first call ("before"), after its last one ("after"), in a child before the first ("child"), or
 * before it starts itself once more ("exec") it becomes another user, or, with a folder, changes
 * its root to that: leak END WHEN [FOLDER]. With "both" a child does all of it first, and then the
 * program, without a change.
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
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

static void change(const char *root)
{
    enum { NOBODY = 65534 };
    if (root != NULL ? chroot(root) != 0 || chdir("/") != 0
                     : setgid(NOBODY) != 0 || setuid(NOBODY) != 0)
        exit(4);
}

int main(int argc, char **argv)
{
    const char *end = argc > 1 ? argv[1] : "exit", *when = argc > 2 ? argv[2] : "";
    const char *root = argc > 3 ? argv[3] : NULL;
    int status;
    if (strcmp(when, "child") == 0 && fork() != 0)
        return wait(&status) < 0 || !WIFEXITED(status) ? 4 : WEXITSTATUS(status);
    if (strcmp(when, "both") == 0 && fork() != 0 && wait(&status) < 0)
        return 4;
    if (strcmp(when, "before") == 0 || strcmp(when, "child") == 0)
        change(root);
    if (strcmp(when, "exec") == 0) {
        change(root);
        execl("/proc/self/exe", argv[0], end, (char *)NULL);
        return 4;
    }
    for (int i = 0; i < KEPT; i++)
        leak(i);
    use();
    if (strcmp(when, "after") == 0)
        change(root);
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
