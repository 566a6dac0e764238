/* SPDX-License-Identifier: Apache-2.0 */
/* What is asked of this room from below: tnri_upper (memory/device/upper.h). */
#ifndef TNRI_LIFETIME_SHARING_H
#define TNRI_LIFETIME_SHARING_H

/* Registers this room, and the layer, with those below; any thread. Each call that may be the first
 * to make an export or an import begins with it. */
void tnri_sharing_register(void);

#endif
