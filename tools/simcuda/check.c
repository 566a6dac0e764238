/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where the simulation is stricter than the driver: may this memory be touched, and does queued
 * work still need it?
 */
#include "sim.h"

#include <string.h>

/* ---- reach ---------------------------------------------------------------------------------- */

static enum sim_reach reach_reservation(const struct sim_region *region, uint32_t bit,
                                        CUdeviceptr *at, CUdeviceptr end, int write)
{
    CUdeviceptr region_end = region->base + region->bytes;
    while (*at < end && *at < region_end) {
        const struct sim_mapping *mapping = sim_mapping_find(region, *at);
        if (mapping == NULL)
            return SIM_REACH_UNMAPPED;
        if (((write ? mapping->writable : mapping->readable) & bit) == 0)
            return SIM_REACH_DENIED;
        *at = mapping->base + mapping->memory->bytes;
    }
    return SIM_REACH_OK;
}

/* Whether work of the context may touch a block: what cuMemAlloc gave, if access to its device was
 * enabled; what cuMemAllocAsync gave, as its pool says. */
int sim_reach_block(const struct sim_context *context, const struct sim_region *region)
{
    const struct sim_device *here = context->device, *owner = region->device;
    if (region->kind != SIM_DEVICE_BLOCK || owner == here)
        return 1;
    uint32_t peers = region->pool != NULL ? region->pool->peers : context->peers;
    return (peers >> (region->pool != NULL ? here : owner)->ordinal & 1) != 0;
}

/* Whether work of the context may touch the range; where not, *where is the first address. With a
 * null context it is enough that some device may. */
enum sim_reach sim_reach(const struct sim_context *context, CUdeviceptr address, uint64_t bytes,
                         int write, CUdeviceptr *where)
{
    const struct sim_device *device = context == NULL ? NULL : context->device;
    uint32_t bit = device == NULL ? UINT32_MAX : UINT32_C(1) << device->ordinal;
    CUdeviceptr end = address + bytes;
    *where = address;
    if (end < address)
        return SIM_REACH_FOREIGN;
    while (*where < end) {
        const struct sim_region *region = sim_region_find(*where);
        if (region == NULL)
            return SIM_REACH_FOREIGN;
        if (region->kind == SIM_RESERVED) {
            enum sim_reach reach = reach_reservation(region, bit, where, end, write);
            if (reach != SIM_REACH_OK)
                return reach;
        } else {
            if (device != NULL && !sim_reach_block(context, region))
                return SIM_REACH_DENIED;
            *where = region->base + region->bytes;
        }
    }
    return SIM_REACH_OK;
}

/* What the driver itself checks when work is queued: that the addresses are memory, and mapped with
 * some access. Writing where only reading is allowed, or a peer's memory, faults when it runs. */
CUresult sim_check_call(const struct sim_context *context, CUdeviceptr address, uint64_t bytes)
{
    CUdeviceptr where = 0;
    enum sim_reach reach = sim_reach(context, address, bytes, 0, &where);
    int peer = reach == SIM_REACH_DENIED && sim_region_find(where)->kind != SIM_RESERVED;
    return reach == SIM_REACH_OK || peer ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE;
}

static const char *reach_text(enum sim_reach reach)
{
    switch (reach) {
    case SIM_REACH_FOREIGN:
        return "is not memory of any device";
    case SIM_REACH_UNMAPPED:
        return "is reserved but not mapped";
    default:
        return "is mapped without the access needed";
    }
}

/* What cuMemAlloc gave: copies need no access to it, only sets and kernels do. */
static int is_drivers_own(CUdeviceptr address)
{
    const struct sim_region *region = sim_region_find(address);
    return region != NULL && region->kind == SIM_DEVICE_BLOCK && region->pool == NULL;
}

/* Run before an operation: may it touch what it says? If not it is a violation and, as on a real
 * device, the context is poisoned: its calls give CUDA_ERROR_ILLEGAL_ADDRESS from then on. */
int sim_check_op(const struct sim_stream *stream, const struct sim_op *op)
{
    size_t count = 0;
    const struct sim_access *access = sim_op_accesses(op, &count);
    for (size_t i = 0; i < count; i++) {
        CUdeviceptr where = 0;
        int is_any =
            op->is_any_device || (op->kind == SIM_OP_COPY && is_drivers_own(access[i].address));
        const struct sim_context *context = is_any ? NULL : stream->context;
        enum sim_reach reach =
            sim_reach(context, access[i].address, access[i].bytes, access[i].is_write, &where);
        if (reach != SIM_REACH_OK) {
            sim_violation(
                "%s on stream %llu %s [0x%llx, +%llu): 0x%llx %s", sim_op_name(op->kind),
                (unsigned long long)sim_op_stream_id(stream, op),
                access[i].is_write ? "writes" : "reads", (unsigned long long)access[i].address,
                (unsigned long long)access[i].bytes, (unsigned long long)where, reach_text(reach));
            stream->context->error = CUDA_ERROR_ILLEGAL_ADDRESS;
            return 0;
        }
    }
    return 1;
}

/* ---- use by queued work --------------------------------------------------------------------- */

static int op_touches(const struct sim_op *op, CUdeviceptr base, uint64_t bytes)
{
    size_t count = 0;
    const struct sim_access *access = sim_op_accesses(op, &count);
    for (size_t i = 0; i < count; i++)
        if (access[i].address < base + bytes && base < access[i].address + access[i].bytes)
            return 1;
    return 0;
}

/* A violation if an operation that has not finished touches the range, which is about to go. */
void sim_check_unused(CUdeviceptr base, uint64_t bytes, const char *call)
{
    for (size_t i = 0; i < sim.busy_count; i++) {
        const struct sim_stream *stream = sim.busy[i];
        for (uint64_t n = stream->head; n < stream->tail; n++) {
            const struct sim_op *op = &stream->ring[n & (stream->room - 1)];
            if (op_touches(op, base, bytes)) {
                sim_violation("%s of [0x%llx, +%llu) while %s number %llu on stream %llu, not "
                              "finished, uses it",
                              call, (unsigned long long)base, (unsigned long long)bytes,
                              sim_op_name(op->kind),
                              (unsigned long long)(op->node != 0 ? op->node : n),
                              (unsigned long long)sim_op_stream_id(stream, op));
                return;
            }
        }
    }
}
