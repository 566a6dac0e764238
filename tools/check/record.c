/* SPDX-License-Identifier: Apache-2.0 */
/*
 * auto_record:seen. The checker records with Tenure what launches and copies use, as the program
 * could have done with tnr_record_stream: the use ends no later than the free. So a block is handed
 * out again only after the uses that were seen, whether or not the program has ordered them.
 *
 * A stream that alone has memory needs no record (sole.c). docs/check.md lists what is not seen,
 * and so not recorded. Launches that cannot be read are counted and said at the end.
 */
#include "check/record.h"

#include <inttypes.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/plural.h"
#include "check/ending.h"
#include "check/findings.h"
#include "check/sole.h"
#include "check/text.h"
#include "service.h"

static uint64_t recorded, refused; /* under the lock of check_enter */

void check_record(CUdeviceptr address, CUstream stream)
{
    const void *block = (const void *)(uintptr_t)address;
    tnr_status status = tnr_record_stream(block, stream);
    if (status == TNR_ERR_INVALID_STREAM) /* of a peer: the use ends here */
        status = tnr_record_use(block, stream);
    recorded += status == TNR_OK;
    refused += status != TNR_OK && status != TNR_ERR_NOT_LIVE;
}

void check_record_end(void)
{
    char room[512];
    check_text said = {room, 0, sizeof(room), 0};
    uint64_t seen, unread;
    if (!check_does(CHECK_RECORDS) || service_is_forked() || !atomic_load(&driver_is_found) ||
        !check_enter())
        return;
    check_counts_get(&seen, &unread);
    uint64_t launches = seen + check_sole_launches();
    check_text_add(&said,
                   "tenure: auto_record: process %ld: %" PRIu64 " use%s recorded, %" PRIu64
                   " refused; %" PRIu64 " launch%s, %" PRIu64 " of them not read%s\n",
                   (long)getpid(), recorded, tnri_plural(recorded), refused, launches,
                   launches == 1 ? "" : "es", unread,
                   unread > 0 ? ": what those use is not waited for" : "");
    check_leave();
    (void)check_text_write(&said, STDERR_FILENO);
}
