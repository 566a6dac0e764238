/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A lifetime tracker with a bug, for the test that `tenure fuzz` finds such bugs and shrinks the
 * programs that show them: a library to preload that sits between the command and Tenure.
 * TENURE_TEST_BUG chooses what is wrong:
 *
 *   forget   a use is forgotten if it is recorded with a pointer into the block, not to its start
 *   leak     the free of a block of an odd number of bytes is forgotten
 *   crash    the 10th free ends the process
 *   worn     the 10th free after a tnr_shutdown ends the process
 *   hang     the 10th free does not come back
 *   stuck    the stream of the 10th recorded use outside captures waits from then on for a word
 *            that nobody writes
 */
#include <dlfcn.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <tenure/lifetime.h>

enum { FREE_AT = 10, USE_AT = 10 };

static unsigned frees, uses;
static unsigned shutdowns;

static int bug_is(const char *name)
{
    const char *bug = getenv("TENURE_TEST_BUG");
    return bug != NULL && strcmp(bug, name) == 0;
}

static void *driver_symbol(const char *name)
{
    void *driver = dlopen(getenv("TENURE_DRIVER"), RTLD_NOW | RTLD_NOLOAD);
    return driver != NULL ? dlsym(driver, name) : NULL;
}

/* A wait inside a capture would be part of the graph, or end the capture with an error. */
static int stream_is_capturing(tnr_stream stream)
{
    int (*is_capturing)(tnr_stream, int *);
    void *symbol = driver_symbol("cuStreamIsCapturing");
    int state = 0;
    memcpy(&is_capturing, &symbol, sizeof(symbol));
    return symbol != NULL && (is_capturing(stream, &state) != 0 || state != 0);
}

/* Makes the stream wait for ever, through the driver that the command uses. Its types are spelled
 * out: this library is built without CUDA's headers. Other streams may be in a capture, which an
 * allocation would end: this thread asks for the relaxed mode (2) meanwhile. */
static void stream_stick(tnr_stream stream)
{
    int (*host_alloc)(void **, size_t, unsigned);
    int (*wait_value)(tnr_stream, unsigned long long, uint32_t, unsigned);
    int (*exchange_mode)(int *);
    void *alloc_symbol = driver_symbol("cuMemHostAlloc");
    void *wait_symbol = driver_symbol("cuStreamWaitValue32_v2");
    void *mode_symbol = driver_symbol("cuThreadExchangeStreamCaptureMode");
    void *word = NULL;
    int mode = 2;
    if (alloc_symbol == NULL || wait_symbol == NULL || mode_symbol == NULL)
        return;
    memcpy(&host_alloc, &alloc_symbol, sizeof(alloc_symbol));
    memcpy(&wait_value, &wait_symbol, sizeof(wait_symbol));
    memcpy(&exchange_mode, &mode_symbol, sizeof(mode_symbol));
    (void)exchange_mode(&mode);
    int has_word = host_alloc(&word, 4096, 2) == 0; /* CU_MEMHOSTALLOC_DEVICEMAP */
    (void)exchange_mode(&mode);
    if (!has_word)
        return;
    memset(word, 0, 4096);
    (void)wait_value(stream, (unsigned long long)(uintptr_t)word, 1, 0);
}

TNR_API tnr_status tnr_record_use(const void *ptr, tnr_stream stream)
{
    tnr_status (*real)(const void *, tnr_stream);
    void *symbol = dlsym(RTLD_NEXT, "tnr_record_use");
    memcpy(&real, &symbol, sizeof(symbol));
    tnr_block_info info;
    if (bug_is("forget") && tnr_block_get(&info, ptr) == TNR_OK && info.base != ptr)
        return TNR_OK;
    if (bug_is("stuck") && !stream_is_capturing(stream) && ++uses == USE_AT)
        stream_stick(stream);
    return real(ptr, stream);
}

TNR_API tnr_status tnr_shutdown(int force)
{
    tnr_status (*real)(int);
    void *symbol = dlsym(RTLD_NEXT, "tnr_shutdown");
    memcpy(&real, &symbol, sizeof(symbol));
    shutdowns++;
    return real(force);
}

TNR_API tnr_status tnr_free(void *ptr)
{
    tnr_status (*real)(void *);
    void *symbol = dlsym(RTLD_NEXT, "tnr_free");
    memcpy(&real, &symbol, sizeof(symbol));
    tnr_block_info info;
    if (bug_is("leak") && tnr_block_get(&info, ptr) == TNR_OK && info.base == ptr &&
        info.bytes_requested % 2 != 0)
        return TNR_OK;
    if (bug_is("crash") && ++frees == FREE_AT)
        abort();
    if (bug_is("worn") && shutdowns != 0 && ++frees == FREE_AT)
        abort();
    while (bug_is("hang") && frees + 1 >= FREE_AT)
        pause();
    frees += (unsigned)bug_is("hang");
    return real(ptr);
}
