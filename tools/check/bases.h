/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where blocks begin: finds for an address the block that begins there, or the last one that begins
 * below. No two of these blocks have a byte in common. At most one begins between two multiples of
 * TNR_ALIGNMENT_DEFAULT.
 *
 * Most addresses that a program names are where a block begins: a table finds those (blocks.h). For
 * the other addresses, and for a new block's neighbours, there is a bit for each possible
 * beginning, and a tree of words of such bits. The tree's height depends only on the length of
 * addresses. So the search takes as long for a million blocks as for ten. The blocks themselves are
 * linked in the order of their addresses.
 *
 * Between check_enter and check_leave. For blocks.c alone.
 */
#ifndef TENURE_PRELOAD_CHECK_BASES_H
#define TENURE_PRELOAD_CHECK_BASES_H

#include "check/blocks.h"

/* The last block that begins at the address or below it, and the first of all; null: none. */
check_block *check_bases_below(CUdeviceptr address);
check_block *check_bases_first(void);

/* Enters a block above the one that check_bases_below says for its base. 0: there is no host memory
 * for it, or it begins where no block of Tenure's can. */
int check_bases_add(check_block *block, check_block *lower);

/* Puts a block in the place of another that begins at the same address. */
void check_bases_replace(check_block *old, check_block *block);

void check_bases_remove(check_block *block);

#endif
