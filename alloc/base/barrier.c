/* SPDX-License-Identifier: Apache-2.0 */
/* The kernel's membarrier: see barrier.h. */
#include "base/barrier.h"

#include <linux/membarrier.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/assert.h"

int tnri_barrier_start(void)
{
    return syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0) == 0;
}

void tnri_barrier_run(void)
{
    if (syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) != 0)
        tnri_assert_failed("membarrier serves who has registered", __FILE__, __LINE__);
}
