/* SPDX-License-Identifier: Apache-2.0 */
/* See pages.h. */
#include "base/prim/pages.h"

#include <errno.h>
#include <sys/mman.h>

static void *pages_get(size_t bytes, int flags, int file)
{
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, file, 0);
    return memory == MAP_FAILED ? NULL : memory;
}

void *tnri_host_pages_map(size_t bytes, int is_sparse)
{
    return pages_get(bytes, MAP_PRIVATE | MAP_ANONYMOUS | (is_sparse ? MAP_NORESERVE : 0), -1);
}

void *tnri_host_pages_share(int file, size_t bytes)
{
    return pages_get(bytes, MAP_SHARED, file);
}

int tnri_host_pages_settle(void *memory, size_t bytes)
{
    if (msync(memory, bytes, MS_SYNC) != 0)
        return errno;
    (void)madvise(memory, bytes, MADV_DONTNEED);
    return 0;
}

void tnri_host_pages_unmap(void *memory, size_t bytes)
{
    (void)munmap(memory, bytes);
}

void tnri_host_pages_enlarge(void *memory, size_t bytes)
{
    (void)madvise(memory, bytes, MADV_HUGEPAGE);
}
