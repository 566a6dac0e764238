/* SPDX-License-Identifier: Apache-2.0 */
/* A program that uses an installed Tenure: allocates, looks at the block, frees, shuts down. */
#include <stdint.h>
#include <stdio.h>

#include <tenure/alloc.h>

static int failed(const char *what)
{
    fprintf(stderr, "%s: %s\n", what, tnr_last_error());
    return 1;
}

int main(void)
{
    /* The header's version, or a later one of the same interface. */
    if (tnr_version() < TNR_VERSION_NUMBER || tnr_version() / 10000 != TNR_VERSION_MAJOR) {
        fprintf(stderr, "header %d, library %u\n", TNR_VERSION_NUMBER, tnr_version());
        return 1;
    }
    void *ptr = NULL;
    if (tnr_malloc(&ptr, 3u << 20, 0, NULL) != TNR_OK)
        return failed("tnr_malloc");
    if (ptr == NULL || (uintptr_t)ptr % TNR_ALIGNMENT_DEFAULT != 0) {
        fprintf(stderr, "tnr_malloc gave %p\n", ptr);
        return 1;
    }
    tnr_block_info block;
    if (tnr_block_get(&block, (char *)ptr + 12345) != TNR_OK)
        return failed("tnr_block_get");
    if (block.base != ptr || block.bytes_requested != 3u << 20) {
        fprintf(stderr, "the block is another: %p, %zu\n", block.base, block.bytes_requested);
        return 1;
    }
    tnr_driver_info driver = {.struct_bytes = sizeof(driver)};
    if (tnr_driver_get(&driver) != TNR_OK)
        return failed("tnr_driver_get");
    const char *where = driver.simulated ? "the simulated device" : "a GPU";
    if (tnr_free(ptr) != TNR_OK)
        return failed("tnr_free");
    if (tnr_free(ptr) != TNR_ERR_NOT_LIVE) {
        fprintf(stderr, "a double free was accepted\n");
        return 1;
    }
    if (tnr_shutdown(0) != TNR_OK)
        return failed("tnr_shutdown");
    printf("allocated and freed on %s, by version %u\n", where, tnr_version());
    return 0;
}
