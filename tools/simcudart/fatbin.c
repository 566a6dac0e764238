/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The container that nvcc embeds: code of several kinds and architectures, one entry each. Of it
 * the machine code that suits the simulated device best is chosen.
 *
 * Nothing is run, so any architecture will do: that of the simulated device, else the highest.
 * Entries that are compressed by LZ4 are read, and those by zstd if libzstd.so.1 is there.
 */
#include "rt.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

enum { CONTAINER_MAGIC = (int)0xba55ed50, KIND_ELF = 2, ARCHITECTURE = 90 };
enum { FLAG_LZ4 = 0x2000, FLAG_ZSTD = 0x8000 };

typedef struct container {
    uint32_t magic;
    uint16_t version;
    uint16_t header_bytes;
    uint64_t bytes; /* of the entries */
} container;

typedef struct entry {
    uint16_t kind;
    uint16_t version;
    uint32_t header_bytes;
    uint64_t payload_bytes; /* as it is stored, with padding */
    uint32_t packed_bytes;  /* without, where it is compressed */
    uint32_t unused_20;
    uint32_t unused_24;
    uint32_t architecture; /* 90 of sm_90 */
    uint32_t unused_32[2];
    uint64_t flags;
    uint64_t unused_48;
    uint64_t unpacked_bytes;
} entry;

typedef size_t (*unpack_function)(void *to, size_t room, const void *from, size_t bytes);

/* The length of literals or of a match: what the token has not room for follows in bytes. */
static size_t length_read(size_t length, const unsigned char **at, const unsigned char *end)
{
    unsigned more = 255;
    for (int is_long = length == 15; is_long && more == 255 && *at < end; length += more)
        more = *(*at)++;
    return length;
}

/* One block of LZ4: tokens, each with literals and then a match, which is earlier output. Returns
 * how much it has written; it stops where something is wrong. */
static size_t lz4_unpack(void *out, size_t room, const void *packed, size_t bytes)
{
    enum { MATCH_MIN = 4 };
    unsigned char *to = out;
    const unsigned char *at = packed, *end = at + bytes;
    size_t used = 0;
    while (at < end) {
        unsigned token = *at++;
        size_t literals = length_read(token >> 4, &at, end);
        if (literals > (size_t)(end - at) || literals > room - used)
            return used;
        memcpy(to + used, at, literals);
        used += literals;
        at += literals;
        if (end - at < 2)
            return used;
        size_t offset = at[0] | (size_t)at[1] << 8;
        at += 2;
        size_t match = length_read(token & 15, &at, end) + MATCH_MIN;
        if (offset == 0 || offset > used || match > room - used)
            return used;
        for (size_t i = 0; i < match; i++, used++) /* it may reach into what it writes */
            to[used] = to[used - offset];
    }
    return used;
}

/* ISO C has no cast from an object's pointer to a function's. */
static unpack_function zstd_find(void)
{
    unpack_function function = NULL;
    void *library = dlopen("libzstd.so.1", RTLD_NOW | RTLD_LOCAL);
    void *symbol = library == NULL ? NULL : dlsym(library, "ZSTD_decompress");
    memcpy(&function, &symbol, sizeof(symbol));
    return function;
}

/* The entry's machine code, unpacked where it has to be: *unpacked is then to be freed. */
static const void *payload_get(const entry *one, const unsigned char *payload, size_t *bytes,
                               void **unpacked)
{
    *unpacked = NULL;
    *bytes = one->payload_bytes;
    if ((one->flags & (FLAG_LZ4 | FLAG_ZSTD)) == 0)
        return payload;
    unpack_function unpack = (one->flags & FLAG_LZ4) != 0 ? lz4_unpack : zstd_find();
    *unpacked = unpack == NULL ? NULL : malloc(one->unpacked_bytes);
    if (*unpacked == NULL || one->packed_bytes > one->payload_bytes)
        return NULL;
    *bytes = unpack(*unpacked, one->unpacked_bytes, payload, one->packed_bytes);
    if (*bytes == one->unpacked_bytes)
        return *unpacked;
    return NULL;
}

static int is_better(uint32_t architecture, uint32_t than)
{
    if (than == ARCHITECTURE)
        return 0;
    return architecture == ARCHITECTURE || architecture > than;
}

/* 0 when memory is short. */
static int entry_read(const entry *one, const unsigned char *payload, rt_code *code)
{
    size_t bytes = 0;
    void *unpacked = NULL;
    rt_code found;
    memset(&found, 0, sizeof(found));
    const void *image = payload_get(one, payload, &bytes, &unpacked);
    if (image == NULL) {
        free(unpacked);
        return 1;
    }
    found.unpacked = unpacked;
    found.architecture = (int)one->architecture;
    if (!rt_cubin_read(image, bytes, &found)) {
        rt_code_free(&found);
        return 0;
    }
    rt_code_free(code);
    *code = found;
    return 1;
}

size_t rt_fatbin_bytes(const void *fatbin, size_t most)
{
    container head;
    memcpy(&head.magic, fatbin, sizeof(head.magic));
    if (head.magic != (uint32_t)CONTAINER_MAGIC)
        return rt_cubin_bytes(fatbin, most);
    memcpy(&head, fatbin, sizeof(head));
    return head.header_bytes + head.bytes;
}

int rt_fatbin_read(const void *fatbin, rt_code *code)
{
    container head;
    memset(code, 0, sizeof(*code));
    if (fatbin == NULL)
        return 1;
    memcpy(&head, fatbin, sizeof(head));
    if (head.magic != (uint32_t)CONTAINER_MAGIC)
        return rt_cubin_read(fatbin, rt_cubin_bytes(fatbin, SIZE_MAX), code);
    const unsigned char *at = (const unsigned char *)fatbin + head.header_bytes;
    const unsigned char *end = at + head.bytes;
    while ((size_t)(end - at) >= sizeof(entry)) {
        entry one;
        memcpy(&one, at, sizeof(one));
        const unsigned char *payload = at + one.header_bytes;
        if (one.header_bytes < sizeof(one) || one.payload_bytes > (size_t)(end - payload))
            return 1;
        if (one.kind == KIND_ELF && is_better(one.architecture, (uint32_t)code->architecture) &&
            !entry_read(&one, payload, code))
            return 0;
        at = payload + one.payload_bytes;
    }
    return 1;
}

void rt_code_free(rt_code *code)
{
    for (size_t i = 0; i < code->kernel_count; i++) {
        free(code->kernels[i].param_bytes);
        free(code->kernels[i].param_offset);
    }
    free(code->kernels);
    free(code->variables);
    free(code->unpacked);
    memset(code, 0, sizeof(*code));
}
