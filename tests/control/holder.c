/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A program that uses Tenure: 5 MiB in a region with the tag "weights", 3 MiB outside. It prints
 * the path of its socket and waits until its input ends. HOLDER_STREAM is what it calls the default
 * stream.
 */
#include <stdio.h>
#include <stdlib.h>

#include <tenure/tenure.h>

static void must(tnr_status status)
{
    if (status == TNR_OK)
        return;
    fprintf(stderr, "holder: %s\n", tnr_last_error());
    exit(1);
}

int main(void)
{
    tnr_pool pool;
    void *weights, *plain;
    char path[512];
    must(tnr_init());
    must(tnr_tag_pool(&pool, "weights", TNR_CONTENT_DEFAULT));
    must(tnr_pool_push(pool));
    must(tnr_malloc(&weights, (size_t)5 << 20, 0, NULL));
    must(tnr_pool_pop(pool));
    must(tnr_malloc(&plain, (size_t)3 << 20, 0, NULL));
    if (getenv("HOLDER_STREAM") != NULL)
        must(tnr_stream_name_set(0, NULL, getenv("HOLDER_STREAM")));
    (void)tnr_control_path(path, sizeof(path));
    puts(path);
    fflush(stdout);
    while (getchar() != EOF)
        ;
    must(tnr_shutdown(1)); /* a pool may sleep */
    return 0;
}
