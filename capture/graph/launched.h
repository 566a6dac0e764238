/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Launches whose ends the history is to have. While the history is on, Tenure puts a mark on the
 * stream after each launch. When it sees that the mark is over, it notes the end. No thread waits
 * for the mark and no thread watches it. Tenure looks when the next graph is launched, when memory
 * is looked for or counted, and when a snapshot is taken. So the moment that is noted is at or
 * after the end.
 *
 * Nothing here fails for the caller: if the end of a launch cannot be marked, the history has no
 * end for it. An entry refers to no graph, pool or stream, because all of these may be gone before
 * it.
 *
 * Under the graph lock, except where it says otherwise.
 */
#ifndef TNRI_GRAPH_LAUNCHED_H
#define TNRI_GRAPH_LAUNCHED_H

#include <stdatomic.h>

#include "memory/arena/note.h"
#include "memory/stream/stream.h"

/* Launches whose ends have not been seen, of all streams. No lock to read. */
extern _Atomic uint32_t tnri_launched_count;

/* How many there may be: each has an event. The ends of more are not recorded. */
enum { TNRI_LAUNCHED_MAX = 4096 };

/* Marks the end of the stream's work, which is the launch's. In the device's context; the stream is
 * not captured. */
void tnri_launched_add(tnri_stream *stream, tnri_noted_launch launch);

/* Looks which launches are over, on at most so many streams. If the history is off, forgets all. */
void tnri_launched_look(size_t streams);
/* The same on all streams; costs one load if there is nothing. With the lock held or without. */
void tnri_launched_settle(void);

/* Forgets the launches on a device that is put out of use, after a last look. */
void tnri_launched_forget(tnri_device *device);

#endif
