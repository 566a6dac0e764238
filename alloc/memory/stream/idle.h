/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The stream whose arenas have host memory: one of the GPU that it is near, on which nothing ever
 * runs. It is made when the first arena wants it. See memory/device/host.h.
 */
#ifndef TNRI_STREAM_IDLE_H
#define TNRI_STREAM_IDLE_H

#include "memory/stream/stream.h"

/* The stream whose arena serves requests for `handle`: of host memory it is the idle one. No lock
 * is held. Errors: those of tnri_stream_find. */
tnr_status tnri_stream_for(tnri_device *device, tnr_stream handle, tnri_stream **stream);

/* Ends the idle stream of host memory that is being put out of use: no arena is left. */
tnr_status tnri_idle_end(tnri_device *device);

#endif
