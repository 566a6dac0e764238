/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The room: the one lock of captures and graphs.
 *
 * Captures are rare and short, and what happens in one is a sequence, so this folder works one
 * thread at a time: captures of several devices take turns. Unlike the library's other locks the
 * room is kept during driver calls, and while memory is taken from the device; so it is taken
 * before any other lock, with none held, and a thread that does not capture never comes here
 * (except to free a block that a capture may need).
 *
 * A thread that is inside may come in again: the out-of-memory callback may free.
 */
#ifndef TNRI_GRAPH_ROOM_H
#define TNRI_GRAPH_ROOM_H

#include <tenure/status.h>

/* Returns how often the calling thread was inside before: 0, unless a callback calls back. */
unsigned tnri_room_enter(void);
void tnri_room_leave(void);
/* How often the calling thread is inside. */
unsigned tnri_room_depth(void);

/* TNR_ERR_BUSY, for calls that a callback may not make. */
tnr_status tnri_room_error(const char *call);

#endif
