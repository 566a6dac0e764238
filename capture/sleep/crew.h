/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A crew: a few threads that copy host memory together with the one that asks, because one thread
 * copies at a fifth of what a device's link carries.
 *
 * A crew lives for one piece of work and belongs to the thread that made it. Its threads take no
 * signals and no locks of the library, and call nothing of it.
 */
#ifndef TNRI_SLEEP_CREW_H
#define TNRI_SLEEP_CREW_H

#include <stddef.h>

typedef struct tnri_crew tnri_crew;

/* Hires threads: as many as help, fewer if the system has no more, perhaps none. Null without host
 * memory for the crew itself. */
tnri_crew *tnri_crew_hire(void);
/* Begins to copy bytes that do not overlap; one job at a time. Without threads it is done on
 * return. */
void tnri_crew_begin(tnri_crew *crew, void *to, const void *from, size_t bytes);
/* Helps with what was begun, if anything was, until it is done. */
void tnri_crew_end(tnri_crew *crew);
/* Both. */
void tnri_crew_copy(tnri_crew *crew, void *to, const void *from, size_t bytes);
/* Ends the threads; null is no crew. */
void tnri_crew_dismiss(tnri_crew *crew);

#endif
