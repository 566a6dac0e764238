/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What every file that is read as an allocation trace must hold to, plain or compressed: a harness
 * for libFuzzer, and for replay.c.
 *
 * It is refused with a sentence that names the file, or every operation of it can be done: a slot
 * is allocated when it is free and freed when it is not, and the counts are those of a naive
 * replay. In free_accept (trace.c), the test for a second free removed: this failed at once.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "fuzz.h"
#include "trace.h"

#define MUST(condition)                                                                            \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: not so: %s\n", __FILE__, __LINE__, #condition);                \
            abort();                                                                               \
        }                                                                                          \
    } while (0)

static void replay_naively(const trace *in)
{
    uint64_t *bytes = calloc(in->slots_count + 1, sizeof(bytes[0]));
    char *is_live = calloc(in->slots_count + 1, 1);
    MUST(bytes != NULL && is_live != NULL);
    uint64_t live = 0;
    uint64_t peak = 0;
    size_t blocks = 0;
    size_t allocs = 0;
    for (size_t i = 0; i < in->ops_count; i++) {
        const trace_op *op = &in->ops[i];
        MUST(op->slot < in->slots_count && op->stream < in->streams_count);
        MUST(is_live[op->slot] == !op->is_alloc);
        is_live[op->slot] = (char)op->is_alloc;
        if (op->is_alloc) {
            bytes[op->slot] = op->bytes;
            live += op->bytes;
            blocks++;
            allocs++;
        } else {
            MUST(bytes[op->slot] == op->bytes);
            live -= op->bytes;
            blocks--;
        }
        if (live > peak)
            peak = live;
    }
    MUST(peak == in->peak_live_bytes && allocs == in->allocs_count && blocks == in->live_at_end);
    free(bytes);
    free(is_live);
    for (size_t i = 0; i < in->completions_count; i++) {
        const trace_completion *one = &in->completions[i];
        MUST(one->free_op < one->before_op && one->before_op <= in->ops_count);
        MUST(i == 0 || in->completions[i - 1].before_op <= one->before_op);
        MUST(!in->ops[one->free_op].is_alloc && in->ops[one->free_op].is_late);
    }
}

int LLVMFuzzerTestOneInput(const unsigned char *bytes, size_t length)
{
    char path[64];
    char error[512] = "";
    trace result = {.ops = NULL};
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    MUST(fd >= 0 && write(fd, bytes, length) == (ssize_t)length);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
    if (trace_read(&result, path, error, sizeof(error)) == 0)
        replay_naively(&result);
    else
        MUST(strncmp(error, path, strlen(path)) == 0 && strlen(error) > strlen(path) + 10);
    trace_release(&result);
    close(fd);
    return 0;
}
