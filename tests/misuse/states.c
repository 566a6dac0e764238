/* SPDX-License-Identifier: Apache-2.0 */
/* The states of a process in which the table makes its calls. Each is entered as a program would,
 * by public functions and the driver's, in a process that has neither before. */
#include "misuse.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tenure/simcuda.h>

#include "base/host_memory.h"

/* The state cannot be entered: the test is broken, not the library. */
#define NEED(condition)                                                                            \
    do {                                                                                           \
        if (!(condition)) {                                                                        \
            fprintf(stderr, "%s:%d: %s: %s\n", __FILE__, __LINE__, #condition, tnr_last_error());  \
            _exit(4);                                                                              \
        }                                                                                          \
    } while (0)
#define NEED_OK(call) NEED((call) == TNR_OK)
#define NEED_CUDA(call) NEED((call) == CUDA_SUCCESS)

static void settings(const misuse_world *world, const char *memory, const char *conf)
{
    char text[512];
    snprintf(text, sizeof(text),
             "address_space_gb:64,graph_end_ms:0,group_wait_ms:0,control_dir:%s%s", world->folder,
             conf);
    NEED(setenv("TENURE_DRIVER", "sim", 1) == 0 && setenv("TENURE_CONF", text, 1) == 0 &&
         setenv("TENURE_SIM_DEVICES", "2", 1) == 0 && setenv("TENURE_SIM_MEMORY", memory, 1) == 0);
    /* Starts nothing: a tag is one before there is a driver. */
    tnr_pool tagged;
    NEED_OK(tnr_tag_pool(&tagged, "misuse", TNR_CONTENT_KEEP));
}

/* Another process, which ends with this one, holds a block under the name of the table and offers
 * another. Nothing of Tenure runs here yet. */
static void holder_make(misuse_world *world)
{
    int ends[2];
    CUcontext context;
    NEED(pipe2(ends, O_CLOEXEC) == 0);
    pid_t child = fork();
    NEED(child >= 0);
    if (child == 0) {
        void *held, *offered;
        NEED(prctl(PR_SET_PDEATHSIG, SIGKILL) == 0 && close(ends[0]) == 0);
        settings(world, "4G", "");
        NEED_CUDA(cuInit(0));
        NEED_CUDA(cuDevicePrimaryCtxRetain(&context, 0));
        NEED_OK(tnr_malloc(&held, 4 * MIB, 0, NULL));
        NEED_OK(tnr_malloc(&offered, 4 * MIB, 0, NULL));
        NEED_OK(tnr_publish(NULL, "misuse", held, NULL));
        NEED_OK(tnr_export_offer(&world->name, offered));
        NEED(write(ends[1], &world->name, sizeof(world->name)) == (ssize_t)sizeof(world->name));
        for (;;)
            (void)pause();
    }
    NEED(close(ends[1]) == 0 &&
         read(ends[0], &world->name, sizeof(world->name)) == (ssize_t)sizeof(world->name));
    (void)close(ends[0]);
}

/* ---- before the library runs ---------------------------------------------------------------- */

/* A program's own streams, and nothing of Tenure. */
static void driver_only(misuse_world *world)
{
    CUstream *const streams[] = {&world->stream, &world->other, &world->ended, &world->elsewhere};
    NEED_CUDA(cuInit(0));
    for (int i = 0; i < 4; i++) {
        int device = i == 3;
        NEED_CUDA(cuDevicePrimaryCtxRetain(&world->contexts[device], device));
        NEED_CUDA(cuCtxSetCurrent(world->contexts[device]));
        NEED_CUDA(cuStreamCreate(streams[i], CU_STREAM_NON_BLOCKING));
    }
    NEED_CUDA(cuCtxSetCurrent(world->contexts[0]));
    NEED_CUDA(cuEventCreate(&world->event, CU_EVENT_DISABLE_TIMING));
    NEED_CUDA(cuEventCreate(&world->unannounced, CU_EVENT_DISABLE_TIMING));
    /* Whose other side has hung up: a call that waits for it would take 10 s. */
    NEED(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, world->sockets) == 0 &&
         close(world->sockets[1]) == 0);
}

static void enter_before(misuse_world *world)
{
    settings(world, "4G", "");
    driver_only(world);
}

static void enter_no_driver(misuse_world *world)
{
    settings(world, "4G", "");
    NEED(setenv("TENURE_DRIVER", "/nowhere/libcuda.so.1", 1) == 0);
    world->event = (CUevent)1; /* no driver is ever asked about it */
}

static void enter_old_driver(misuse_world *world)
{
    settings(world, "4G", "");
    NEED(setenv("TENURE_SIM_MISSING", "cuMemMap", 1) == 0);
    world->event = (CUevent)1;
}

static void enter_no_device(misuse_world *world)
{
    settings(world, "4G", "");
    NEED(setenv("TENURE_SIM_DEVICES", "0", 1) == 0);
    world->event = (CUevent)1;
}

static void enter_no_vmm(misuse_world *world)
{
    holder_make(world);
    settings(world, "4G", "");
    NEED(setenv("TENURE_SIM_VMM", "0", 1) == 0);
    driver_only(world);
}

static void enter_bad_settings(misuse_world *world)
{
    settings(world, "4G", ",nonsense:1");
    driver_only(world);
}

static void enter_no_folder(misuse_world *world)
{
    settings(world, "4G", ",control_dir:/dev/null/none,control:on");
    driver_only(world);
}

/* Another process has all places of the group: here, another description of its file. */
static void enter_no_place(misuse_world *world)
{
    holder_make(world);
    settings(world, "4G", ",group:misuse");
    driver_only(world);
    for (int device = 0; device < 2; device++) {
        char path[512];
        CUuuid uuid;
        NEED_CUDA(cuDeviceGetUuid(&uuid, device));
        int length = snprintf(path, sizeof(path), "%s/misuse-", world->folder);
        for (size_t i = 0; i < sizeof(uuid.bytes); i++)
            length += snprintf(path + length, sizeof(path) - (size_t)length, "%02x",
                               (unsigned)(unsigned char)uuid.bytes[i]);
        snprintf(path + length, sizeof(path) - (size_t)length, ".group");
        int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
        struct flock places = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
        NEED(file >= 0 && fcntl(file, F_OFD_SETLK, &places) == 0);
    }
}

/* ---- while it runs -------------------------------------------------------------------------- */

/* A graph of `pool` (null: its own) that refers to a block outside. */
static void graph_make(misuse_world *world, CUgraph *cuda_graph, tnr_graph *graph)
{
    tnr_capture_options options = TNR_CAPTURE_OPTIONS_INIT;
    void *inside;
    options.mode = TNR_CAPTURE_RELAXED;
    NEED_OK(tnr_capture_begin(0, world->stream, &options));
    NEED_OK(tnr_malloc(&inside, 2 * MIB, 0, world->stream));
    NEED_CUDA(cuMemsetD32Async((CUdeviceptr)(uintptr_t)inside, 1, 1024, world->stream));
    NEED_CUDA(cuMemsetD32Async((CUdeviceptr)(uintptr_t)world->block, 1, 1024, world->stream));
    NEED_OK(tnr_free(inside));
    NEED_OK(tnr_capture_end((tnr_cuda_graph *)cuda_graph, graph, 0, world->stream));
}

static void graphs_make(misuse_world *world)
{
    graph_make(world, &world->cuda_graph_ended, &world->graph_ended);
    NEED_CUDA(cuGraphInstantiateWithFlags(&world->exec_ended, world->cuda_graph_ended, 0));
    NEED_CUDA(cuGraphExecDestroy(world->exec_ended));
    NEED_CUDA(cuGraphDestroy(world->cuda_graph_ended));
    (void)simcuda_run(UINT64_MAX);
    graph_make(world, &world->cuda_graph, &world->graph);
    NEED_CUDA(cuGraphInstantiateWithFlags(&world->exec, world->cuda_graph, 0));
}

/* An owner of segments, who keeps them until the process ends. */
static void *segment_alloc(size_t bytes, int device, tnr_stream stream, void *user)
{
    const size_t unit = 2 * MIB;
    CUdeviceptr base = 0;
    (void)device;
    (void)stream;
    (void)user;
    if (cuMemAlloc(&base, bytes + unit) != CUDA_SUCCESS)
        return NULL;
    return (void *)(uintptr_t)((base + unit - 1) / unit * unit);
}

static void segment_free(void *ptr, size_t bytes, int device, tnr_stream stream, void *user)
{
    (void)ptr;
    (void)bytes;
    (void)device;
    (void)stream;
    (void)user;
}

static tnr_pool foreign_pool(void)
{
    tnr_pool pool;
    tnr_pool_options options = TNR_POOL_OPTIONS_INIT;
    options.segment_alloc = segment_alloc;
    options.segment_free = segment_free;
    NEED_OK(tnr_pool_create(&pool, 0, &options));
    return pool;
}

static void *block_of(tnr_pool pool, size_t bytes, int device, CUstream stream)
{
    void *ptr;
    NEED_OK(tnr_pool_malloc(&ptr, pool, bytes, device, (tnr_stream)stream));
    return ptr;
}

static void blocks_make(misuse_world *world)
{
    CUstream stream = world->stream;
    world->block = block_of(NULL, 8 * MIB, 0, stream);
    world->pooled = block_of(world->own, 4 * MIB, 0, stream);
    world->far = block_of(world->away, 4 * MIB, 1, world->elsewhere);
    world->freed = block_of(world->own, 4 * MIB, 0, stream);
    world->parked = block_of(NULL, 8 * MIB, 0, stream);
    world->registered = block_of(world->vouched, 4 * MIB, 0, stream);
    world->outsider = block_of(world->foreign, 4 * MIB, 0, stream);
    (void)block_of(NULL, 100 * KIB, 0, world->ended); /* its stream ends, it lives */
    NEED_OK(tnr_free(world->freed));
    void *growable;
    NEED_OK(tnr_reserve(&growable, 64 * MIB, 0, stream));
    world->growable = growable;
    NEED_OK(tnr_commit(growable, 4 * MIB));
    void *ranged;
    NEED_OK(tnr_reserve(&ranged, 64 * MIB, 0, stream));
    world->ranged = ranged;
    NEED_OK(tnr_commit_range(ranged, 6 * MIB, 4 * MIB));
    world->shared = block_of(NULL, 4 * MIB, 0, stream);
    NEED_OK(tnr_record_stream(world->shared, (tnr_stream)world->other));
    NEED_OK(tnr_park(NULL, world->parked, stream, TNR_CONTENT_DISCARD));
    NEED_OK(tnr_memory_registered(world->registered));
}

static void import_make(misuse_world *world)
{
    tnr_import_info info = {.struct_bytes = sizeof(info)};
    int sockets[2];
    NEED(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets) == 0);
    NEED_OK(tnr_export_create(&world->closed, world->pooled));
    NEED_OK(tnr_export_close(world->closed));
    NEED_OK(tnr_export_create(&world->exported, world->pooled));
    NEED_OK(tnr_export_send(world->exported, sockets[0]));
    NEED_OK(tnr_import_receive(&info, sockets[1], 0, NULL));
    world->imported = info.ptr;
    (void)close(sockets[0]);
    (void)close(sockets[1]);
}

static void started_with(misuse_world *world, const char *memory, const char *conf)
{
    settings(world, memory, conf);
    driver_only(world);
    NEED_OK(tnr_init());
    NEED_OK(tnr_pool_create(&world->own, 0, NULL));
    NEED_OK(tnr_graph_pool_create(&world->graphs, 0, NULL));
    NEED_OK(tnr_vouched_pool_create(&world->vouched, 0, NULL));
    world->foreign = foreign_pool();
    NEED_OK(tnr_pool_create(&world->away, 1, NULL));
    NEED_OK(tnr_pool_create(&world->destroyed, 0, NULL));
    NEED_OK(tnr_pool_destroy(world->destroyed));
    blocks_make(world);
    graphs_make(world);
    tnr_moment before = tnr_moment_now();
    NEED_CUDA(cuEventRecord(world->event, world->stream));
    NEED_CUDA(cuEventRecord(world->unannounced, world->stream));
    NEED_OK(tnr_event_recorded((tnr_event)world->event, 0, (tnr_stream)world->stream, before));
    /* Makes each device's stream for events, which is kept for all later calls; and that of the
     * host's memory. */
    NEED_OK(tnr_keep_until(world->block, (tnr_event)world->event));
    NEED_OK(tnr_keep_until(world->far, (tnr_event)world->event));
    for (int device = 0; device < 2; device++) {
        void *block;
        NEED_OK(tnr_host_malloc_near(&block, MIB, device));
        NEED_OK(tnr_host_free(block));
        world->hosted_freed = block;
    }
    NEED_OK(tnr_pool_create(&world->hosts, TNR_HOST(0), NULL));
    world->hosted = block_of(world->hosts, 4 * MIB, TNR_HOST(0), NULL);
    NEED_OK(tnr_stream_destroying(0, (tnr_stream)world->ended));
    NEED_CUDA(cuStreamDestroy(world->ended));
    (void)simcuda_run(UINT64_MAX);
}

static void enter_started(misuse_world *world)
{
    started_with(world, "4G", "");
    import_make(world);
}

static void enter_asleep(misuse_world *world)
{
    started_with(world, "4G", "");
    NEED_OK(tnr_pool_sleep(NULL, 0, NULL));
    NEED_OK(tnr_pool_sleep(world->own, 0, NULL));
    NEED_OK(tnr_device_sleep(1, NULL));
}

static void enter_parked(misuse_world *world)
{
    enter_started(world);
    NEED_OK(tnr_park(NULL, world->block, (tnr_stream)world->stream, TNR_CONTENT_KEEP));
    for (int i = 0; i < 4; i++)
        (void)block_of(NULL, 4 * MIB, 0, world->stream);
}

static void enter_published(misuse_world *world)
{
    enter_started(world);
    NEED_OK(tnr_export_offer(&world->name, world->block));
    NEED_OK(tnr_publish(NULL, "misuse", world->pooled, NULL));
}

/* Another process publishes, and this one's devices do not reach each other. */
static void enter_apart(misuse_world *world)
{
    holder_make(world);
    NEED(setenv("TENURE_SIM_PEERS", "0", 1) == 0);
    started_with(world, "4G", "");
}

static void enter_group(misuse_world *world)
{
    started_with(world, "4G", ",group:misuse,group_floor_mb:64");
    import_make(world);
}

static void enter_full(misuse_world *world)
{
    started_with(world, "256M", "");
    void *ptr;
    while (tnr_malloc(&ptr, 2 * MIB, 0, (tnr_stream)world->stream) == TNR_OK)
        ;
    NEED_OK(tnr_trim(NULL, 0, 0));
}

static void enter_limited(misuse_world *world)
{
    enter_started(world);
    NEED_OK(tnr_limit_set(2 * MIB, 0));
}

static void enter_after_shutdown(misuse_world *world)
{
    enter_started(world);
    NEED_CUDA(cuGraphExecDestroy(world->exec));
    NEED_CUDA(cuGraphDestroy(world->cuda_graph));
    (void)simcuda_run(UINT64_MAX);
    NEED_OK(tnr_import_close(world->imported));
    NEED_OK(tnr_shutdown(1));
}

/* The child goes on with the table; its parent only passes on how it ends. */
static void enter_child(misuse_world *world)
{
    enter_started(world);
    pid_t child = fork();
    NEED(child >= 0);
    if (child == 0)
        return;
    int status = 0;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    if (WIFSIGNALED(status)) {
        (void)signal(WTERMSIG(status), SIG_DFL);
        (void)raise(WTERMSIG(status));
    }
    _exit(WEXITSTATUS(status));
}

/* ---- captures ------------------------------------------------------------------------------- */

static void capture_begin(misuse_world *world, CUstream stream, tnr_capture_mode mode)
{
    tnr_capture_options options = TNR_CAPTURE_OPTIONS_INIT;
    void *ptr;
    options.mode = mode;
    NEED_OK(tnr_capture_begin(0, (tnr_stream)stream, &options));
    NEED_OK(tnr_malloc(&ptr, 2 * MIB, 0, (tnr_stream)stream));
    NEED_CUDA(cuMemsetD32Async((CUdeviceptr)(uintptr_t)ptr, 1, 16, stream));
    (void)world;
}

static void enter_capturing(misuse_world *world)
{
    enter_started(world);
    capture_begin(world, world->stream, TNR_CAPTURE_GLOBAL);
}

typedef struct capturer {
    misuse_world *world;
    pthread_barrier_t ready;
    int stays, is_stranger;
} capturer;

static void *capturer_run(void *data)
{
    capturer *own = data;
    NEED_CUDA(cuCtxSetCurrent(own->world->contexts[0]));
    if (own->is_stranger)
        NEED_CUDA(cuStreamBeginCapture(own->world->other, CU_STREAM_CAPTURE_MODE_RELAXED));
    else
        capture_begin(own->world, own->world->other,
                      own->stays ? TNR_CAPTURE_GLOBAL : TNR_CAPTURE_RELAXED);
    (void)pthread_barrier_wait(&own->ready);
    while (own->stays)
        (void)pause();
    return NULL;
}

/* Another thread captures `other`, and stays or ends. */
static void capture_elsewhere(misuse_world *world, int stays, int is_stranger)
{
    static capturer own;
    pthread_t thread;
    own = (capturer){.world = world, .stays = stays, .is_stranger = is_stranger};
    NEED(pthread_barrier_init(&own.ready, NULL, 2) == 0);
    NEED(pthread_create(&thread, NULL, capturer_run, &own) == 0);
    (void)pthread_barrier_wait(&own.ready);
    NEED((stays ? pthread_detach(thread) : pthread_join(thread, NULL)) == 0);
}

static void enter_captured_elsewhere(misuse_world *world)
{
    enter_started(world);
    capture_elsewhere(world, 1, 0);
}

static void enter_left_open(misuse_world *world)
{
    enter_started(world);
    capture_elsewhere(world, 0, 0);
}

static void enter_stranger(misuse_world *world)
{
    enter_started(world);
    capture_elsewhere(world, 1, 1);
}

/* The driver has invalidated the capture: it was asked about a stream that captures. */
static void capture_break(misuse_world *world)
{
    unsigned flags;
    enter_started(world);
    capture_begin(world, world->stream, TNR_CAPTURE_RELAXED);
    (void)cuStreamGetFlags(world->stream, &flags);
    (void)cuCtxSynchronize();
}

static void enter_broken(misuse_world *world)
{
    capture_break(world);
}

static void enter_failed(misuse_world *world)
{
    CUgraph graph = NULL;
    capture_break(world);
    NEED(tnr_capture_end((tnr_cuda_graph *)&graph, NULL, 0, (tnr_stream)world->stream) ==
         TNR_ERR_CAPTURE_INVALIDATED);
}

/* ---- what fails meanwhile ------------------------------------------------------------------- */

static void driver_fails(void)
{
    simcuda_fail("*", 1, 1, CUDA_ERROR_UNKNOWN);
}

static void driver_goes_down(void)
{
    simcuda_fail("*", 1, 1, CUDA_ERROR_DEINITIALIZED);
}

static void driver_is_out_of_memory(void)
{
    simcuda_fail("*", 1, 1, CUDA_ERROR_OUT_OF_MEMORY);
}

static void host_memory_fails(void)
{
    (void)tnri_host_fail_at(1, 1);
}

static void host_memory_works(void)
{
    (void)tnri_host_fail_at(0, 0);
}

const misuse_state misuse_states[] = {
    {"no driver", enter_no_driver, NULL, NULL, {TNR_ERR_NO_DRIVER}},
    {"a driver that is too old", enter_old_driver, NULL, NULL, {TNR_ERR_DRIVER_TOO_OLD}},
    {"no device", enter_no_device, NULL, NULL, {TNR_ERR_NO_DEVICE}},
    {"devices without virtual memory", enter_no_vmm, NULL, NULL, {TNR_ERR_NO_VMM}},
    {"settings that are wrong", enter_bad_settings, NULL, NULL, {0}},
    {"settings without a folder", enter_no_folder, NULL, NULL, {0}},
    {"a group without a place", enter_no_place, NULL, NULL, {0}},
    {"before the start", enter_before, NULL, NULL, {0}},
    {"started", enter_started, NULL, NULL, {0}},
    {"inside a capture of this thread", enter_capturing, NULL, NULL, {0}},
    {"a capture in another thread", enter_captured_elsewhere, NULL, NULL, {0}},
    {"a capture left open", enter_left_open, NULL, NULL, {0}},
    {"a capture of somebody else", enter_stranger, NULL, NULL, {0}},
    {"a capture that is invalid", enter_broken, NULL, NULL, {TNR_ERR_CAPTURE_INVALIDATED}},
    {"after a failed capture", enter_failed, NULL, NULL, {0}},
    {"pools asleep", enter_asleep, NULL, NULL, {TNR_ERR_ASLEEP}},
    {"blocks parked", enter_parked, NULL, NULL, {0}},
    {"published", enter_published, NULL, NULL, {0}},
    {"published by another process, without a way between devices", enter_apart, NULL, NULL, {0}},
    {"in a group", enter_group, NULL, NULL, {0}},
    {"device full", enter_full, NULL, NULL, {0}},
    {"limit reached", enter_limited, NULL, NULL, {0}},
    {"driver refuses everything", enter_started, driver_fails, simcuda_fail_clear, {0}},
    {"driver goes down", enter_started, driver_goes_down, simcuda_fail_clear, {TNR_ERR_SHUTDOWN}},
    {"driver has no memory", enter_started, driver_is_out_of_memory, simcuda_fail_clear, {0}},
    {"no host memory", enter_started, host_memory_fails, host_memory_works, {TNR_ERR_HOST_MEMORY}},
    {"no host memory yet",
     enter_before,
     host_memory_fails,
     host_memory_works,
     {TNR_ERR_HOST_MEMORY}},
    {"driver refuses to start", enter_before, driver_fails, simcuda_fail_clear, {0}},
    {"driver goes down at the start",
     enter_before,
     driver_goes_down,
     simcuda_fail_clear,
     {TNR_ERR_SHUTDOWN}},
    {"driver has no memory to start",
     enter_before,
     driver_is_out_of_memory,
     simcuda_fail_clear,
     {0}},
    {"after the shutdown", enter_after_shutdown, NULL, NULL, {0}},
    {"in a child of a fork", enter_child, NULL, NULL, {TNR_ERR_AFTER_FORK}},
};
const size_t misuse_states_count = sizeof(misuse_states) / sizeof(misuse_states[0]);
