/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What the command's exit codes mean, everywhere. They are documented in `tenure --help` and are
 * part of the command's interface: scripts branch on them.
 */
#ifndef TENURE_TOOLS_EXIT_CODE_H
#define TENURE_TOOLS_EXIT_CODE_H

#include <tenure/status.h>

typedef enum exit_code {
    EXIT_CODE_OK = 0,
    EXIT_CODE_CHECK_FAILED = 1, /* something was found broken: patterns, leaks, invariants */
    EXIT_CODE_BAD_INPUT = 2,    /* options, trace files or settings that are not understood */
    EXIT_CODE_NO_DEVICE = 3,    /* no driver, or one that is too old, or no suitable device */
    EXIT_CODE_NO_MEMORY = 4,    /* device or host memory exhausted, or a limit reached */

    /* Of `tenure fuzz`. */
    EXIT_CODE_SAFETY = 10,   /* something happened that must not */
    EXIT_CODE_LIVENESS = 11, /* something that had to come did not */
    EXIT_CODE_CRASH = 12,    /* the library, or the program with it, died */
    EXIT_CODE_MISSED = 13,   /* a planted error was not seen */

    /* Of `tenure ctl`. */
    EXIT_CODE_NO_PROCESS = 20,     /* nobody listens, or it hung up */
    EXIT_CODE_SEVERAL = 21,        /* that could be meant */
    EXIT_CODE_OTHER_PROTOCOL = 22, /* the other side speaks another one, or none */
    EXIT_CODE_NO_ANSWER = 23,      /* in time */
} exit_code;

/* The exit code for a failed call of the library. */
static inline exit_code exit_code_of(tnr_status status)
{
    switch (status) {
    case TNR_OK:
        return EXIT_CODE_OK;
    case TNR_ERR_CONFIG:
    case TNR_ERR_INVALID_ARGUMENT:
    case TNR_ERR_INVALID_SIZE:
    case TNR_ERR_INVALID_DEVICE:
        return EXIT_CODE_BAD_INPUT;
    case TNR_ERR_NO_DRIVER:
    case TNR_ERR_DRIVER_TOO_OLD:
    case TNR_ERR_NO_DEVICE:
    case TNR_ERR_NO_VMM:
        return EXIT_CODE_NO_DEVICE;
    case TNR_ERR_OUT_OF_MEMORY:
    case TNR_ERR_LIMIT:
    case TNR_ERR_ADDRESS_SPACE:
    case TNR_ERR_HOST_MEMORY:
        return EXIT_CODE_NO_MEMORY;
    default:
        return EXIT_CODE_CHECK_FAILED;
    }
}

#endif
