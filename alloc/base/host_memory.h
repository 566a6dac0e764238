/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Host memory for metadata, apart from the engine's heap.
 *
 * The bytes come from an arena of a private jemalloc (TNR_METADATA=jemalloc), so that Tenure never
 * fragments the engine's heap, is not hit by its corruption, and can say exactly what it uses.
 * TNR_METADATA=malloc uses the C library instead, for Valgrind and the sanitizers, which must see
 * each allocation. Very large sparse tables (the block map) are reserved from the kernel.
 *
 * Tests can make every allocation fail (tnri_host_fail_at). So they prove that a lack of host
 * memory loses nothing.
 */
#ifndef TNRI_BASE_HOST_MEMORY_H
#define TNRI_BASE_HOST_MEMORY_H

#include <stddef.h>
#include <stdint.h>

/* Zeroed memory, or null. Aligned to 64 bytes, a cache line. */
void *tnri_host_alloc(size_t bytes);
/* Returns memory of tnri_host_alloc; `bytes` as it was given there. Null is accepted. */
void tnri_host_free(void *memory, size_t bytes);

/* A sheet: zeroed host memory of one size, at a multiple of that size, or null. For large tables
 * that are read all over. The kernel makes one large page of a sheet if it can, so that the
 * processor finds all of it by one entry of its table of pages. A sheet counts as touched. */
#define TNRI_HOST_SHEET_BYTES ((size_t)2 << 20)
void *tnri_host_sheet_alloc(void);
void tnri_host_sheet_free(void *sheet);

/* A zeroed table that costs memory only where it is touched, or null. */
void *tnri_host_reserve(size_t bytes);
void tnri_host_unreserve(void *table, size_t bytes);

/* What the metadata costs now: bytes that the back end holds for Tenure, its own overhead
 * included, plus the touched part of reserved tables (counted by tnri_host_touched). */
uint64_t tnri_host_bytes(void);
/* Says that `bytes` of a reserved table have been touched for the first time (negative: given
 * back). */
void tnri_host_touched(int64_t bytes);

/* For tests: the nth allocation from now fails (1 is the next), and, if `sticky`, all later ones.
 * 0 switches it off. Returns how many have failed since the last call. */
uint64_t tnri_host_fail_at(uint64_t nth, int sticky);

/* Which back end was built: "jemalloc 5.3.0" or "malloc". */
const char *tnri_host_backend(void);

#endif
