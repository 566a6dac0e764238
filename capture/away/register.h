/* SPDX-License-Identifier: Apache-2.0 */
/* What the layers below ask of this room: tnri_upper. */
#ifndef TNRI_AWAY_REGISTER_H
#define TNRI_AWAY_REGISTER_H

/* Registers this room; any thread. Before it has anything of a pool or a device. */
void tnri_away_register(void);

#endif
