/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A lifetime tracker with a bug, for the test that `tenure fuzz` finds such bugs and shrinks the
 * programs that show them: a library to preload that sits between the command and Tenure.
 * TENURE_TEST_BUG chooses what is wrong:
 *
 *   forget   a use is forgotten if it is recorded with a pointer into the block, not to its start
 *   leak     the free of a block of an odd number of bytes is forgotten
 *   crash    the 10th free ends the process
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include <tenure/lifetime.h>

enum { CRASH_AT = 10 };

static unsigned frees;

static int bug_is(const char *name)
{
    const char *bug = getenv("TENURE_TEST_BUG");
    return bug != NULL && strcmp(bug, name) == 0;
}

TNR_API tnr_status tnr_record_use(const void *ptr, tnr_stream stream)
{
    tnr_status (*real)(const void *, tnr_stream);
    void *symbol = dlsym(RTLD_NEXT, "tnr_record_use");
    memcpy(&real, &symbol, sizeof(symbol));
    tnr_block_info info;
    if (bug_is("forget") && tnr_block_get(ptr, &info) == TNR_OK && info.base != ptr)
        return TNR_OK;
    return real(ptr, stream);
}

TNR_API tnr_status tnr_free(void *ptr)
{
    tnr_status (*real)(void *);
    void *symbol = dlsym(RTLD_NEXT, "tnr_free");
    memcpy(&real, &symbol, sizeof(symbol));
    tnr_block_info info;
    if (bug_is("leak") && tnr_block_get(ptr, &info) == TNR_OK && info.base == ptr &&
        info.bytes_requested % 2 != 0)
        return TNR_OK;
    if (bug_is("crash") && ++frees == CRASH_AT)
        abort();
    return real(ptr);
}
