/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An allocator with a bug, for the test that `tenure replay` finds such bugs: a library to preload
 * that sits between the command and Tenure. TENURE_TEST_BUG chooses what is wrong:
 *
 *   overlap  some allocations get an address that is still somebody else's
 *   leak     some frees are forgotten
 *
 * For one thread. What it hides from Tenure it never frees; the command ends soon after.
 */
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include <tenure/alloc.h>

enum { EVERY = 20, SHARED_MAX = 4096 };

/* The block that the next victim shares, and the addresses that have been handed out twice. */
static void *last_ptr;
static size_t last_bytes;
static void *shared[SHARED_MAX];
static size_t shared_count;
static unsigned allocations, frees;

static int bug_is(const char *name)
{
    const char *bug = getenv("TENURE_TEST_BUG");
    return bug && strcmp(bug, name) == 0;
}

TNR_API tnr_status tnr_malloc(void **ptr, size_t bytes, int device, tnr_stream stream)
{
    tnr_status (*real)(void **, size_t, int, tnr_stream);
    void *symbol = dlsym(RTLD_NEXT, "tnr_malloc");
    memcpy(&real, &symbol, sizeof(symbol));
    if (bug_is("overlap") && ++allocations % EVERY == 0 && last_ptr && bytes <= last_bytes &&
        shared_count < SHARED_MAX) {
        *ptr = shared[shared_count++] = last_ptr;
        last_ptr = NULL;
        return TNR_OK;
    }
    tnr_status status = real(ptr, bytes, device, stream);
    if (status == TNR_OK) {
        last_ptr = *ptr;
        last_bytes = bytes;
    }
    return status;
}

TNR_API tnr_status tnr_free(void *ptr)
{
    tnr_status (*real)(void *);
    void *symbol = dlsym(RTLD_NEXT, "tnr_free");
    memcpy(&real, &symbol, sizeof(symbol));
    if (ptr == last_ptr)
        last_ptr = NULL;
    /* The first of the two owners that frees is ignored. */
    for (size_t i = 0; i < shared_count; i++) {
        if (shared[i] == ptr) {
            shared[i] = shared[--shared_count];
            return TNR_OK;
        }
    }
    if (bug_is("leak") && ++frees % EVERY == 0)
        return TNR_OK;
    return real(ptr);
}
