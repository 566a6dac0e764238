/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Features, and the programs that are made of them. A feature knows nothing of the others: it
 * enters, acts a few times and leaves. A program is two or three features, the ones around, beside
 * and before the others, as its shape says. Whatever goes wrong is then between them.
 *
 * Each program runs in a process of its own, with a deadline. What it finds it says and ends with
 * compose_finding. A crash and a hang are findings too.
 *
 * compose.c is the driver and knows no feature. A program that links it gives the world and the
 * table of features.
 */
#ifndef TENURE_TESTS_COMPOSE_H
#define TENURE_TESTS_COMPOSE_H

#include <stdint.h>

typedef struct world world;

typedef struct feature {
    const char *name; /* "group:what" */
    /* Two features with the same text do not go into one program; null: with all. */
    const char *excludes;
    void (*enter)(world *w);
    void (*act)(world *w, int turn); /* turns are counted from 0, for each feature by itself */
    void (*leave)(world *w);
    /* Instead of leaving, in a program that ends by force: ends what would go on by itself, such
     * as threads, and leaves all memory as it is. May be null. */
    void (*abandon)(world *w);
} feature;

/* ---- what the program gives ----------------------------------------------------------------- */

/* All features, up to a null. */
extern const feature *const compose_features[];
/* Called once, first, in each process; `seed` draws what the features leave open. */
world *world_begin(uint64_t seed);
/* After each step: what must hold while the features are there. */
void world_check(world *w);
/* After all have left, or were abandoned: what must hold in the end, and ends the library. */
void world_end(world *w, int by_force);

/* ---- what it is given ------------------------------------------------------------------------ */

/* Says what is wrong, with the program's name and step in front, and ends the process. */
__attribute__((noreturn, format(printf, 1, 2))) void compose_finding(const char *format, ...);

/* While it is set, each step of the other features runs through it: a feature that says by which
 * thread things are done. The one that has set it is not run through it. */
typedef void (*compose_runner)(void (*step)(void *), void *data);
void compose_run_by(compose_runner runner);
/* One: each step by a thread that ends with it. */
void compose_run_in_thread(void (*step)(void *), void *data);

/* The name of the step that is under way, for labels. */
const char *compose_step(void);

/* What main does. */
int compose_main(int argc, char **argv);

#endif
