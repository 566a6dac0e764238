/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where blocks begin: from an address to the block that begins there, or to the last one that
 * begins below. No two of these blocks have a byte in common, nor do two begin between two
 * multiples of TNR_ALIGNMENT_DEFAULT.
 *
 * Most addresses that a program names are where a block begins: a table has those (blocks.h). For
 * the others, and for what a new block lies between, there is a bit for each possible beginning,
 * and a tree of such words, as high as addresses are long: so the search takes as long for a
 * million blocks as for ten. The blocks themselves hang together in the order of their addresses.
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

/* One in the place of another that begins where it does. */
void check_bases_replace(check_block *old, check_block *block);

void check_bases_remove(check_block *block);

#endif
