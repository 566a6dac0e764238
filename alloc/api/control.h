/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Control from outside the process, as this layer sees it. The room that has control
 * (capture/control) registers when the library is loaded (memory/device/upper.h), unless a program
 * is linked without that layer.
 */
#ifndef TNRI_API_CONTROL_H
#define TNRI_API_CONTROL_H

#include "base/conf/conf.h"

/* tnri_upper.follow; without control fails for settings that ask for it. */
tnr_status tnri_control_follow(const tnri_conf *before, const tnri_conf *after);
/* tnri_upper.reap. */
void tnri_control_reap(int all);

#endif
