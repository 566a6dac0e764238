/* SPDX-License-Identifier: Apache-2.0 */
/*
 * An observer watches the program's calls from outside: see simcuda_observe. The simulation knows
 * only two functions of it. Under the lock.
 */
#include "race.h"

static struct {
    simcuda_call_function call;
    simcuda_report_function race;
    void *data;
} observer;

simcuda_touches_function sim_touches;

static CUstream handle_of(const struct sim_stream *stream)
{
    if (stream->slot != NULL)
        return (CUstream)stream->slot;
    return stream->kind == SIM_PER_THREAD ? CU_STREAM_PER_THREAD : CU_STREAM_LEGACY;
}

uint32_t sim_observe_call(const struct sim_stream *stream, const char *kernel)
{
    if (observer.call == NULL)
        return 0;
    const simcuda_call call = {.what = sim_entry_name((uint16_t)sim_thread()->entry),
                               .kernel = kernel,
                               .stream = handle_of(stream),
                               .stream_id = stream->id,
                               .device = (int)stream->context->device->ordinal};
    return observer.call(&call, observer.data);
}

int sim_observe_race(const simcuda_report *report)
{
    if (observer.race == NULL)
        return 0;
    observer.race(report, observer.data);
    return 1;
}

void simcuda_observe(simcuda_call_function call, simcuda_report_function race, void *data)
{
    sim_lock();
    observer.call = call;
    observer.race = race;
    observer.data = data;
    sim_unlock();
}

void simcuda_observe_touches(simcuda_touches_function touches)
{
    sim_lock();
    sim_touches = touches;
    sim_unlock();
}

void simcuda_wait_device(int device)
{
    sim_lock();
    if (device >= 0 && device < SIM_DEVICES_MAX && !sim_thread()->is_in_callback)
        (void)sim_wait_device(&sim.devices[device], "cuMemFree");
    sim_unlock();
}
