/* SPDX-License-Identifier: Apache-2.0 */
/* Errors between streams, threads and the host. */
#include <pthread.h>
#include <string.h>

#include <tenure/simcuda.h>

#include "zoo.h"

/* ---- freed too early ------------------------------------------------------------------------ */

void animal_free_in_use(void)
{
    CUdeviceptr block = make(the.a);
    wait_for(the.a, the.b);
    touch(block, the.b);
    if (!the.is_wrong)
        wait_for(the.b, the.a);
    MUST(cuMemFreeAsync(block, the.a));
}

void animal_free_in_use_by_copy(void)
{
    CUdeviceptr block = make(the.a), other;
    MUST(cuMemAlloc(&other, BYTES));
    wait_for(the.a, the.b);
    MUST(cuMemcpyDtoDAsync(other, block, BYTES, the.b));
    if (!the.is_wrong)
        wait_for(the.b, the.a);
    MUST(cuMemFreeAsync(block, the.a));
    MUST(cuMemFree(other));
}

void animal_free_in_use_by_set(void)
{
    CUdeviceptr block = make(the.a);
    wait_for(the.a, the.b);
    MUST(cuMemsetD32Async(block + 4096, 7, 64, the.b));
    if (!the.is_wrong)
        MUST(cuStreamSynchronize(the.b));
    MUST(cuMemFreeAsync(block, the.a));
}

void animal_free_in_use_by_packed(void)
{
    struct {
        CUdeviceptr address;
        unsigned count;
    } packed = {make(the.a), 1};
    size_t bytes = 12;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &bytes,
                     CU_LAUNCH_PARAM_END};
    wait_for(the.a, the.b);
    MUST(cuLaunchKernel(the.touch, 1, 1, 1, 1, 1, 1, 0, the.b, NULL, extra));
    if (!the.is_wrong)
        wait_for(the.b, the.a);
    MUST(cuMemFreeAsync(packed.address, the.a));
}

/* cuMemFree of stream-ordered memory waits for nothing; of cuMemAlloc's it does. */
void animal_free_at_once_in_use(void)
{
    CUdeviceptr block;
    if (the.is_wrong)
        block = make(the.a);
    else
        MUST(cuMemAlloc(&block, BYTES));
    touch(block, the.a);
    MUST(cuMemFree(block));
}

/* One stream has all memory at first, and works with a block of another one's then. */
void animal_second_stream_has_memory(void)
{
    CUdeviceptr first = make(the.a);
    touch(first, the.a);
    CUdeviceptr block = make(the.b);
    wait_for(the.b, the.a);
    touch(first, the.a);
    touch(block, the.a);
    if (!the.is_wrong)
        wait_for(the.a, the.b);
    MUST(cuMemFreeAsync(block, the.b));
}

/* One stream has all memory but for a block of no stream's, which it works with. */
static void no_order(int is_sole)
{
    CUdeviceptr block, other;
    MUST(cuMemAlloc(&block, BYTES));
    other = make(the.a);
    touch(block, the.a);
    if (!is_sole) {
        CUdeviceptr second = make(the.c);
        touch(second, the.c);
    }
    if (!the.is_wrong)
        wait_for(the.a, the.b);
    MUST(cuMemFreeAsync(block, the.b));
    for (int i = 0; i < 3; i++) { /* one lies where it was */
        MUST(cuMemAlloc(&block, BYTES));
        MUST(cuMemsetD8Async(block, 255, BYTES, the.b));
    }
    touch(other, the.a);
}

void animal_free_of_no_order(void)
{
    no_order(1);
}

void animal_free_of_no_order_later(void)
{
    no_order(0);
}

void animal_free_on_the_wrong_stream(void)
{
    CUdeviceptr block = make(the.a);
    touch(block, the.a);
    MUST(cuStreamSynchronize(the.a));
    touch(block, the.b);
    MUST(cuMemFreeAsync(block, the.is_wrong ? the.c : the.b));
}

/* The legacy stream waits for blocking streams, and for no others. */
void animal_free_on_the_default_stream(void)
{
    CUstream stream;
    CUdeviceptr block = make(NULL);
    MUST(cuStreamSynchronize(NULL));
    MUST(cuStreamCreate(&stream, the.is_wrong ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT));
    touch(block, stream);
    MUST(cuMemFreeAsync(block, NULL));
    MUST(cuStreamDestroy(stream));
}

/* What a blocking stream is given comes after what the legacy stream was given before. */
void animal_default_stream_first(void)
{
    CUstream stream;
    CUdeviceptr block = make(NULL);
    MUST(cuStreamCreate(&stream, the.is_wrong ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT));
    touch(block, stream);
    MUST(cuStreamSynchronize(stream));
    MUST(cuMemFreeAsync(block, NULL));
    MUST(cuStreamDestroy(stream));
}

/* An event that the legacy stream records waits for blocking streams, and what they are given next
 * for it: though the legacy stream has no work of its own. */
void animal_record_on_the_default_stream(void)
{
    CUstream owner, other;
    MUST(cuStreamCreate(&owner, CU_STREAM_DEFAULT));
    MUST(cuStreamCreate(&other, CU_STREAM_DEFAULT));
    CUdeviceptr block = make(owner);
    MUST(cuStreamSynchronize(owner));
    if (the.is_wrong)
        MUST(cuEventRecord(the.event, NULL));
    touch(block, other);
    if (!the.is_wrong)
        MUST(cuEventRecord(the.event, NULL));
    MUST(cuMemFreeAsync(block, owner));
}

/* cuMemFree of what cuMemAlloc gave waits for all work of the device. */
void animal_another_free_waits(void)
{
    CUdeviceptr other, block = make(the.a);
    MUST(cuMemAlloc(&other, BYTES));
    MUST(cuStreamSynchronize(the.a));
    if (the.is_wrong)
        MUST(cuMemFree(other));
    touch(block, the.b);
    if (!the.is_wrong)
        MUST(cuMemFree(other));
    MUST(cuMemFreeAsync(block, the.a));
}

void animal_event_seen(void)
{
    CUdeviceptr block = make(the.a);
    MUST(cuStreamSynchronize(the.a));
    if (the.is_wrong)
        MUST(cuEventRecord(the.event, the.b));
    touch(block, the.b);
    if (!the.is_wrong)
        MUST(cuEventRecord(the.event, the.b));
    MUST(cuEventSynchronize(the.event));
    MUST(cuMemFreeAsync(block, the.a));
}

void animal_event_too_early(void)
{
    CUdeviceptr block = make(the.a);
    wait_for(the.a, the.b);
    touch(block, the.b);
    if (the.is_wrong)
        MUST(cuEventRecord(the.event, the.b));
    touch(block, the.b);
    if (!the.is_wrong)
        MUST(cuEventRecord(the.event, the.b));
    MUST(cuStreamWaitEvent(the.a, the.event, 0));
    MUST(cuMemFreeAsync(block, the.a));
}

void animal_event_never_recorded(void)
{
    CUevent event;
    CUdeviceptr block = make(the.a);
    MUST(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    wait_for(the.a, the.b);
    touch(block, the.b);
    if (!the.is_wrong)
        MUST(cuEventRecord(event, the.b));
    MUST(cuStreamWaitEvent(the.a, event, 0));
    MUST(cuMemFreeAsync(block, the.a));
    MUST(cuEventDestroy(event));
}

/* The owner waits for the second stream, which has never waited for the third; in the twin it has,
 * and so the owner is after all of them. */
void animal_three_streams(void)
{
    CUdeviceptr block = make(the.a);
    wait_for(the.a, the.b);
    touch(block, the.b);
    wait_for(the.b, the.c);
    touch(block, the.c);
    if (!the.is_wrong)
        wait_for(the.c, the.b);
    wait_for(the.b, the.a);
    MUST(cuMemFreeAsync(block, the.a));
}

/* A stream that is gone may be at work still, and the next one is another. */
void animal_stream_that_ended(void)
{
    CUstream first, next;
    CUdeviceptr block = make(the.a);
    MUST(cuStreamSynchronize(the.a));
    MUST(cuStreamCreate(&first, CU_STREAM_NON_BLOCKING));
    touch(block, first);
    if (!the.is_wrong)
        MUST(cuStreamSynchronize(first));
    MUST(cuStreamDestroy(first));
    MUST(cuStreamCreate(&next, CU_STREAM_NON_BLOCKING));
    if (next != first)
        exit(1);
    wait_for(next, the.a);
    MUST(cuMemFreeAsync(block, the.a));
    MUST(cuStreamDestroy(next));
}

/* The next one of the handle is not the one that the block is of. */
void animal_stream_of_the_block_ended(void)
{
    CUstream owner, next;
    MUST(cuStreamCreate(&owner, CU_STREAM_NON_BLOCKING));
    CUdeviceptr block = make(owner);
    MUST(cuStreamSynchronize(owner));
    MUST(cuStreamDestroy(owner));
    MUST(cuStreamCreate(&next, CU_STREAM_NON_BLOCKING));
    if (next != owner)
        exit(1);
    touch(block, next);
    if (!the.is_wrong)
        wait_for(next, the.a);
    MUST(cuMemFreeAsync(block, the.a));
    MUST(cuStreamDestroy(next));
}

/* The next one of the handle is another also in what it waits for: the legacy stream, or not. */
void animal_stream_of_another_kind(void)
{
    CUstream first, next;
    CUdeviceptr before = make(NULL), block = make(NULL);
    MUST(cuStreamSynchronize(NULL));
    MUST(cuStreamCreate(&first, the.is_wrong ? CU_STREAM_DEFAULT : CU_STREAM_NON_BLOCKING));
    touch(before, first);
    MUST(cuStreamDestroy(first));
    MUST(cuStreamCreate(&next, the.is_wrong ? CU_STREAM_NON_BLOCKING : CU_STREAM_DEFAULT));
    if (next != first)
        exit(1);
    touch(block, next);
    MUST(cuMemFreeAsync(block, NULL));
    MUST(cuStreamDestroy(next));
}

void animal_pool(void)
{
    CUdeviceptr block;
    CUmemoryPool pool;
    CUmemPoolProps props = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                            .location = {.type = CU_MEM_LOCATION_TYPE_DEVICE, .id = 0}};
    MUST(cuMemPoolCreate(&pool, &props));
    MUST(cuMemAllocFromPoolAsync(&block, BYTES, pool, the.a));
    wait_for(the.a, the.b);
    touch(block, the.b);
    if (!the.is_wrong)
        wait_for(the.b, the.a);
    MUST(cuMemFreeAsync(block, the.a));
    MUST(cuMemPoolDestroy(pool));
}

/* Another device reads the block. */
void animal_peer_copy(void)
{
    CUdevice device;
    CUcontext context;
    CUstream stream;
    CUevent event;
    CUdeviceptr there, block = make(the.a);
    MUST(cuEventRecord(the.event, the.a));
    MUST(cuDeviceGet(&device, 1));
    MUST(cuDevicePrimaryCtxRetain(&context, device));
    MUST(cuCtxSetCurrent(context));
    MUST(cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING));
    MUST(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING));
    MUST(cuMemAllocAsync(&there, BYTES, stream));
    MUST(cuStreamWaitEvent(stream, the.event, 0));
    MUST(cuMemcpyPeerAsync(there, context, block, the.context, BYTES, stream));
    MUST(cuEventRecord(event, stream));
    MUST(cuMemFreeAsync(there, stream));
    the.far = stream;
    the.far_context = context;
    MUST(cuCtxSetCurrent(the.context));
    if (!the.is_wrong)
        MUST(cuStreamWaitEvent(the.a, event, 0));
    MUST(cuMemFreeAsync(block, the.a));
}

/* ---- threads and the host ------------------------------------------------------------------- */

static CUdeviceptr shared_block;

static void *thread_use(void *stream)
{
    MUST(cuCtxSetCurrent(the.context));
    touch(shared_block, stream);
    if (!the.is_wrong)
        MUST(cuStreamSynchronize(stream));
    return NULL;
}

static void thread_run(CUstream stream)
{
    pthread_t thread;
    shared_block = make(the.a);
    MUST(cuStreamSynchronize(the.a));
    if (pthread_create(&thread, NULL, thread_use, stream) != 0 || pthread_join(thread, NULL) != 0)
        exit(1);
    MUST(cuMemFreeAsync(shared_block, the.a));
}

void animal_thread(void)
{
    thread_run(the.b);
}

void animal_thread_default_stream(void)
{
    thread_run(CU_STREAM_PER_THREAD);
}

static void *thread_make(void *unused)
{
    (void)unused;
    MUST(cuCtxSetCurrent(the.context));
    shared_block = make(CU_STREAM_PER_THREAD);
    MUST(cuStreamSynchronize(CU_STREAM_PER_THREAD));
    return NULL;
}

/* The default stream of a thread is another than that of a thread which ended, though what is the
 * thread's own lies at the same addresses. */
void animal_default_stream_of_the_next_thread(void)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, thread_make, NULL) != 0 || pthread_join(thread, NULL) != 0 ||
        pthread_create(&thread, NULL, thread_use, CU_STREAM_PER_THREAD) != 0 ||
        pthread_join(thread, NULL) != 0)
        exit(1);
    MUST(cuMemFreeAsync(shared_block, the.a));
    MUST(cuStreamSynchronize(the.a)); /* nothing known keeps it */
}

static pthread_mutex_t heard_mutex = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t heard_changed = PTHREAD_COND_INITIALIZER;
static int is_heard;

static void CUDA_CB host_hear(void *data)
{
    (void)data;
    pthread_mutex_lock(&heard_mutex);
    is_heard = 1;
    pthread_cond_signal(&heard_changed);
    pthread_mutex_unlock(&heard_mutex);
}

/* A host function tells the host that the stream is through. The threads' schedule runs it. */
void animal_host_function(void)
{
    CUdeviceptr block = make(the.a);
    MUST(cuStreamSynchronize(the.a));
    if (the.is_wrong)
        MUST(cuLaunchHostFunc(the.b, host_hear, NULL));
    touch(block, the.b);
    if (!the.is_wrong)
        MUST(cuLaunchHostFunc(the.b, host_hear, NULL));
    pthread_mutex_lock(&heard_mutex);
    while (!is_heard)
        pthread_cond_wait(&heard_changed, &heard_mutex);
    pthread_mutex_unlock(&heard_mutex);
    MUST(cuMemFreeAsync(block, the.a));
}

/* A copy to memory of the host that is not pinned is over when the call returns. */
void animal_pageable(void)
{
    static char plain[256];
    void *pinned;
    CUdeviceptr block = make(the.a);
    MUST(cuMemHostAlloc(&pinned, sizeof(plain), 0));
    MUST(cuStreamSynchronize(the.a));
    MUST(cuMemcpyDtoHAsync(the.is_wrong ? pinned : plain, block, sizeof(plain), the.b));
    MUST(cuMemFreeAsync(block, the.a));
}

/* A copy from it may go on when the call has returned: the bytes were only taken from there. */
void animal_pageable_to_device(void)
{
    static char plain[1 << 17];
    CUdeviceptr block;
    MUST(cuMemAlloc(&block, BYTES));
    MUST(cuCtxSynchronize());
    MUST(cuMemcpyHtoD(block, plain, sizeof(plain)));
    if (!the.is_wrong)
        MUST(cuStreamSynchronize(NULL));
    MUST(cuMemsetD8Async(block, 1, sizeof(plain), the.b));
    MUST(cuCtxSynchronize());
}

/* A copy to the host is over when the call without a stream returns; one on the device is not. */
void animal_copy_at_once(void)
{
    static char bytes[256];
    CUdeviceptr other, block = make(the.a);
    MUST(cuMemAlloc(&other, BYTES));
    MUST(cuStreamSynchronize(the.a));
    if (the.is_wrong)
        MUST(cuMemcpyDtoD(other, block, sizeof(bytes)));
    else
        MUST(cuMemcpyDtoH(bytes, block, sizeof(bytes)));
    MUST(cuMemFreeAsync(block, the.a));
    MUST(cuMemFree(other));
}

/* ---- others --------------------------------------------------------------------------------- */

/* The kernel was launched before, so that its parameter is known to be a pointer. */
void animal_use_after_free(void)
{
    CUdeviceptr block = make(the.a);
    touch(make(the.a), the.a);
    if (the.is_wrong)
        MUST(cuMemFreeAsync(block, the.a));
    touch(block, the.a);
    if (!the.is_wrong)
        MUST(cuMemFreeAsync(block, the.a));
}

void animal_use_after_free_at_once(void)
{
    CUdeviceptr block, other;
    char bytes[16];
    MUST(cuMemAlloc(&block, BYTES));
    MUST(cuMemAlloc(&other, BYTES));
    MUST(cuMemFree(the.is_wrong ? block : other));
    MUST(cuMemcpyDtoH(bytes, block, sizeof(bytes)));
    MUST(cuMemFree(the.is_wrong ? other : block));
}

/* In another stream, that waits for the free: it is wrong all the same. */
void animal_use_after_free_elsewhere(void)
{
    CUdeviceptr block = make(the.a);
    touch(make(the.a), the.a);
    MUST(cuStreamSynchronize(the.a));
    if (!the.is_wrong)
        touch(block, the.b);
    wait_for(the.b, the.a);
    MUST(cuMemFreeAsync(block, the.a));
    wait_for(the.a, the.b);
    if (the.is_wrong)
        touch(block, the.b);
}

void animal_use_before_allocation(void)
{
    CUdeviceptr block = make(the.a);
    if (!the.is_wrong)
        wait_for(the.a, the.b);
    touch(block, the.b);
    wait_for(the.b, the.a);
    MUST(cuMemFreeAsync(block, the.a));
}

void animal_free_before_allocation(void)
{
    CUdeviceptr block = make(the.a);
    if (!the.is_wrong)
        wait_for(the.a, the.b);
    MUST(cuMemFreeAsync(block, the.b));
}

/* The same, where the memory was another block: whoever had it may be at work on it still. */
void animal_reuse(void)
{
    CUdeviceptr first = make(the.a);
    touch(first, the.a);
    MUST(cuMemFreeAsync(first, the.a));
    CUdeviceptr block = make(the.a);
    if (block != first)
        exit(1);
    if (!the.is_wrong)
        wait_for(the.a, the.b);
    touch(block, the.b);
    wait_for(the.b, the.a);
    MUST(cuMemFreeAsync(block, the.a));
}

void animal_double_free(void)
{
    CUdeviceptr block = make(the.a), other = make(the.a);
    MUST(cuMemFreeAsync(block, the.a));
    MUST_BE(cuMemFreeAsync(the.is_wrong ? block : other, the.a),
            the.is_wrong ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS);
}

void animal_wrong_free(void)
{
    CUdeviceptr block;
    MUST(cuMemAlloc(&block, BYTES));
    MUST_BE(cuMemFree(the.is_wrong ? block + 256 : block),
            the.is_wrong ? CUDA_ERROR_INVALID_VALUE : CUDA_SUCCESS);
}

/* ---- tensor maps ---------------------------------------------------------------------------- */

static void tensor_encode(CUtensorMap *map, CUdeviceptr address)
{
    cuuint64_t dimensions[2] = {64, 64}, strides[1] = {64};
    cuuint32_t box[2] = {8, 8}, steps[2] = {1, 1};
    MUST(cuTensorMapEncodeTiled(map, CU_TENSOR_MAP_DATA_TYPE_UINT8, 2, (void *)(uintptr_t)address,
                                dimensions, strides, box, steps, CU_TENSOR_MAP_INTERLEAVE_NONE,
                                CU_TENSOR_MAP_SWIZZLE_NONE, CU_TENSOR_MAP_L2_PROMOTION_NONE,
                                CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
}

/* Uses a block through the map, and frees it. */
static void tensor_use(CUfunction kernel, void *parameter, CUdeviceptr block)
{
    void *params[] = {parameter};
    wait_for(the.a, the.b);
    MUST(cuLaunchKernel(kernel, 1, 1, 1, 1, 1, 1, 0, the.b, params, NULL));
    if (!the.is_wrong)
        wait_for(the.b, the.a);
    MUST(cuMemFreeAsync(block, the.a));
}

/* The address is not to be seen in the parameter. */
void animal_tensor_map(void)
{
    CUtensorMap map;
    CUdeviceptr block = make(the.a);
    tensor_encode(&map, block + 4096);
    tensor_use(the.tensor, &map, block);
}

void animal_tensor_map_replaced(void)
{
    CUtensorMap map;
    CUdeviceptr first = make(the.a), block = make(the.a);
    tensor_encode(&map, first);
    MUST(cuTensorMapReplaceAddress(&map, (void *)(uintptr_t)block));
    tensor_use(the.tensor, &map, block);
    MUST(cuMemFreeAsync(first, the.a)); /* the map leads there no more */
}

/* ---- what is possible only ------------------------------------------------------------------- */

/* An address in a structure is one perhaps. */
void animal_structure(void)
{
    CUdeviceptr words[3] = {0, make(the.a), 5};
    void *params[] = {words};
    wait_for(the.a, the.b);
    MUST(cuLaunchKernel(the.whole, 1, 1, 1, 1, 1, 1, 0, the.b, params, NULL));
    if (!the.is_wrong)
        wait_for(the.b, the.a);
    MUST(cuMemFreeAsync(words[1], the.a));
}

/* The same of a tensor map. */
void animal_tensor_map_in_structure(void)
{
    _Alignas(64) char words[PAIR_BYTES] = {0};
    CUtensorMap map;
    CUdeviceptr block = make(the.a);
    tensor_encode(&map, block);
    memcpy(words + 64, &map, sizeof(map));
    tensor_use(the.pair, words, block);
}

/* Where one block ends another may begin: the end of a range is no use of that, for certain. */
void animal_end_of_range(void)
{
    CUdeviceptr first = make(the.a), second = make(the.a);
    CUdeviceptr begin = first < second ? first : second, next = first + second - begin;
    CUdeviceptr end = begin + BYTES;
    void *params[] = {&begin, &end};
    wait_for(the.a, the.b);
    MUST(cuLaunchKernel(the.both, 1, 1, 1, 1, 1, 1, 0, the.b, params, NULL));
    if (!the.is_wrong)
        wait_for(the.b, the.a);
    MUST(cuMemFreeAsync(next, the.a));
    wait_for(the.b, the.a);
    MUST(cuMemFreeAsync(begin, the.a));
}

/* Streams that wait for values are ordered by what nobody sees. */
void animal_value_wait(void)
{
    CUdeviceptr flag, block = make(the.a);
    MUST(cuMemAlloc(&flag, 4));
    MUST(cuMemsetD32(flag, 0, 1));
    MUST(cuCtxSynchronize());
    touch(block, the.b);
    MUST(cuStreamWriteValue32(the.b, flag, 1, 0));
    MUST(cuStreamWaitValue32(the.a, flag, 1, CU_STREAM_WAIT_VALUE_EQ));
    if (!the.is_wrong)
        wait_for(the.b, the.a);
    MUST(cuMemFreeAsync(block, the.a));
    MUST(cuStreamSynchronize(the.a));
    MUST(cuMemFree(flag));
}

/* ---- reports -------------------------------------------------------------------------------- */

static void nothing_run(void *const *params)
{
    (void)params;
}

/* One error, fifty times. */
void animal_repeated(void)
{
    for (int i = 0; i < 50; i++)
        animal_free_in_use();
}

/* Two errors in one function, called at the same depth of the stack. */
void animal_places(void)
{
    for (int i = 0; i < 6; i++) {
        CUdeviceptr block = make(the.a);
        wait_for(the.a, the.b);
        if (i % 2 == 0)
            touch(block, the.b);
        else
            touch(block + 4096, the.b);
        if (!the.is_wrong)
            wait_for(the.b, the.a);
        MUST(cuMemFreeAsync(block, the.a));
    }
}

/* One line launches more kernels than any table of theirs has places, all known before the first
 * error. */
void animal_kernels_of_one_line(void)
{
    enum { KERNELS = 80 };
    static const size_t bytes[] = {8};
    CUmodule module;
    CUfunction kernels[KERNELS];
    char name[32];
    for (int i = 0; i < KERNELS; i++) {
        (void)snprintf(name, sizeof(name), "kernel_%d", i);
        if (simcuda_kernel_register(name, 1, bytes, nothing_run, NULL) != 0)
            exit(1);
    }
    MUST(cuModuleLoadData(&module, "any image"));
    for (int i = 0; i < KERNELS; i++) {
        (void)snprintf(name, sizeof(name), "kernel_%d", i);
        MUST(cuModuleGetFunction(&kernels[i], module, name));
    }
    for (int i = 0; i < 2 * KERNELS; i++) {
        CUdeviceptr block = make(the.a);
        void *params[] = {&block};
        wait_for(the.a, the.b);
        MUST(cuLaunchKernel(kernels[i % KERNELS], 1, 1, 1, 1, 1, 1, 0, the.b, params, NULL));
        if (i < KERNELS || !the.is_wrong)
            wait_for(the.b, the.a);
        MUST(cuMemFreeAsync(block, the.a));
    }
}

void animal_leak(void)
{
    CUdeviceptr block;
    MUST(cuMemAlloc(&block, BYTES));
    if (!the.is_wrong)
        MUST(cuMemFree(block));
}
