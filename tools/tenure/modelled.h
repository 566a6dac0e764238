/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Modelled driver time: what an allocator's driver calls would have cost on a real device, by the
 * simulated device's table (tools/simcuda/cost.def). It is never a measurement, and is shown only
 * under this name.
 */
#ifndef TENURE_TOOLS_MODELLED_H
#define TENURE_TOOLS_MODELLED_H

#include <stdint.h>

typedef struct modelled_time {
    uint64_t (*ask)(const char *entry_point); /* null: not a simulated device that has a table */
    uint64_t before_ns;
} modelled_time;

/* Starts the clock. `library` is the driver library, from dlopen. */
void modelled_start(modelled_time *time, void *library);

/* The modelled time since then, of the calls that serve memory: handles, mappings and their
 * addresses, events and waits for them. 0 on a real device. */
uint64_t modelled_ns(const modelled_time *time);

#endif
