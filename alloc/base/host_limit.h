/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host limits: what the machine, and each control group that the process is in, has left of host
 * memory. The kernel kills a process that takes more than that, without a word. So Tenure asks
 * before it takes host memory for contents, or for pools.
 *
 * Where the numbers are (versions 1 and 2 of control groups, and the machine's own):
 *   /proc/meminfo                             MemAvailable
 *   /proc/self/cgroup                         the group, "/a/b"
 *   /sys/fs/cgroup/a/b, /a, /                 memory.max, memory.current, memory.stat
 *   /sys/fs/cgroup/memory/a/b, /a, /          memory.limit_in_bytes, memory.usage_in_bytes, ...
 *   /proc/pressure/memory                     how long threads stood still: not a limit
 * Contents of files that a group has in memory are counted as left, because the
 * kernel gives them up. A file that is not there limits nothing.
 *
 * The limit on locked memory (ulimit -l) kills nobody. If the driver's pinned memory counts as
 * locked, the system refuses to pin more, and the rest goes through the ring. So Tenure does not
 * look at this limit before, but names it after a refusal.
 *
 * For any thread. No lock, no host memory; reads files.
 */
#ifndef TNRI_BASE_HOST_LIMIT_H
#define TNRI_BASE_HOST_LIMIT_H

#include <stddef.h>
#include <stdint.h>

#include <tenure/alloc.h>

/* So much is left for what the program itself needs meanwhile. */
#define TNRI_HOST_LIMIT_REST ((uint64_t)64 << 20)

typedef struct tnri_host_limit {
    uint64_t left;   /* bytes; UINT64_MAX: no limit was found */
    char where[256]; /* the file that says so */
} tnri_host_limit;

/* The tightest limit. */
void tnri_host_limit_read(tnri_host_limit *limit);

/* 1 if so many bytes more would leave `rest`. *limit is what was read. */
int tnri_host_limit_allows(tnri_host_limit *limit, size_t bytes, uint64_t rest);

/* 1 if threads of the machine stand still for want of memory: for a tenth of the last 10 s or more
 * (/proc/pressure/memory). 0 also where the kernel does not tell. */
int tnri_host_is_pressed(void);

/* After the system has refused to pin memory: adds the limit on locked memory to the sentence. */
void tnri_host_limit_explain(void);

#endif
