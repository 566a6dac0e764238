/* SPDX-License-Identifier: Apache-2.0 */
/* Numbers of bytes, for people. */
#ifndef TNRI_BASE_BYTES_TEXT_H
#define TNRI_BASE_BYTES_TEXT_H

#include <stddef.h>
#include <stdint.h>

/* "1.50 GiB" into a buffer of the caller's. */
const char *tnri_bytes_text(uint64_t bytes, char *text, size_t text_bytes);
#define TNRI_BYTES(bytes) tnri_bytes_text((bytes), (char[32]){0}, 32)

#endif
