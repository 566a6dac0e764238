/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Engines that call libtenure themselves: see engine.c.
 */
#ifndef TENURE_PRELOAD_CHECK_ENGINE_H
#define TENURE_PRELOAD_CHECK_ENGINE_H

/* The function that stands before this one of libtenure's, for a program that looks it up by name.
 * Null: none. */
void *check_engine_function(const char *name);

#endif
