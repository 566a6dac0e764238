/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Functions that `tenure run` replaces, and of which the driver has a version that this Tenure does
 * not know. If a program asks for that version, the call goes to the driver.
 */
#ifndef TENURE_NEWER_H
#define TENURE_NEWER_H

#include <stddef.h>

#include <tenure/alloc.h>

/* Stores the names of up to `room` of them; returns how many there are. Names live as long as the
 * process. 0 if the driver cannot be asked. */
size_t newer_find(const char **names, size_t room, const tnr_driver_info *driver);

#endif
