/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The driver that the program has loaded, never one that we choose. It is found among the loaded
 * libraries when it is first needed. Until then, and if there is none, all its functions are null.
 */
#ifndef TENURE_PRELOAD_DRIVER_H
#define TENURE_PRELOAD_DRIVER_H

#include <stdatomic.h>

#include "entries.h"

/* The driver's functions. The forms for the thread's default stream that take a stream are the same
 * as the other forms with CU_STREAM_PER_THREAD. Constant once driver_find has returned 1. */
typedef struct driver_functions {
#define PRELOAD_ENTRY(name, symbol, type, since, form, group) type fn_##symbol;
#define PRELOAD_CALL(name, type, since) type fn_##name;
#include "entries.def"
#undef PRELOAD_ENTRY
#undef PRELOAD_CALL
} driver_functions;

extern driver_functions driver;

/* 1 if the program has loaded a driver. Never starts it. Any thread; may take the loader's lock the
 * first time. */
extern _Atomic int driver_is_found; /* set last: what is constant then is written before */
int driver_look(void);
static inline int driver_find(void)
{
    return __builtin_expect(atomic_load_explicit(&driver_is_found, memory_order_acquire), 1) ||
           driver_look();
}

/* Called once by the thread that finds the driver, before that thread calls the driver; null: no
 * function is called. No locks are held. */
extern _Atomic(void (*)(void)) driver_when_found;

/* Takes the library that has this symbol as the driver, if it is a driver and none was found
 * before: a program may load the driver from a place of its own. `found` is what dlsym gave for the
 * handle. */
void driver_consider(void *handle, const void *found);

/* 1 if the address is in the driver's code. */
int driver_has(const void *address);

/* The driver's own function for a name, version and flags, as its cuGetProcAddress says it. */
void *driver_resolve(const char *name, int version, cuuint64_t flags);

/* The driver's own symbol, past every interposer. */
void *driver_symbol(const char *symbol);

/* The beginning of the object that the address is in; null if it is in none. */
const void *object_of(const void *address);

/* The C library's dlsym. */
void *(*dlsym_of_libc(void))(void *, const char *);

/* Calls the driver's function; `otherwise` if the driver does not have it, or there is no driver.
 * */
#define REAL_OR(symbol, arguments, otherwise)                                                      \
    (driver_find() && driver.fn_##symbol != NULL ? driver.fn_##symbol arguments : (otherwise))
#define REAL(symbol, arguments) REAL_OR(symbol, arguments, driver_absent())

/* The result of a call that the driver does not have. */
CUresult driver_absent(void);

#endif
