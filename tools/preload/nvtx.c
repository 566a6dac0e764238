/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Names of streams that the program gives through NVTX. NVTX is a header. At its first call in a
 * program it loads the library that NVTX_INJECTION64_PATH names, and hands it a table into which
 * the library can put functions. `tenure run` sets that variable to this library, unless a profiler
 * has set it. Only the functions that name a stream are put in. Tenure hands this library a table
 * too (alloc/log/nvtx.h), and blocks cost nothing more.
 *
 * A stream has one name, and Tenure keeps it. The checker is told the same name, because it knows
 * streams that Tenure does not know.
 */
#include <stdint.h>
#include <stdio.h>
#include <wchar.h>

#include "check/check.h"
#include "check/text.h"
#include "order.h"

/* NVTX's numbers, which are part of its interface to tools (nvtxTypes.h). */
enum {
    TABLE_CALLBACKS = 1,
    MODULE_CUDA = 2,
    MODULE_CUDART = 4,
    CUDA_STREAM_A = 5,
    CUDA_STREAM_W = 6,
    CUDART_STREAM_A = 3,
    CUDART_STREAM_W = 4
};

typedef void (*nvtx_function)(void);

typedef struct nvtx_callbacks {
    size_t bytes;
    int (*module_table)(int number, nvtx_function ***table, unsigned *count);
} nvtx_callbacks;

typedef const void *(*nvtx_tables)(uint32_t number);

static void named(CUstream stream, const char *name)
{
    if (name == NULL)
        return;
    order_stream_named(stream, name);
    CHECK_TELL(check_stream_named(stream, name));
}

/* In UTF-8. */
static void named_widely(CUstream stream, const wchar_t *name)
{
    char room[256];
    check_text text = {room, 0, sizeof(room), 0};
    room[0] = '\0';
    for (; name != NULL && *name != L'\0'; name++) {
        unsigned one = (unsigned)*name;
        if (one < 0x80)
            check_text_add(&text, "%c", (int)one);
        else if (one < 0x800)
            check_text_add(&text, "%c%c", (int)(0xc0 | one >> 6), (int)(0x80 | (one & 63)));
        else if (one < 0x10000)
            check_text_add(&text, "%c%c%c", (int)(0xe0 | one >> 12), (int)(0x80 | (one >> 6 & 63)),
                           (int)(0x80 | (one & 63)));
        else
            check_text_add(&text, "?");
    }
    if (name != NULL)
        named(stream, room);
}

static void module_fill(const nvtx_callbacks *from, int number, unsigned narrow, unsigned wide)
{
    nvtx_function **table = NULL;
    unsigned count = 0;
    if (!from->module_table(number, &table, &count) || table == NULL)
        return;
    if (narrow < count && table[narrow] != NULL)
        *table[narrow] = (nvtx_function)named;
    if (wide < count && table[wide] != NULL)
        *table[wide] = (nvtx_function)named_widely;
}

/* NVTX looks it up by this name. 1: it is to be used. */
__attribute__((visibility("default"))) int InitializeInjectionNvtx2(nvtx_tables tables);
int InitializeInjectionNvtx2(nvtx_tables tables)
{
    const nvtx_callbacks *from = tables(TABLE_CALLBACKS);
    if (from == NULL || from->bytes < sizeof(*from))
        return 0;
    module_fill(from, MODULE_CUDA, CUDA_STREAM_A, CUDA_STREAM_W);
    module_fill(from, MODULE_CUDART, CUDART_STREAM_A, CUDART_STREAM_W);
    return 1;
}
