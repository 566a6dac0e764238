/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A crew: a few threads that copy host memory together with the one that asks, because one thread
 * copies at a fifth of what a device's link carries.
 *
 * A crew lives for one piece of work and belongs to the thread that made it. Its threads take no
 * signals and no locks of the library, and call nothing of it.
 */
#ifndef TNRI_BASE_CREW_H
#define TNRI_BASE_CREW_H

#include <stddef.h>

typedef struct tnri_crew tnri_crew;

/* Hires threads: as many as help, fewer if the system has no more, perhaps none. Null without host
 * memory for the crew itself. */
tnri_crew *tnri_crew_hire(void);
/* Copies bytes that do not overlap. A null crew copies alone. */
void tnri_crew_copy(tnri_crew *crew, void *to, const void *from, size_t bytes);
/* Ends the threads; null is no crew. */
void tnri_crew_dismiss(tnri_crew *crew);

#endif
