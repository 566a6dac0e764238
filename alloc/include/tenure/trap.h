/* SPDX-License-Identifier: Apache-2.0 */
/*
 * <tenure/trap.h>: what the traps for wrong accesses have found.
 *
 * Traps are set by settings of TENURE_CONF: guard, poison and canary say which, and trap_every,
 * trap_from_kb and trap_to_kb for which blocks. What each is and costs: docs/traps.md.
 *
 * A guard makes the device itself fail, with the driver's error. Tenure describes in words what
 * poison and canary find: to a function that listens, or else in the file that the setting
 * trap_file names, or else on the standard error.
 */
#ifndef TENURE_TRAP_H
#define TENURE_TRAP_H

#include <tenure/alloc.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Something was written where no program may write. The texts live until the callback returns. */
typedef struct tnr_trap_finding {
    size_t struct_bytes; /* sizeof(tnr_trap_finding), as the library has it */
    int is_overrun;      /* 1: past the requested size (canary); 0: after the free (poison) */
    int device;
    const void *address; /* of the first byte that is wrong */
    size_t bytes_wrong;
    const void *block; /* where the block begins, or began */
    size_t bytes_requested;
    tnr_stream stream; /* the block's own */
    const char *text;  /* all of it, in lines, with the stacks that are known */
} tnr_trap_finding;

/* Called on the thread that finds it, inside an allocation or a free, and at the end of a device or
 * of the process (docs/traps.md). It may look, but must not call the library. */
typedef void (*tnr_trap_callback)(const tnr_trap_finding *finding, void *user);

/* Sets the callback of the process: Tenure tells it of findings, and does not write them to the
 * file. Null removes it. Needs no start of the library, and lasts beyond its end. Never fails.
 * Since 1.0.0; before, it was tnr_traps_listen. */
TNR_API void tnr_trap_callback_set(tnr_trap_callback callback, void *user);

/* Since the process began. */
typedef struct tnr_traps_info {
    size_t struct_bytes; /* set by the caller to sizeof(tnr_traps_info) */
    uint64_t guarded;    /* blocks that were handed out with a guard */
    uint64_t unguarded;  /* blocks that should have had one: no memory for it, or no address */
    uint64_t looks;      /* at memory that should be as it was left */
    /* Looks that were not made: a capture, no pinned memory, or too many at once. */
    uint64_t looks_missed;
    uint64_t findings;
} tnr_traps_info;

/* Fills *info. With `wait`, first waits until all looks that are under way have been judged.
 * Errors: TNR_ERR_INVALID_ARGUMENT (struct_bytes not set), TNR_ERR_DRIVER. Since 0.2.0. */
TNR_NODISCARD TNR_API tnr_status tnr_traps_get(tnr_traps_info *info, int wait);

#ifdef __cplusplus
}
#endif
#endif
