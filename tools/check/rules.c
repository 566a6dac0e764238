/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a program must keep to, and what it does with blocks.
 *
 * - A use comes before the free, in the order that the program made: the free's stream waits for
 *   the stream of each use, or the host has seen the use end. cuMemFree waits for all work itself
 *   if the memory came from cuMemAlloc. If it came from cuMemAllocAsync, cuMemFree waits for
 *   nothing.
 * - Work that is enqueued after the free of its memory was enqueued is wrong, in whatever stream:
 *   nothing that is enqueued later can be ordered before the free.
 * - Memory of cuMemAllocAsync may be used only after the allocation, in the order of streams.
 * - A block is freed once, by its address.
 *
 * Only memory of Tenure's is followed. Nobody else hands out addresses of its ranges, so what is
 * remembered of freed blocks cannot clash with memory of the driver's. Memory may also be allocated
 * in the process without the replacements (by an engine that is linked with libtenure). So the
 * checker asks Tenure before it says anything of freed memory.
 */
#include "check/rules.h"

#include <sys/syscall.h>
#include <unistd.h>

#include "check/findings.h"
#include "check/pinned.h"
#include "check/python.h"
#include "check/race.h"
#include "check/record.h"
#include "check/sole.h"
#include "check/visible.h"
#include "check/waste.h"
#include "service.h"

pid_t check_thread(void)
{
    static _Thread_local pid_t known;
    if (known == 0)
        known = (pid_t)syscall(SYS_gettid);
    return known;
}

/* Null where nothing is said of it. */
static const check_place *place_of(const char *call, check_stack *stack)
{
    return check_does(CHECK_REPORTS | CHECK_WASTE) ? check_place_of(call, NULL, stack) : NULL;
}

static check_touch touch_on_host(const check_place *place)
{
    return (check_touch){.place = place, .thread = check_thread(), .is_certain = 1};
}

static check_touch touch_on_stream(check_stream *stream, const void *handle,
                                   const check_place *place)
{
    check_touch touch = touch_on_host(place);
    touch.index = stream->index;
    touch.number = check_stream_work(stream);
    touch.stream = stream->name;
    touch.handle = handle;
    return touch;
}

int check_work_begin(check_work *work, const check_name *name, const check_place *place)
{
    work->stream = check_stream_find(name);
    if (work->stream == NULL)
        return 0;
    if (check_does(CHECK_REPORTS))
        work->touch = touch_on_stream(work->stream, name->stream, place);
    else
        work->touch = (check_touch){.stream = work->stream->name, .handle = name->stream};
    return 1;
}

/* 1 if nothing is allocated there now, by whatever way. */
static int is_free_now(CUdeviceptr address)
{
    tnr_block_info info;
    return tnr_block_get(&info, (const void *)(uintptr_t)address) != TNR_OK;
}

int check_is_live(CUdeviceptr address)
{
    return check_block_live(address) != NULL || !is_free_now(address);
}

CUdeviceptr check_memory_end(CUdeviceptr address)
{
    tnr_block_info block;
    tnr_import_info import = {.struct_bytes = sizeof(import)};
    const void *asked = (const void *)(uintptr_t)address;
    if (tnr_block_get(&block, asked) == TNR_OK)
        return (uintptr_t)block.base + block.bytes_reserved;
    return tnr_import_get(&import, asked) == TNR_OK ? (uintptr_t)import.ptr + import.bytes : 0;
}

/* ---- frees that come too early -------------------------------------------------------------- */

/* One use, or the allocation, that the free does not come after. What an interpreter frees as it
 * ends nobody has again, so it need not be an error of the program's. 1: it is certain. */
static int free_is_early(const check_block *block, check_kind kind, const check_touch *earlier,
                         const char *means, const check_touch *freed)
{
    int is_certain = earlier->is_certain && !block->is_of_end;
    check_finding finding = {.kind = kind,
                             .is_certain = is_certain,
                             .means = means,
                             .block = block,
                             .address = block->base,
                             .earlier = earlier,
                             .earlier_is = earlier == &block->made ? "allocated" : "used",
                             .later = freed,
                             .later_is = "freed"};
    check_found(&finding);
    return is_certain && means == NULL;
}

/* An engine's free gives memory to the next allocation on its stream, and to nothing else: a free
 * comes too early only if that allocation does not come after the uses either. What the driver has
 * freed may be gone. */
static int is_kept_for_stream(const check_block *block, const check_stream *stream)
{
    return block->is_engine && block->own != 0 && stream != NULL && !block->is_of_end;
}

/* Who gets memory that was freed with uses under way, or could get it. */
typedef struct successor {
    const check_stream *stream;
    uint64_t name; /* of the stream */
    CUdeviceptr base;
    size_t bytes;
} successor;

static int succeeds(const check_block *freed, void *user)
{
    const successor *self = user;
    int is_there =
        freed->base - self->base < self->bytes || self->base - freed->base < freed->bytes;
    if (freed->own != self->name && !is_there)
        return 0;
    for (uint32_t i = 0; i < freed->uses_count; i++) {
        const check_touch *use = &freed->uses[i];
        if (!check_is_after(self->stream, use->index, use->number))
            (void)free_is_early(freed, CHECK_FREE_IN_USE, use,
                                check_doubt(self->stream, use->index, use->number), &freed->freed);
    }
    return 1;
}

/* Memory that is free leaves the process, of whatever stream: its own is what it waits for. */
static int leaves(const check_block *freed, void *user)
{
    const check_stamp own = {freed->made.index, freed->made.stream};
    check_stream *stream = check_stream_stamped(own);
    const successor after = {stream, freed->own, freed->base, freed->bytes};
    (void)user;
    return stream == NULL || succeeds(freed, (void *)(uintptr_t)&after);
}

/* The program has ended, and nobody has asked for the memory. The next allocation would have had
 * what the stream was given by then: that the host has waited for everything at the very end, as
 * most programs do, orders nothing before the free's stream gets work again. */
static int is_left(const check_block *freed, void *user)
{
    const check_stream *stream = check_stream_at(freed->made.index);
    (void)user;
    for (uint32_t i = 0; i < freed->uses_count && stream->name == freed->made.stream; i++) {
        const check_touch *use = &freed->uses[i];
        if (!check_was_after(stream, use->index, use->number))
            (void)free_is_early(freed, CHECK_FREE_IN_USE, use,
                                check_doubt(stream, use->index, use->number), &freed->freed);
    }
    return 1;
}

void check_memory_left(void)
{
    if (!check_enter())
        return;
    check_blocks_awaited(is_left, NULL);
    check_leave();
}

void check_memory_leaves(void)
{
    if (!check_enter())
        return;
    check_blocks_awaited(leaves, NULL);
    check_leave();
}

/* ---- allocations ---------------------------------------------------------------------------- */

/* A stream of the device that the memory is of. */
static check_name name_of_own(CUdeviceptr address, CUstream stream)
{
    const service_device *device = service_of_address(address);
    return device == NULL ? check_name_of(stream) : check_name_on(device->index, stream);
}

/* A graph's own memory has lives of its own. What was freed in the capture may be used in graphs
 * alone. */
static void graph_allocated(CUdeviceptr address, size_t bytes, const check_place *place)
{
    check_block *block = check_block_make(address, bytes);
    if (block == NULL)
        return;
    block->is_graph = 1;
    block->made = touch_on_host(place);
}

static void graph_freed(check_block *block, CUdeviceptr address, const check_place *place)
{
    if (block->is_graph && block->base == address) {
        block->freed = touch_on_host(place);
        check_block_free(block);
    } else {
        check_blocks_forget(block->base, block->bytes);
    }
}

/* With --waste alone. */
static void waste_begin(check_block *block, const check_place *place)
{
    if (check_does(CHECK_WASTE))
        block->waste = check_waste_made(place, block->bytes);
}

static void allocated(const char *call, CUdeviceptr address, size_t bytes, check_name name,
                      int is_engine)
{
    check_work work;
    check_python_missing();
    if (!is_engine) /* whose captures are announced, to Tenure itself */
        check_name_ask(&name);
    if (check_sole_takes(&name))
        return;
    check_stack room;
    check_stack *stack = check_stack_of_block(&room);
    if (!check_enter())
        return;
    const check_place *place = place_of(call, stack);
    if (name.is_capturing && !is_engine && check_does(CHECK_REPORTS)) {
        graph_allocated(address, bytes, place);
    } else if (name.is_capturing || !check_work_begin(&work, &name, place)) {
        check_blocks_forget(address, bytes);
    } else {
        successor next = {work.stream, work.touch.stream, address, bytes};
        check_blocks_awaited(succeeds, &next);
        check_block *block = check_block_make(address, bytes);
        if (block != NULL) {
            block->own = work.touch.stream;
            block->is_engine = is_engine != 0;
            block->made = work.touch;
            waste_begin(block, place);
            if (is_engine)
                check_count_block();
        }
    }
    check_leave();
}

void check_allocated(const char *call, CUdeviceptr address, size_t bytes, CUstream stream)
{
    if (service_of_address(address) != NULL)
        allocated(call, address, bytes, name_of_own(address, stream), 0);
}

void check_allocated_own(const char *call, CUdeviceptr address, size_t bytes, int device,
                         CUstream stream)
{
    allocated(call, address, bytes, check_name_on(device, stream), 1);
}

void check_allocated_unseen(CUdeviceptr address, size_t bytes)
{
    check_sole_ends();
    if (service_of_address(address) == NULL || !check_enter())
        return;
    check_blocks_forget(address, bytes);
    check_leave();
}

void check_allocated_at_once(const char *call, CUdeviceptr address, size_t bytes)
{
    check_python_missing();
    check_stack room;
    check_stack *stack = check_stack_of_block(&room);
    if (service_of_address(address) == NULL || !check_enter())
        return;
    check_block *block = check_block_make(address, bytes);
    if (block != NULL) {
        block->made = touch_on_host(place_of(call, stack));
        waste_begin(block, block->made.place);
    }
    check_leave();
}

/* ---- frees ---------------------------------------------------------------------------------- */

/* What is freed is no block that lives. */
static void free_is_wrong(CUdeviceptr address, const check_touch *freed)
{
    const check_block *block = check_block_live(address);
    if (!check_does(CHECK_REPORTS))
        return;
    check_finding finding = {.kind = CHECK_WRONG_FREE,
                             .is_certain = 1,
                             .block = block,
                             .address = address,
                             .later = freed,
                             .later_is = "freed"};
    if (block == NULL) {
        block = finding.block = check_block_freed(address);
        if (block == NULL || !is_free_now(address))
            return;
        if (block->base == address)
            finding.kind = CHECK_DOUBLE_FREE;
        finding.earlier = &block->freed;
        finding.earlier_is = "freed before";
    }
    check_found(&finding);
}

/* 1 if a use was recorded, so that the memory is not handed on before it is over. */
static int is_recorded(const check_block *block, const check_touch *use)
{
    return block->records != NULL &&
           check_clock_at(&block->records->covered, use->index) >= use->number;
}

/* Ends a block. `stream`: null on the host. `has_waited`: the free comes after all uses. If it must
 * wait for the stream of the allocation because of a use there, that is the same missing wait. */
static void block_freed(check_block *block, const check_stream *stream, const check_touch *freed,
                        int has_waited)
{
    const check_touch *made = &block->made;
    uint32_t kept = 0;
    int must_wait = 0;
    block->is_of_end = check_python_ends() != 0;
    for (uint32_t i = 0; i < block->uses_count && !has_waited; i++) {
        const check_touch *use = &block->uses[i];
        int is_after = stream != NULL ? check_is_after(stream, use->index, use->number)
                                      : check_host_is_after(use->index, use->number);
        if (is_after || is_recorded(block, use))
            continue;
        if (is_kept_for_stream(block, stream))
            block->uses[kept++] = *use;
        else if (free_is_early(block, CHECK_FREE_IN_USE, use,
                               check_doubt(stream, use->index, use->number), freed))
            must_wait = 1; /* for a use that comes after the allocation, or is a finding itself */
    }
    if (block->own != 0 && stream != NULL && !must_wait &&
        !check_is_after(stream, made->index, made->number))
        (void)free_is_early(block, CHECK_USE_BEFORE_ALLOC, made,
                            check_doubt(stream, made->index, made->number), freed);
    block->freed = *freed;
    block->freed.is_certain = stream == NULL || !stream->known.is_open;
    block->uses_count = kept;
    if (kept > 0)
        check_block_await(block);
    else
        check_block_free(block);
}

void check_freeing(const char *call, CUdeviceptr address, CUstream handle)
{
    check_work work;
    check_stack room;
    check_stack *stack = check_stack_here(&room);
    check_name name = check_name_of(handle);
    check_name_ask(&name);
    if (!check_enter())
        return;
    check_block *block = check_block_live(address);
    if (check_does(CHECK_RECORDS) && block != NULL && block->own == 0)
        check_sole_record(address);
    if (name.is_capturing) {
        if (block != NULL)
            graph_freed(block, address, place_of(call, stack));
    } else if (check_work_begin(&work, &name, place_of(call, stack))) {
        if (block != NULL && block->base == address)
            block_freed(block, work.stream, &work.touch, 0);
        else
            free_is_wrong(address, &work.touch);
    }
    check_leave();
}

void check_freeing_at_once(const char *call, CUdeviceptr address)
{
    check_stack room;
    check_stack *stack = check_stack_here(&room);
    if (!check_enter())
        return;
    check_block *block = check_block_live(address);
    check_touch freed = touch_on_host(place_of(call, stack));
    if (block != NULL && block->base == address)
        block_freed(block, NULL, &freed, block->own == 0);
    else
        free_is_wrong(address, &freed);
    check_leave();
}

/* As the driver does it: cuMemFree of what cuMemAlloc gave has waited for the device. */
void check_freed_at_once(CUdeviceptr address)
{
    const service_device *device = service_of_address(address);
    if (device == NULL || !check_enter())
        return;
    const check_block *block = check_block_freed(address);
    int has_waited = block != NULL && block->base == address && block->own == 0;
    if (has_waited)
        check_host_saw_device(device->index);
    check_leave();
    if (has_waited)
        check_races_wait_for(device->index);
}

/* ---- frees and records of engines that call Tenure ------------------------------------------ */

/* What was to be recorded up to the free. */
static void records_close(check_block *block)
{
    check_records *records = block->records;
    for (size_t i = 0; records != NULL && i < records->count; i++) {
        const check_stream *stream = check_stream_stamped(records->until_free[i]);
        if (stream != NULL)
            check_clock_cover(&records->covered, stream);
    }
}

/* A stream that is gone has no order any more, but what was done on it is over. */
void check_freeing_own(const char *call, CUdeviceptr address, int is_sync)
{
    check_stack room;
    check_stack *stack = check_stack_here(&room);
    if (check_sole_is_there() || !check_enter())
        return;
    const check_place *place = place_of(call, stack);
    check_block *block = check_block_live(address);
    check_touch freed = touch_on_host(place);
    if (!check_does(CHECK_REPORTS)) {
        if (block != NULL && block->base == address)
            check_block_free(block);
    } else if (block == NULL || block->base != address) {
        free_is_wrong(address, &freed);
    } else if (block->own == 0) {
        block_freed(block, NULL, &freed, 1);
    } else {
        check_stream *own =
            check_stream_stamped((check_stamp){block->made.index, block->made.stream});
        if (own != NULL)
            freed = touch_on_stream(own, block->made.handle, place);
        records_close(block);
        block_freed(block, own, &freed, is_sync || own == NULL);
    }
    check_leave();
}

void check_use_recorded(CUdeviceptr address, CUstream handle, int until_free)
{
    check_name name = name_of_own(address, handle);
    if (name.is_capturing || !check_enter())
        return;
    check_block *block = check_block_live(address);
    const check_stream *stream = block == NULL ? NULL : check_stream_find(&name);
    check_records *records = stream == NULL ? NULL : check_block_records(block);
    int is_noted = records != NULL;
    if (is_noted && until_free)
        is_noted = check_records_add(records, (check_stamp){stream->index, stream->name});
    else if (is_noted)
        check_clock_cover(&records->covered, stream);
    if (block != NULL && !is_noted)
        check_blocks_forget(block->base, block->bytes); /* without memory: silence */
    check_leave();
}

void check_use_kept(CUdeviceptr address, CUevent event)
{
    if (!check_enter())
        return;
    check_block *block = check_block_live(address);
    check_records *records = block == NULL ? NULL : check_block_records(block);
    const check_moment *moment = check_event_get(event);
    if (records != NULL && moment != NULL)
        check_clock_cover_moment(&records->covered, moment);
    else if (block != NULL)
        check_blocks_forget(block->base, block->bytes); /* nobody knows up to where */
    check_leave();
}

/* ---- times ---------------------------------------------------------------------------------- */

void check_use_idle(check_block *block, const void *handle)
{
    if (check_does(CHECK_WASTE) && block != NULL && block->waste != NULL)
        check_waste_used(block->waste, handle, check_now());
}

/* Work of the default stream may wait for that of others. */
void check_wait_is_over(CUstream stream, uint64_t began)
{
    if (!check_enter())
        return;
    check_waste_waited((uintptr_t)stream <= (uintptr_t)CU_STREAM_PER_THREAD ? NULL : stream, began);
    check_leave();
}

/* ---- uses ----------------------------------------------------------------------------------- */

/* What it begins with is not ordered after the allocation. */
static __attribute__((cold, noinline)) void use_is_early(const check_work *work,
                                                         const check_block *block,
                                                         CUdeviceptr address, int is_certain)
{
    check_touch use = work->touch;
    use.is_certain = is_certain;
    check_finding finding = {
        .kind = block->before != NULL ? CHECK_REUSE_WITHOUT_ORDER : CHECK_USE_BEFORE_ALLOC,
        .is_certain = is_certain,
        .means = check_doubt(work->stream, block->made.index, block->made.number),
        .block = block,
        .address = address,
        .earlier = &block->made,
        .earlier_is = "allocated",
        .later = &use,
        .later_is = "used"};
    check_found(&finding);
}

static void use_of_live(const check_work *work, check_block *block, CUdeviceptr address,
                        int is_certain)
{
    const check_touch *made = &block->made;
    if (check_does(CHECK_RECORDS))
        check_record(address, (CUstream)(uintptr_t)work->touch.handle);
    if (work->touch.number == 0)
        return;
    if (block->own != 0 && made->index != work->stream->index &&
        !check_is_after(work->stream, made->index, made->number))
        use_is_early(work, block, address, is_certain);
    check_block_use(block, &work->touch, is_certain);
}

static inline __attribute__((always_inline)) void freed_is_used(const check_work *work,
                                                                const check_block *block,
                                                                CUdeviceptr address, int is_certain,
                                                                const char *means)
{
    check_touch use = work->touch;
    use.is_certain = is_certain;
    check_finding finding = {.kind = CHECK_USE_AFTER_FREE,
                             .is_certain = is_certain,
                             .means = means,
                             .block = block,
                             .address = address,
                             .earlier = &block->freed,
                             .earlier_is = "freed",
                             .later = &use,
                             .later_is = "used"};
    check_found(&finding);
}

/* The free waits for a value: so it may come after what is enqueued later, but not on its stream,
 * and not once the host has seen that it is over. */
static __attribute__((noinline, cold)) void use_of_freed_late(const check_work *work,
                                                              const check_block *block,
                                                              CUdeviceptr address, int is_certain)
{
    const check_touch *freed = &block->freed;
    int is_before =
        freed->stream == work->touch.stream || check_host_is_after(freed->index, freed->number);
    freed_is_used(work, block, address, is_certain, is_before ? NULL : check_means_values);
}

static void use_of_freed(const check_work *work, const check_block *block, CUdeviceptr address,
                         int is_certain)
{
    if (block->freed.is_certain)
        freed_is_used(work, block, address, is_certain, NULL);
    else
        use_of_freed_late(work, block, address, is_certain);
}

/* 1 if nothing is allocated where a block was freed. Lists of addresses are full of such, left over
 * from before, so Tenure is asked once: whatever hands the memory out later is told to the checker,
 * which then has another block there, or none. Of what is certain it is asked each time. */
static int is_free_still(check_block *block, CUdeviceptr address, int is_certain)
{
    if (block->is_known_free && !(is_certain && check_does(CHECK_REPORTS)))
        return 1;
    int is_free = is_free_now(address);
    block->is_known_free = is_free && block->base == address;
    return is_free;
}

/* Of memory that is not followed: a capture's, perhaps. */
static void use_of_others(const check_work *work, CUdeviceptr address)
{
    if (check_does(CHECK_RECORDS))
        check_record(address, (CUstream)(uintptr_t)work->touch.handle);
}

void check_use_otherwise(const check_work *work, check_block *block, CUdeviceptr address,
                         int is_certain)
{
    if (block != NULL && block->is_live)
        use_of_live(work, block, address, is_certain);
    else if (block == NULL || !is_free_still(block, address, is_certain))
        use_of_others(work, address);
    else if (work->touch.number > 0)
        use_of_freed(work, block, address, is_certain);
}

/* The addresses may be another block's by now: then the graph uses memory that it was not given.
 * Not so with an engine's: PyTorch launches again where another tensor lies at the address. */
void check_use_of_graph(const check_work *work, CUdeviceptr address, uint64_t serial,
                        int is_certain)
{
    check_block *block = check_block_live(address);
    const check_block *gone = check_block_freed(address);
    check_use_idle(block, work->touch.handle);
    if (block != NULL && block->serial == serial)
        check_use_in(work, block, address, is_certain);
    else if (block != NULL && block->before != NULL && block->before->serial == serial &&
             !block->before->is_engine)
        use_of_freed(work, block->before, address, is_certain);
    else if (gone != NULL && gone->serial == serial)
        use_of_freed(work, gone, address, is_certain);
}

void check_use_captured(CUdeviceptr address, CUstream stream)
{
    if (service_of_address(address) != NULL)
        check_record(address, stream);
}

/* ---- copies and sets ------------------------------------------------------------------------ */

/* Memory that is not Tenure's. */
typedef enum end_kind { END_NONE, END_OURS, END_PAGEABLE, END_VISIBLE, END_DEVICE } end_kind;

/* The driver knows nothing of pageable memory: a copy to it is over when the call returns. */
static end_kind end_of(check_span end)
{
    unsigned type = 0, is_managed = 0;
    if (end.address == 0 || end.bytes == 0)
        return END_NONE;
    if (service_of_address(end.address) != NULL)
        return END_OURS;
    if (REAL(cuPointerGetAttribute, (&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, end.address)) !=
        CUDA_SUCCESS)
        return END_PAGEABLE;
    if (type != CU_MEMORYTYPE_HOST)
        (void)REAL(cuPointerGetAttribute,
                   (&is_managed, CU_POINTER_ATTRIBUTE_IS_MANAGED, end.address));
    return type == CU_MEMORYTYPE_HOST || is_managed != 0 ? END_VISIBLE : END_DEVICE;
}

/* More than there is of a block: an engine's are of the size that it has asked for, or of one that
 * it has found out to be there. */
static void span_is_long(const check_work *work, check_span span)
{
    check_touch use = work->touch;
    const check_block *block = check_block_at(span.address);
    int is_before = block == NULL; /* it begins in none: into which does it run? */
    if (is_before)
        block = check_block_live(span.address + span.bytes - 1);
    if (block == NULL || !block->is_live || block->is_engine || use.number == 0 ||
        (!is_before && span.bytes <= block->bytes - (span.address - block->base)))
        return;
    use.is_certain = 1;
    check_finding finding = {.kind = CHECK_OUT_OF_BOUNDS,
                             .is_certain = 1,
                             .block = block,
                             .address = span.address,
                             .bytes = span.bytes,
                             .earlier = &block->made,
                             .earlier_is = "allocated",
                             .later = &use,
                             .later_is = "used"};
    check_found(&finding);
}

void check_use_span(const check_work *work, check_span span)
{
    if (span.bytes == 0 || service_of_address(span.address) == NULL)
        return;
    span_is_long(work, span);
    check_block *block = check_block_at(span.address);
    check_use_idle(block, work->touch.handle);
    check_use_in(work, block, span.address, 1);
}

/* What a host that polls it sees at once tells that the copy is over; of more it may see a part. */
enum { WORD_BYTES = 8 };

void check_span_polled(const check_work *work, check_span to)
{
    check_host_may_poll(work->stream, to.bytes <= WORD_BYTES);
}

static void copied(const char *call, CUstream handle, check_span to, check_span from,
                   int has_waited, int is_polled)
{
    check_work work;
    check_stack room;
    check_stack *stack = check_stack_here(&room);
    check_name name = check_name_of(handle);
    if (check_sole_is(&name) || (name.is_capturing && !check_does(CHECK_RECORDS)) || !check_enter())
        return;
    if (name.is_capturing) {
        check_use_captured(to.bytes > 0 ? to.address : 0, handle);
        check_use_captured(from.bytes > 0 ? from.address : 0, handle);
    } else if (check_work_begin(&work, &name, place_of(call, stack))) {
        check_use_span(&work, to);
        check_use_span(&work, from);
        if (check_is_host_watched) {
            check_pinned_copied(&work, to, 1, has_waited);
            check_pinned_copied(&work, from, 0, has_waited);
        }
        if (has_waited)
            check_host_saw(work.stream, work.stream->done);
        else if (is_polled && work.touch.number > 0)
            check_span_polled(&work, to);
    }
    check_leave();
}

void check_copied(const char *call, CUstream stream, check_span to, check_span from)
{
    end_kind kind = end_of(to);
    copied(call, stream, to, from, kind == END_PAGEABLE, kind == END_VISIBLE);
}

void check_copied_at_once(const char *call, CUstream stream, check_span to, check_span from)
{
    int has_host = from.address != 0 && (service_of_address(to.address) == NULL ||
                                         service_of_address(from.address) == NULL);
    copied(call, stream, to, from, has_host, !has_host && end_of(to) == END_VISIBLE);
}

void check_copied_between(const char *call, check_span to, check_span from)
{
    check_work work;
    check_stack room;
    check_stack *stack = check_stack_here(&room);
    check_name name = check_name_of(NULL);
    if (name.is_capturing || !check_enter())
        return;
    if (check_work_begin(&work, &name, place_of(call, stack))) {
        check_stream_follow_all(work.stream);
        check_use_span(&work, to);
        check_use_span(&work, from);
        check_host_saw_device(-1);
    }
    check_leave();
}

/* ---- memory that the host reads ------------------------------------------------------------- */

void check_host_memory_made(const void *base, size_t bytes, int is_pinned)
{
    if (!check_enter())
        return;
    check_visible_add((uintptr_t)base, bytes, is_pinned);
    check_leave();
}

void check_host_memory_gone(const void *base)
{
    if (!check_enter())
        return;
    check_visible_remove((uintptr_t)base);
    check_leave();
}

/* ---- ends ----------------------------------------------------------------------------------- */

void check_device_ends(int index)
{
    const service_device *device = service_device_at(index);
    check_sole_device_ends(index);
    if (!check_enter())
        return;
    check_host_saw_device(index);
    if (device->address_bytes > 0)
        check_blocks_forget(device->address_base, device->address_bytes);
    check_leave();
}
