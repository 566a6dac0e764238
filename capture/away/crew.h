/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A crew: threads that copy host memory for the thread that asks. One thread alone copies at a
 * fifth of the speed of a device's link.
 *
 * Jobs are begun in the order in which they are given. Several are under way at once, so that
 * nobody waits for the last slice of one. A crew lives for one task and belongs to the thread that
 * made it. Its threads take no signals, take no locks of the library, and call none of its
 * functions.
 */
#ifndef TNRI_AWAY_CREW_H
#define TNRI_AWAY_CREW_H

#include <stddef.h>

typedef struct tnri_crew tnri_crew;

/* At most so many jobs may be given and not waited for. */
enum { TNRI_CREW_JOBS = 8 };

/* Processors to hire threads for; 0: as many as the system has. Tests say otherwise. */
extern long tnri_crew_cores;

/* Hires threads for some bytes: as many as help, fewer if the system has no more, perhaps none.
 * `keeps_cache` 1: what is written is wanted soon. 0: it is not, and goes to memory past the
 * caches; then what is overwritten need not be read first. Null: no host memory for the crew
 * itself. The functions below take null for a crew without threads. */
tnri_crew *tnri_crew_hire(size_t bytes, int keeps_cache);
/* Gives a job: to copy bytes that do not overlap. Without threads it is done on return. */
void tnri_crew_give(tnri_crew *crew, void *to, const void *from, size_t bytes);
/* Helps until all jobs are done but the last `left` that were given. */
void tnri_crew_wait(tnri_crew *crew, unsigned left);
/* Ends the threads, when all jobs are done. Null: there is no crew. */
void tnri_crew_dismiss(tnri_crew *crew);

#endif
