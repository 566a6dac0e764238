/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Included before everything else in every file that is compiled. From 2.38 on glibc's headers turn
 * strtol, sscanf and their kind into functions that older ones do not have (__isoc23_strtol), for
 * the sake of C23's binary numbers, wherever _GNU_SOURCE is defined. Nobody here reads binary
 * numbers, and the library is to be loaded where glibc is 2.34.
 */
#ifndef TENURE_OLDER_GLIBC_H
#define TENURE_OLDER_GLIBC_H

#include <features.h>

#if defined(__GLIBC_USE_C2X_STRTOL)
#undef __GLIBC_USE_C2X_STRTOL
#define __GLIBC_USE_C2X_STRTOL 0
#endif
#if defined(__GLIBC_USE_C23_STRTOL)
#undef __GLIBC_USE_C23_STRTOL
#define __GLIBC_USE_C23_STRTOL 0
#endif

#endif
