/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The least: memory, and its end. It calls nothing of CUDA's, so it needs no header of CUDA's.
 *
 *   cc first.c -o first $(pkg-config --cflags --libs tenure)
 *   ./first
 *   TENURE_DRIVER=sim ./first
 *
 * The first run is on a GPU; without one it says so. The second is on the simulated device.
 */
#include <stdio.h>

#include <tenure/tenure.h>

int main(void)
{
    void *block;
    if (tnr_malloc(&block, 64 << 20, /* device */ 0, /* stream */ NULL) != TNR_OK) {
        fprintf(stderr, "%s\n", tnr_last_error());
        return 1;
    }
    printf("64 MiB at %p\n", block);
    if (tnr_free(block) != TNR_OK || tnr_shutdown(/* force */ 0) != TNR_OK) {
        fprintf(stderr, "%s\n", tnr_last_error());
        return 1;
    }
    return 0;
}
