/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Control from outside the process, as this layer sees it: a table. The layer that has control
 * (capture/control) registers it when the library is loaded. The table is null if a program is
 * linked without that layer.
 */
#ifndef TNRI_API_CONTROL_H
#define TNRI_API_CONTROL_H

#include <stdatomic.h>

#include "base/conf/conf.h"

typedef struct tnri_control {
    /* The settings change: starts or ends servers as they say, or fails and changes nothing. Waits
     * for nobody. Under the library lock. */
    tnr_status (*follow)(const tnri_conf *before, const tnri_conf *after);
    /* Frees servers that were ended: waits for their threads, with no lock held. */
    void (*reap)(void);
    /* Between these two calls no request is served; the first waits for one that is being
     * served. */
    void (*pause)(void);
    void (*resume)(void);
    /* A device has come into use whose memory control groups limit: the thread watches that. */
    void (*watch)(void);
    /* Ends all, and waits for it. Paused or not, with no lock held. */
    void (*end)(void);
} tnri_control;

extern _Atomic(const tnri_control *) tnri_control_table;

/* The functions of the table. Without a table they do nothing, except for settings that ask for
 * control. */
tnr_status tnri_control_follow(const tnri_conf *before, const tnri_conf *after);
void tnri_control_reap(void);
void tnri_control_pause(void);
void tnri_control_resume(void);
void tnri_control_watch(void);
void tnri_control_end(void);

#endif
