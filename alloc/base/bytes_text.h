/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Amounts of bytes, for people: in errors, in the command's tables, and, by the same rule, in the
 * report (tools/report/src/text/units.ts). The tools compile this file, too.
 *
 * A page has one unit, that of its largest amount, so that its amounts compare at a glance: GiB
 * from 1 GiB on. They have four digits at most, and two behind the point. An amount has a unit of
 * its own where the page's would say nothing of it: below a hundredth of it, and from 1,024 of it
 * on.
 */
#ifndef TNRI_BASE_BYTES_TEXT_H
#define TNRI_BASE_BYTES_TEXT_H

#include <stddef.h>
#include <stdint.h>

/* "1.50 GiB", "512 B" into a buffer of the caller's, on a page whose largest amount is `most`.
 * Returns the buffer. */
const char *tnri_bytes_text(uint64_t bytes, uint64_t most, char *text, size_t text_bytes);

/* For an amount of a page, and for one that stands alone. */
#define TNRI_BYTES_OF(bytes, most) tnri_bytes_text((bytes), (most), (char[32]){0}, 32)
#define TNRI_BYTES(bytes) TNRI_BYTES_OF(bytes, 0)

#endif
