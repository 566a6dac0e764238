/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A session: the driver and device that one run of the command works with.
 *
 * The library never falls back to the simulated device by itself. The command does, and says so:
 * without --driver and TENURE_DRIVER it uses the GPU if there is one, else the simulated device
 * that is installed with it. It makes that choice by setting TENURE_DRIVER before the library
 * starts, so everything behaves as if the user had set it.
 */
#ifndef TENURE_TOOLS_SESSION_H
#define TENURE_TOOLS_SESSION_H

#include <limits.h>
#include <stddef.h>

#include <tenure/alloc.h>

#include "exit_code.h"
#include "gpu.h"

/* The values of the options that all commands with a device have. Null: not given. */
typedef struct session_options {
    const char *driver;   /* auto, sim, cuda, or a path */
    const char *settings; /* for tnr_configure */
    const char *device;   /* a number; checked by session_device_parse */
} session_options;

/* How the driver was chosen. */
typedef struct session_choice {
    char driver[PATH_MAX];    /* the value of TENURE_DRIVER from now on; empty: not set */
    int by_user;              /* --driver or TENURE_DRIVER said so */
    int fell_back;            /* no GPU was found, so the simulated device is used */
    char simulated[PATH_MAX]; /* the simulated device's library; empty if it was not found */
    gpu_presence gpu;         /* what was found; only filled if somebody had to look */
} session_choice;

typedef struct session {
    session_choice choice;
    int device;
    const char *settings;
    int simulated;
    int version;
    char path[PATH_MAX]; /* of the driver library */
    tnr_device_info device_info;
    gpu_driver gpu; /* the same driver, for the command's own calls */
    CUdevice cu_device;
    CUcontext context; /* the primary context, retained */
} session;

/* Chooses the driver and sets TENURE_DRIVER. Must come before any other call of the library.
 * Returns EXIT_CODE_OK; for a --driver that is none, EXIT_CODE_BAD_INPUT with a sentence. */
exit_code session_choose(session_choice *choice, const char *driver, char *error,
                         size_t error_bytes);

/* Starts the library on the chosen driver, applies the settings, and opens the driver for the
 * command's own calls with the device's primary context current. Prints nothing. On failure
 * everything is closed, and `error` holds the whole story. */
exit_code session_open(session *result, const session_options *options, int device, char *error,
                       size_t error_bytes);

/* Starts the library again after tnr_shutdown, with the same settings. */
exit_code session_restart(const session *active, char *error, size_t error_bytes);

/* Ends the library and gives the context back. */
void session_close(session *active);

/* "NVIDIA H200 (device 0), /usr/lib/libcuda.so.1, CUDA 13.0". If the simulated device is used, it
 * also says why. Returns `buffer`. */
const char *session_describe(const session *active, char *buffer, size_t bytes);

/* Creates `count` non-blocking streams. On failure none is left. Sentence in `error`. */
exit_code session_streams_create(session *active, CUstream *streams, size_t count, char *error,
                                 size_t error_bytes);
void session_streams_destroy(session *active, CUstream *streams, size_t count);

#endif
