/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Another process, which exports and imports as it is told: the same program, started anew with the
 * word "worker". Orders and answers are messages of a socket; a second one is for what is exported.
 */
#ifndef TENURE_TESTS_EXPORT_WORKER_H
#define TENURE_TESTS_EXPORT_WORKER_H

#include <stdint.h>
#include <sys/types.h>

#include <tenure/tenure.h>

typedef struct order {
    uint64_t what, value;
    tnr_export_name name; /* that is opened */
} order;

typedef struct answer {
    uint64_t value;
    int64_t status;
    tnr_export_name name; /* that is offered */
} answer;

typedef struct worker {
    pid_t process;
    int control, shared;
} worker;

/* What the worker's main does. Returns its exit code. */
int worker_work(void);

worker worker_start(void);
/* Gives an order, with the name that *said has. 0: the worker has ended. */
int worker_ask(const worker *to, uint64_t what, uint64_t value, answer *said);
/* The same for what must succeed. Returns the answer's value. */
uint64_t worker_must(const worker *to, uint64_t what, uint64_t value);
/* Ends it, if it has not been. Returns 1 if it went of itself, with everything in order. */
int worker_end(worker *gone, int by_force);
/* Descriptors of a process that are sockets or of processes. */
unsigned worker_descriptors(pid_t process);

/* 1 if most of the device's memory can be had, here. */
int worker_can_have_it_all(void);
/* Nobody needs the device's memory any more: all of it goes back. */
void worker_all_is_free(void);

#endif
