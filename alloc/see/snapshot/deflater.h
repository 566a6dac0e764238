/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Compressing to gzip's format with the system's zlib, which is loaded by name when it is first
 * wanted. So a program that writes no compressed snapshot needs no zlib, and the library is not
 * linked with it.
 */
#ifndef TNRI_SNAPSHOT_DEFLATER_H
#define TNRI_SNAPSHOT_DEFLATER_H

#include <stddef.h>

#include <tenure/alloc.h>

typedef struct tnri_deflater tnri_deflater;
typedef void (*tnri_deflated)(void *user, const unsigned char *bytes, size_t count);

/* Errors: TNR_ERR_FILE (there is no zlib), TNR_ERR_HOST_MEMORY. */
tnr_status tnri_deflater_make(tnri_deflater **deflater);
/* Compresses; what comes out is passed on. */
void tnri_deflater_add(tnri_deflater *deflater, const unsigned char *bytes, size_t count,
                       tnri_deflated out, void *user);
/* Passes on what is still inside, for the last time. */
void tnri_deflater_end(tnri_deflater *deflater, tnri_deflated out, void *user);
void tnri_deflater_free(tnri_deflater *deflater);

#endif
