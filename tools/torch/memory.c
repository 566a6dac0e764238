/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The allocator itself: one Tenure call behind each of PyTorch's, and what happens when one fails.
 *
 * PyTorch calls with or without its interpreter's lock. It keeps the size, device and stream of
 * each block, and passes them to the free. It never frees a null address.
 */
#include "tenure_torch.h"

#include <stdatomic.h>
#include <stdio.h>

static atomic_ulong failures;
/* Set once, before PyTorch allocates; read by all threads. */
static _Atomic(tenure_torch_raise) raise_out_of_memory;
static _Atomic(tenure_torch_raise) raise_other;

/* Our own lack of host memory is no error of Tenure's, which then has no sentence for it. */
static const char *sentence_of(tnr_status status)
{
    const char *sentence = tnr_last_error();
    return status == TNR_ERR_HOST_MEMORY || sentence[0] == '\0' ? tnr_status_text(status)
                                                                : sentence;
}

/* ---- failures ---------------------------------------------------------------------------------
 * */

void tenure_torch_raise_set(tenure_torch_raise out_of_memory, tenure_torch_raise other)
{
    atomic_store(&raise_out_of_memory, out_of_memory);
    atomic_store(&raise_other, other);
}

unsigned long tenure_torch_failures(void)
{
    return atomic_load(&failures);
}

void torch_failed_quietly(const char *call)
{
    atomic_fetch_add(&failures, 1);
    fprintf(stderr, "tenure: %s: %s\n", call, tnr_last_error());
}

void torch_failed(const char *call, tnr_status status)
{
    int is_memory = status == TNR_ERR_OUT_OF_MEMORY || status == TNR_ERR_LIMIT ||
                    status == TNR_ERR_ADDRESS_SPACE;
    tenure_torch_raise raise = atomic_load(is_memory ? &raise_out_of_memory : &raise_other);
    if (raise == NULL) {
        torch_failed_quietly(call);
        return;
    }
    atomic_fetch_add(&failures, 1);
    /* The exception copies the text. Static, because what is thrown leaves this frame. */
    static _Thread_local char text[4096];
    snprintf(text, sizeof(text), "%s%s",
             is_memory ? "CUDA out of memory. " : "Tenure: ", sentence_of(status));
    raise(call, __FILE__, (uint32_t)__LINE__, text);
}

/* ---- allocate and free ------------------------------------------------------------------------
 * */

static tnr_status block_malloc(void **ptr, size_t bytes, int device, tnr_stream stream)
{
    tnr_pool pool = NULL;
    if (!torch_pool_of(device, stream, &pool) || pool == NULL)
        return tnr_malloc(ptr, bytes, device, stream);
    /* By routing, not by tnr_pool_malloc: a stream that is being captured then still allocates from
     * its capture's pool. */
    tnr_status status = tnr_pool_push(pool);
    if (status == TNR_OK) {
        status = tnr_malloc(ptr, bytes, device, stream);
        if (tnr_pool_pop(pool) != TNR_OK)
            torch_failed_quietly("tnr_pool_pop");
    }
    return status;
}

void *tenure_torch_malloc(size_t bytes, int device, tnr_stream stream)
{
    void *ptr = NULL;
    tnr_status status = block_malloc(&ptr, bytes, device, stream);
    if (status != TNR_OK)
        torch_failed("tnr_malloc", status);
    return ptr;
}

void tenure_torch_free(void *ptr, size_t bytes, int device, tnr_stream stream)
{
    (void)bytes;
    tnr_pool pool;
    /* A free may be the first that is heard of a capture: the block is then kept for its graph. */
    torch_pool_of(device, stream, &pool);
    /* Destructors free: nothing may be thrown out of them. And a forked child, a data loader's
     * worker say, destroys the tensors that it was born with: they are its parent's. */
    tnr_status status = tnr_free(ptr);
    if (status != TNR_OK && status != TNR_ERR_AFTER_FORK)
        torch_failed_quietly("tnr_free");
}

void tenure_torch_record_stream(void *ptr, tnr_stream stream)
{
    if (ptr == NULL) /* a tensor without bytes */
        return;
    tnr_status status = tnr_record_stream(ptr, stream);
    /* Tensors may lie in memory of others (from_blob, another process): that is not ours to keep,
     * as PyTorch's own allocator has it. */
    if (status != TNR_OK && status != TNR_ERR_FOREIGN_POINTER)
        torch_failed("tnr_record_stream", status);
}

/* ---- the rest ---------------------------------------------------------------------------------
 * */

void tenure_torch_init(int devices_count)
{
    (void)devices_count; /* Tenure asks the driver itself */
    tnr_status status = tnr_init();
    if (status != TNR_OK)
        torch_failed("tnr_init", status);
}

void tenure_torch_reset(void)
{
    tnr_driver_info driver = {.struct_bytes = sizeof(driver)};
    torch_pools_end();
    tnr_status status = tnr_driver_get(&driver);
    for (int i = 0; status == TNR_OK && i < driver.devices_count; i++) {
        tnr_device_info device = {.struct_bytes = sizeof(device)};
        status = tnr_device_get(&device, i);
        if (status == TNR_OK && device.in_use)
            status = tnr_trim(NULL, 0, i);
    }
    if (status != TNR_OK)
        torch_failed("tnr_trim", status);
}

void tenure_torch_memory_fraction(double fraction, int device)
{
    size_t limit = SIZE_MAX;
    tnr_device_info info = {.struct_bytes = sizeof(info)};
    tnr_status status = tnr_device_get(&info, device);
    if (status == TNR_OK) {
        if (fraction < 1)
            limit = fraction > 0 ? (size_t)(fraction * (double)info.memory_bytes) : 0;
        status = tnr_limit_set(limit, device);
    }
    if (status != TNR_OK)
        torch_failed("tnr_limit_set", status);
}

void *tenure_torch_base_alloc(void *ptr, size_t *bytes)
{
    tnr_block_info block;
    if (ptr == NULL || tnr_block_get(&block, ptr) != TNR_OK)
        return ptr;
    if (bytes != NULL)
        *bytes = block.bytes;
    return block.base;
}
