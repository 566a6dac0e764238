/* SPDX-License-Identifier: Apache-2.0 */
/* What the layers below ask of this room: tnri_upper. */
#ifndef TNRI_GRAPH_HOOKS_H
#define TNRI_GRAPH_HOOKS_H

/* Registers this layer with the ones below; any thread. Before the first capture begins. */
void tnri_captures_register(void);

#endif
