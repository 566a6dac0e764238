/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Control from outside the process, as this layer sees it: a table that the layer that has it
 * registers when the library is loaded (capture/control). Null where a program is linked without.
 */
#ifndef TNRI_LIBRARY_CONTROL_H
#define TNRI_LIBRARY_CONTROL_H

#include <stdatomic.h>

#include "conf/conf.h"

typedef struct tnri_control {
    /* The settings change: begins, or ends, what they say, or fails and changes nothing. Waits for
     * nobody. Under the library lock. */
    tnr_status (*follow)(const tnri_conf *before, const tnri_conf *after);
    /* What has been ended goes: waits for its thread, with no lock held. */
    void (*reap)(void);
    /* From the first to the second no request is served; waits for one that is. */
    void (*pause)(void);
    void (*resume)(void);
    /* Ends all, and waits for it. Paused or not, with no lock held. */
    void (*end)(void);
} tnri_control;

extern _Atomic(const tnri_control *) tnri_control_table;

/* The functions of the table; nothing where there is none, but for settings that ask for it. */
tnr_status tnri_control_follow(const tnri_conf *before, const tnri_conf *after);
void tnri_control_reap(void);
void tnri_control_pause(void);
void tnri_control_resume(void);
void tnri_control_end(void);

#endif
