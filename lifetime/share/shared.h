/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What an exporter and an importer tell each other. Both are on one machine, so numbers are as they
 * are in memory.
 *
 *   exporter, by the caller's socket     importer, by the socket that came with the first
 *   tnri_shared_block (with a socket)
 *                                        TNRI_SHARED_GREETING (with its process, if there is such
 *                                        a descriptor), before it maps anything
 *   of memory that it relays (relayed.h):
 *   tnri_shared_chunk, of no bytes (with
 *   a socket to where the memory is from)
 *   tnri_shared_chunk, for each chunk
 *   in order (with its descriptor)
 *                                        TNRI_SHARED_FAREWELL, once it has let go of everything
 *
 * If an exporter cannot send what was asked for, it sends a tnri_shared_block that says why,
 * without a socket, and nothing more.
 */
#ifndef TNRI_LIFETIME_SHARED_H
#define TNRI_LIFETIME_SHARED_H

#include <stdint.h>

/* Another number for each change of what follows. */
#define TNRI_SHARED_MAGIC UINT64_C(0x324565727565746e)

enum { TNRI_SHARED_CHUNKS_MAX = 1 << 22, TNRI_SHARED_FABRIC_BYTES = 64 };

typedef struct tnri_shared_block {
    uint64_t magic;
    uint64_t address;      /* of the block, in the exporter */
    uint64_t bytes;        /* that were asked for */
    uint64_t offset;       /* of the block in its first chunk */
    uint64_t mapped_bytes; /* of all chunks */
    uint64_t chunks_count;
    uint64_t handle_type; /* tnr_handle_type */
    uint64_t is_relayed;
    uint64_t refusal; /* a tnr_status; TNR_OK: none. Else all before but the magic is 0 */
    unsigned char uuid[16];
} tnri_shared_block;

typedef struct tnri_shared_chunk {
    uint64_t magic;
    uint64_t index; /* from 0 on; TNRI_SHARED_ORIGIN: no chunk */
    uint64_t bytes;
    unsigned char fabric[TNRI_SHARED_FABRIC_BYTES]; /* instead of a descriptor */
} tnri_shared_chunk;

#define TNRI_SHARED_ORIGIN UINT64_MAX

enum { TNRI_SHARED_GREETING = 1, TNRI_SHARED_FAREWELL = 2 };

typedef struct tnri_shared_word {
    uint64_t magic;
    uint64_t what;
} tnri_shared_word;

#endif
