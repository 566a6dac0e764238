/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What scenarios are written with. Each runs in a process of its own, on device 0 of the driver in
 * cu, and leaves one line: labels with results. `expect` also says what the result must be; an
 * `observe`d one is only reported (its label ends in '?'), because no reliable source says what a
 * real driver answers. Lines hold no addresses and no times, so those of two drivers can be
 * compared.
 */
#ifndef TENURE_TESTS_CONFORMANCE_SCENARIO_H
#define TENURE_TESTS_CONFORMANCE_SCENARIO_H

#include "driver.h"

#include <stddef.h>
#include <stdint.h>

#define MIB ((size_t)1 << 20)
#define CHUNK (2 * MIB)

struct scenario {
    const char *name;
    void (*run)(void);
    int bare; /* starts before cuInit; otherwise device 0's primary context is current */
};

extern const struct scenario vmm_scenarios[];
extern const struct scenario stream_scenarios[];
extern const struct scenario memory_scenarios[];
extern const struct scenario basic_scenarios[];
extern const struct scenario peer_scenarios[];
extern const struct scenario capture_scenarios[];
extern const struct scenario capture_event_scenarios[];
extern const struct scenario capture_end_scenarios[];
extern const struct scenario capture_call_scenarios[];
extern const struct scenario capture_device_scenarios[]; /* not for the simulated device */
extern const struct scenario graph_scenarios[];
extern const struct scenario graph_launch_scenarios[];
extern const struct scenario graph_update_scenarios[];
extern const struct scenario graph_update_device_scenarios[]; /* not for the simulated device */

/* ---- results -------------------------------------------------------------------------------- */

void expect(const char *label, CUresult result, CUresult expected);
void observe(const char *label, CUresult result);
void expect_number(const char *label, unsigned long long number, unsigned long long expected);
void observe_number(const char *label, unsigned long long number);
void expect_yes(const char *label, int answer, int expected);
void observe_yes(const char *label, int answer);

/* A step that has to work for the scenario to mean anything; otherwise it ends with the reason. */
void need(const char *what, CUresult result);

/* What the scenario needs is not there: it ends with the reason. */
__attribute__((noreturn)) void skip(const char *reason);

/* ---- steps ---------------------------------------------------------------------------------- */

CUmemAllocationProp chunk_property(void);
CUmemGenericAllocationHandle chunk_create(size_t bytes);
CUdeviceptr reserve(size_t bytes);
CUresult set_access(CUdeviceptr at, size_t bytes);
CUdeviceptr chunk_mapped(size_t bytes, CUmemGenericAllocationHandle *handle);
CUstream stream_new(unsigned flags);
CUevent event_new(unsigned flags);
unsigned byte_at(CUdeviceptr at); /* through a synchronous copy */

/* A gate is a word of pinned memory that holds a stream up until it is opened. Gates are opened by
 * hand, or by a watchdog after a while, so that a call that waits does come back:
 *
 *   watch_start(gate, 300);  result = call();  waited = watch_stop(gate);
 *
 * watch_stop says whether the watchdog had opened the gate, that is whether the call waited; the
 * gate stays as it is. */
struct gate;
struct gate *gate_new(void);
void gate_close(struct gate *gate, CUstream stream); /* queues the wait */
void gate_open(struct gate *gate);
void watch_start(struct gate *gate, unsigned ms);
int watch_stop(struct gate *gate);

enum {
    WAITS_MS = 300,    /* for calls expected to wait */
    RETURNS_MS = 60000 /* for calls expected to return at once, on a slow machine as well */
};

#endif
