/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program of the runtime that writes where it must not, and ends: traps WHAT [END].
 *
 *   clean    writes only what is its own
 *   over     behind a block that it frees with cudaFree
 *   async    behind a block that it frees with cudaFreeAsync
 *   late     into a block after cudaFree, at once and on another stream
 *   live     behind a block that it never frees
 *   clear    as over, after it has emptied its environment, before the first call
 *   child    as over, in a child that goes on when its parent has ended
 *
 *   return, quit (_exit), quick (quick_exit), abort, reset (cudaDeviceReset before the end), wait
 *   (until its standard input ends)
 */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "traps_named.h"

enum { BYTES = 1000 };

static void *block;
static cudaStream_t stream, other;

static void try(cudaError_t error)
{
    if (error != cudaSuccess)
        exit(3);
}

__attribute__((noinline)) static void take(void)
{
    try(cudaMalloc(&block, BYTES)); /* taken here */
    printf("taken\n");
}

__attribute__((noinline)) static void write_to(size_t from, size_t bytes, cudaStream_t on)
{
    try(cudaMemsetAsync((char *)block + from, 7, bytes, on));
    try(cudaStreamSynchronize(on));
}

__attribute__((noinline)) static void drop(void)
{
    try(cudaFree(block)); /* dropped here */
    printf("dropped\n");
}

static void over(void)
{
    take();
    write_to(0, BYTES + 4, stream);
    drop();
}

static void run(const char *what)
{
    try(cudaStreamCreate(&stream));
    try(cudaStreamCreate(&other));
    if (strcmp(what, "clean") == 0) {
        take();
        write_to(0, BYTES, stream);
        drop();
    } else if (strcmp(what, "async") == 0) {
        named_malloc(&block, BYTES, stream);
        write_to(0, BYTES + 1, stream);
        try(cudaFreeAsync(block, stream));
    } else if (strcmp(what, "late") == 0) {
        take();
        write_to(0, BYTES, stream);
        drop();
        write_to(20, 3, other);
    } else if (strcmp(what, "live") == 0) {
        take();
        write_to(0, BYTES + 4, stream);
    } else {
        over();
    }
}

/* The parent ends at once, and the child goes on when `tenure run`, its parent's, has ended too. */
static void child_go_on(void)
{
    pid_t runner = getppid();
    if (fork() != 0)
        _exit(0);
    while (kill(runner, 0) == 0)
        usleep(1000);
}

int main(int argc, char **argv)
{
    const char *what = argc > 1 ? argv[1] : "", *end = argc > 2 ? argv[2] : "return";
    if (strcmp(what, "clear") == 0)
        clearenv();
    if (strcmp(what, "child") == 0)
        child_go_on();
    run(what);
    fflush(stdout);
    if (strcmp(end, "quit") == 0)
        _exit(0);
    if (strcmp(end, "quick") == 0)
        quick_exit(0);
    while (strcmp(end, "wait") == 0 && getchar() != EOF)
        ;
    if (strcmp(end, "abort") == 0)
        abort();
    if (strcmp(end, "reset") == 0)
        try(cudaDeviceReset());
    return 0;
}
