/* SPDX-License-Identifier: Apache-2.0 */
/* Starting, failing, and finding who serves: see service.h. */
#include "service.h"

#include <dlfcn.h>
#include <linux/membarrier.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "graphs.h"
#include "pinned.h"
#include "pools.h"
#include "watch/account.h"

_Atomic uint64_t service_counts[COUNT_COUNT];

enum { STRICT_EXIT_CODE = 3 };

static struct {
    pthread_mutex_t mutex;    /* whoever starts a device, resets one, or lets others in to one */
    _Atomic int is_touched;   /* Tenure has been called; set before that, for ever */
    _Atomic int is_failed;    /* it will not start in this process */
    _Atomic int is_forked;    /* set in a child, for ever */
    _Atomic uint64_t context; /* grows when a context may have ended: then handles mean others */
} service = {.mutex = PTHREAD_MUTEX_INITIALIZER};

/* Once several devices are in use: a thread that is inside shares its door with others, a thread
 * that ends a device has all doors alone. Threads are dealt to the doors, so that they seldom meet
 * at one. The locks are zero at first, which is what a default one is on Linux.
 *
 * Before that, doors would cost each call of a program with one device two atomic operations. So a
 * thread that came in then has none, and is waited for by its state. It writes the state and then
 * looks for several devices, without a barrier; a thread that ends a device runs one for all. */
enum { DOORS = 16 };
static struct {
    _Alignas(64) pthread_rwlock_t lock;
} doors[DOORS];

static service_device devices[SERVICE_DEVICES_MAX];
static _Atomic int devices_end; /* none from here on was ever served */
_Atomic uintptr_t service_low = UINTPTR_MAX, service_high;
static _Atomic int devices_count; /* that were ever served */

typedef enum thread_state {
    THREAD_NEW, /* outside, and not in the list */
    THREAD_OUTSIDE,
    THREAD_INSIDE,  /* without a door */
    THREAD_AT_DOOR, /* inside with its door or all of them, or waiting for doors */
} thread_state;

/* A thread that has been inside. Its own, but for the links. */
typedef struct thread_entry {
    _Atomic int state;      /* written by the thread, read by one that ends a device */
    int is_ending;          /* it will not be in the list any more */
    pthread_rwlock_t *door; /* null: not dealt yet */
    struct thread_entry *next, **link;
} thread_entry;

static struct {
    pthread_mutex_t mutex; /* taken last; by threads that begin or end, and to end a device */
    thread_entry *first;   /* with the links, under the mutex */
    pthread_once_t once;
    pthread_key_t key; /* has the entries of threads that are in the list */
    int has_key;
} threads = {.mutex = PTHREAD_MUTEX_INITIALIZER, .once = PTHREAD_ONCE_INIT};

/* The thread's own. */
static _Thread_local thread_entry self;
static _Thread_local struct {
    CUcontext context;
    uint64_t context_number; /* service.context + 1 when it was asked */
    int device;              /* whose primary context it is; -1: nobody's */
} thread_context;

/* ---- coming in ------------------------------------------------------------------------------ */

int service_has_several(void)
{
    return atomic_load_explicit(&devices_count, memory_order_relaxed) > 1;
}

int service_is_forked(void)
{
    return atomic_load_explicit(&service.is_forked, memory_order_relaxed);
}

int service_only_watches(void)
{
    static _Atomic int answer = -1;
    int known = atomic_load_explicit(&answer, memory_order_relaxed);
    if (known >= 0)
        return known;
    const char *wanted = getenv("TENURE_PRELOAD_SERVE");
    known = wanted != NULL && strcmp(wanted, "0") == 0;
    atomic_store(&answer, known);
    return known;
}

static void state_set(thread_state state)
{
    atomic_store_explicit(&self.state, (int)state, memory_order_release);
}

int service_is_inside(void)
{
    return atomic_load_explicit(&self.state, memory_order_relaxed) > THREAD_OUTSIDE;
}

/* The thread ends. What it does from now on, in other destructors or a signal handler, it does with
 * a door. */
static void thread_end(void *listed)
{
    thread_entry *ended = listed;
    ended->is_ending = 1;
    if (service_is_forked())
        return;
    state_set(THREAD_NEW);
    pthread_mutex_lock(&threads.mutex);
    *ended->link = ended->next;
    if (ended->next != NULL)
        ended->next->link = ended->link;
    pthread_mutex_unlock(&threads.mutex);
}

static void threads_key_make(void)
{
    threads.has_key = pthread_key_create(&threads.key, thread_end) == 0;
}

/* 1 if the thread is in the list, and stays there until it ends. */
static int thread_list(void)
{
    (void)pthread_once(&threads.once, threads_key_make);
    if (self.is_ending || !threads.has_key || pthread_setspecific(threads.key, &self) != 0)
        return 0;
    pthread_mutex_lock(&threads.mutex);
    self.next = threads.first;
    self.link = &threads.first;
    if (self.next != NULL)
        self.next->link = &self.next;
    threads.first = &self;
    pthread_mutex_unlock(&threads.mutex);
    return 1;
}

static void door_enter(void)
{
    static _Atomic unsigned dealt;
    if (self.door == NULL)
        self.door = &doors[atomic_fetch_add(&dealt, 1) % DOORS].lock;
    state_set(THREAD_AT_DOOR);
    (void)pthread_rwlock_rdlock(self.door); /* fails only for a thread that has all doors */
}

/* A barrier in all threads. If the kernel has none, time serves: stores leave their processor after
 * microseconds. */
static void threads_barrier(void)
{
    struct timespec settle = {0, 2000000};
    (void)syscall(SYS_membarrier, MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED, 0, 0);
    if (syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0, 0) != 0)
        (void)syscall(SYS_nanosleep, &settle, NULL);
}

/* Returns when no other thread is inside, and keeps them out. Several devices are in use. */
static void doors_close(void)
{
    if (atomic_exchange(&self.state, THREAD_AT_DOOR) == THREAD_AT_DOOR)
        (void)pthread_rwlock_unlock(self.door);
    for (int i = 0; i < DOORS; i++)
        (void)pthread_rwlock_wrlock(&doors[i].lock);
    /* Each thread now has its state seen, or comes to its door. */
    threads_barrier();
    struct timespec nap = {0, 50000};
    pthread_mutex_lock(&threads.mutex);
    for (thread_entry *one = threads.first; one != NULL; one = one->next)
        while (atomic_load_explicit(&one->state, memory_order_acquire) == THREAD_INSIDE)
            (void)syscall(SYS_nanosleep, &nap, NULL);
    pthread_mutex_unlock(&threads.mutex);
}

/* Leaves the thread inside, with its door. */
static void doors_open(void)
{
    for (int i = 0; i < DOORS; i++)
        (void)pthread_rwlock_unlock(&doors[i].lock);
    door_enter();
}

/* For a thread that is not known to be outside. */
static __attribute__((noinline)) int enter_slowly(void)
{
    if (service_is_inside())
        return 0;
    state_set(THREAD_INSIDE);
    atomic_signal_fence(memory_order_seq_cst);
    if (!thread_list() || service_has_several()) /* in this order: the list's mutex orders them */
        door_enter();
    return 1;
}

int service_enter(void)
{
    if (service_is_forked())
        return 0;
    if (atomic_load_explicit(&self.state, memory_order_relaxed) != THREAD_OUTSIDE)
        return enter_slowly();
    state_set(THREAD_INSIDE);
    atomic_signal_fence(memory_order_seq_cst); /* threads_barrier does the rest */
    if (service_has_several())
        door_enter();
    return 1;
}

void service_leave(void)
{
    if (atomic_load_explicit(&self.state, memory_order_relaxed) != THREAD_AT_DOOR) {
        state_set(THREAD_OUTSIDE);
        return;
    }
    (void)pthread_rwlock_unlock(self.door);
    atomic_signal_fence(memory_order_seq_cst);
    state_set(self.link != NULL && !self.is_ending ? THREAD_OUTSIDE : THREAD_NEW);
}

static void service_forked(void)
{
    if (atomic_load(&service.is_touched))
        atomic_store(&service.is_forked, 1);
    /* The other threads, and their entries, are not here. */
    int is_listed = self.link != NULL && !self.is_ending;
    (void)pthread_mutex_init(&threads.mutex, NULL);
    threads.first = is_listed ? &self : NULL;
    self.link = is_listed ? &threads.first : NULL;
    self.next = NULL;
}

__attribute__((constructor)) static void service_watch_forks(void)
{
    (void)pthread_atfork(NULL, NULL, service_forked);
}

/* ---- saying --------------------------------------------------------------------------------- */

void service_say(const char *what, ...)
{
    char text[2048] = "tenure: ";
    size_t length = strlen(text);
    va_list arguments;
    va_start(arguments, what);
    (void)vsnprintf(text + length, sizeof(text) - length - 1, what, arguments);
    va_end(arguments);
    length = strlen(text);
    text[length++] = '\n';
    ssize_t written = write(STDERR_FILENO, text, length);
    (void)written;
    const char *strict = getenv("TENURE_PRELOAD_STRICT");
    if (strict != NULL && strcmp(strict, "1") == 0)
        _exit(STRICT_EXIT_CODE);
}

CUresult service_result(tnr_status status)
{
    int driver_result = tnr_last_driver_result();
    switch (status) {
    case TNR_OK:
        return CUDA_SUCCESS;
    case TNR_ERR_OUT_OF_MEMORY:
    case TNR_ERR_LIMIT:
    case TNR_ERR_INVALID_SIZE:
    case TNR_ERR_HOST_MEMORY:
    case TNR_ERR_ADDRESS_SPACE:
        return CUDA_ERROR_OUT_OF_MEMORY;
    case TNR_ERR_DRIVER:
    case TNR_ERR_CAPTURE_INVALIDATED:
        return driver_result == CUDA_SUCCESS ? CUDA_ERROR_UNKNOWN : (CUresult)driver_result;
    case TNR_ERR_NO_PEER_ACCESS:
        return CUDA_ERROR_PEER_ACCESS_UNSUPPORTED;
    case TNR_ERR_SHUTDOWN:
        return CUDA_ERROR_DEINITIALIZED;
    default:
        return CUDA_ERROR_INVALID_VALUE;
    }
}

/* ---- captures ------------------------------------------------------------------------------- */

CUstreamCaptureMode service_relaxed(void)
{
    CUstreamCaptureMode mode = CU_STREAM_CAPTURE_MODE_RELAXED;
    if (driver.fn_cuThreadExchangeStreamCaptureMode != NULL)
        (void)driver.fn_cuThreadExchangeStreamCaptureMode(&mode);
    return mode;
}

void service_relaxed_end(CUstreamCaptureMode before)
{
    if (driver.fn_cuThreadExchangeStreamCaptureMode != NULL)
        (void)driver.fn_cuThreadExchangeStreamCaptureMode(&before);
}

/* ---- starting ------------------------------------------------------------------------------- */

/* 1 if Tenure has loaded the very driver that the program uses. */
static int is_same_driver(void)
{
    tnr_driver_info info = {.struct_bytes = sizeof(info)};
    if (tnr_driver_get(&info) != TNR_OK)
        return 0;
    void *handle = dlopen(info.path, RTLD_NOW | RTLD_LOCAL | RTLD_NOLOAD);
    return handle != NULL && driver_has(dlsym_of_libc()(handle, "cuInit"));
}

/* The settings as they were when the program began, for one that has emptied its environment by the
 * time that Tenure starts; null: there were none. */
static char *conf_at_first;

__attribute__((constructor)) static void conf_keep(void)
{
    const char *conf = getenv("TENURE_CONF");
    conf_at_first = conf == NULL ? NULL : strdup(conf);
}

static void conf_restore(void)
{
    if (conf_at_first != NULL && getenv("TENURE_CONF") == NULL &&
        tnr_configure(conf_at_first) != TNR_OK)
        service_say("%s", tnr_last_error());
}

static int library_init(void)
{
    if (tnr_init() != TNR_OK)
        return 0;
    pinned_configure();
    return 1;
}

/* Under the mutex. */
static int library_start(void)
{
    static int is_started;
    conf_restore();
    if (is_started)
        return library_init(); /* again, after a reset: the last snapshot was written then */
    atomic_store(&service.is_touched, 1);
    if (!library_init()) {
        service_say("%s The program goes on with the driver's own allocator.", tnr_last_error());
        return 0;
    }
    if (!is_same_driver()) {
        service_say("the program and TENURE_DRIVER use different drivers. Unset TENURE_DRIVER. The "
                    "program goes on with the driver's own allocator.");
        return 0;
    }
    int version = 0;
    if (REAL(cuDriverGetVersion, (&version)) == CUDA_SUCCESS && version > ENTRIES_NEWEST)
        graphs_expect_strangers();
    if (account_is_on())
        (void)tnr_outside_set(account_tell, NULL);
    is_started = 1;
    return 1;
}

/* Opens memory of a device to others, or closes it. Under the mutex. */
static tnr_status peers_change(service_device *device, service_memory memory, uint64_t changed,
                               tnr_access access)
{
    tnr_pool pool = memory == SERVICE_MALLOC ? device->pool : NULL;
    for (int i = 0; i < SERVICE_DEVICES_MAX; i++) {
        uint64_t bit = UINT64_C(1) << i;
        if ((changed & bit) == 0 || i == device->index)
            continue;
        tnr_status status = tnr_pool_access_set(pool, device->index, i, access);
        if (status != TNR_OK && access != TNR_ACCESS_NONE)
            return status;
        if (access != TNR_ACCESS_NONE)
            atomic_fetch_or(&device->peers[memory], bit);
        else if (status == TNR_OK)
            atomic_fetch_and(&device->peers[memory], ~bit);
    }
    return TNR_OK;
}

/* A device that starts opens its memory to those that were let in before. Under the mutex. */
static tnr_status peers_start(service_device *device)
{
    atomic_store(&device->peers[SERVICE_ASYNC], pools_shared_peers(device->index));
    tnr_status status = TNR_OK;
    for (int i = 0; i < SERVICE_MEMORY_COUNT && status == TNR_OK; i++)
        status = peers_change(device, (service_memory)i, atomic_load(&device->peers[i]),
                              TNR_ACCESS_READWRITE);
    return status;
}

/* Under the mutex. */
static CUresult peers_set(service_device *device, service_memory memory, uint64_t peers)
{
    uint64_t before = atomic_load(&device->peers[memory]);
    if (!atomic_load(&device->is_on)) {
        atomic_store(&device->peers[memory], peers);
        return CUDA_SUCCESS;
    }
    tnr_status status = peers_change(device, memory, peers & ~before, TNR_ACCESS_READWRITE);
    CUresult result = service_result(status);
    if (status != TNR_OK)
        service_say("memory of device %d cannot be opened to another device. %s", device->index,
                    tnr_last_error());
    uint64_t surplus = atomic_load(&device->peers[memory]) & ~(status == TNR_OK ? peers : before);
    (void)peers_change(device, memory, surplus, TNR_ACCESS_NONE);
    return result;
}

CUresult service_malloc_peers_set(int index, uint64_t peers)
{
    pthread_mutex_lock(&service.mutex);
    CUresult result = peers_set(&devices[index], SERVICE_MALLOC, peers);
    pthread_mutex_unlock(&service.mutex);
    return result;
}

CUresult service_async_peers_follow(int index)
{
    pthread_mutex_lock(&service.mutex);
    CUresult result = peers_set(&devices[index], SERVICE_ASYNC, pools_shared_peers(index));
    pthread_mutex_unlock(&service.mutex);
    return result;
}

/* Before the device is known, so that whoever has one of its addresses sees it. Under the mutex. */
static void bounds_widen(const service_device *device)
{
    uintptr_t end = device->address_base + device->address_bytes;
    if (device->address_base < atomic_load(&service_low))
        atomic_store(&service_low, device->address_base);
    if (end > atomic_load(&service_high))
        atomic_store(&service_high, end);
}

/* The pool and the stream of cudaMalloc. Under the mutex, in the device's context. */
static tnr_status device_start(service_device *device, int index)
{
    tnr_pool_options options = TNR_POOL_OPTIONS_INIT;
    options.name = "cudaMalloc";
    tnr_device_info info = {.struct_bytes = sizeof(info)};
    tnr_status status = tnr_pool_create(&device->pool, index, &options);
    if (status != TNR_OK)
        return status;
    CUstreamCaptureMode before = service_relaxed();
    CUresult result = REAL(cuStreamCreate, (&device->stream, CU_STREAM_NON_BLOCKING));
    service_relaxed_end(before);
    if (result != CUDA_SUCCESS)
        return TNR_ERR_DRIVER;
    status = tnr_stream_created(index, device->stream);
    if (status == TNR_OK)
        status = tnr_device_get(&info, index);
    if (status != TNR_OK)
        return status;
    device->index = index;
    device->address_base = info.address_base;
    device->address_bytes = info.address_bytes;
    bounds_widen(device);
    device->driver_pool = NULL;
    (void)REAL(cuDeviceGetDefaultMemPool, (&device->driver_pool, (CUdevice)index));
    status = peers_start(device);
    if (status != TNR_OK)
        return status;
    if (atomic_load(&devices_end) <= index)
        atomic_store(&devices_end, index + 1);
    if (!device->was_on)
        atomic_fetch_add(&devices_count, 1);
    device->was_on = 1;
    atomic_store_explicit(&device->is_known, 1, memory_order_release);
    atomic_store_explicit(&device->is_on, 1, memory_order_release);
    return TNR_OK;
}

static service_device *device_started(int index)
{
    service_device *device = &devices[index];
    if (atomic_load_explicit(&device->is_on, memory_order_acquire))
        return device;
    if (atomic_load(&device->is_given_up) || atomic_load(&service.is_failed))
        return NULL;
    pthread_mutex_lock(&service.mutex);
    if (!atomic_load(&device->is_on) && !atomic_load(&device->is_given_up) &&
        !atomic_load(&service.is_failed)) {
        if (!library_start()) {
            atomic_store(&service.is_failed, 1);
        } else if (device_start(device, index) != TNR_OK) {
            atomic_store(&device->is_given_up, 1);
            service_say("%s The memory of device %d comes from the driver's own allocator.",
                        tnr_last_error(), index);
        }
    }
    pthread_mutex_unlock(&service.mutex);
    return atomic_load(&device->is_on) ? device : NULL;
}

/* ---- whose is it ---------------------------------------------------------------------------- */

CUresult service_primary_context(int index, CUcontext *context)
{
    CUresult result = REAL(cuDevicePrimaryCtxRetain, (context, (CUdevice)index));
    if (result == CUDA_SUCCESS && driver.fn_cuDevicePrimaryCtxRelease_v2 != NULL)
        (void)driver.fn_cuDevicePrimaryCtxRelease_v2((CUdevice)index);
    else if (result == CUDA_SUCCESS)
        (void)REAL(cuDevicePrimaryCtxRelease, ((CUdevice)index));
    return result;
}

/* The device whose primary context this is; -1 if it is none. */
static int device_of_primary(CUcontext context)
{
    CUdevice device;
    CUcontext primary = NULL;
    unsigned flags;
    int is_active = 0;
    if (REAL(cuCtxGetDevice, (&device)) != CUDA_SUCCESS || device < 0 ||
        device >= SERVICE_DEVICES_MAX ||
        REAL(cuDevicePrimaryCtxGetState, (device, &flags, &is_active)) != CUDA_SUCCESS ||
        !is_active || service_primary_context(device, &primary) != CUDA_SUCCESS)
        return -1;
    return primary == context ? (int)device : -1;
}

int service_device_of(CUcontext context)
{
    CUcontext popped;
    if (REAL(cuCtxPushCurrent_v2, (context)) != CUDA_SUCCESS)
        return -1;
    int index = device_of_primary(context);
    (void)REAL(cuCtxPopCurrent_v2, (&popped));
    return index;
}

/* The device of the calling thread's context, -1 if its memory is not ours to serve. */
static int device_here(void)
{
    CUcontext context = NULL;
    if (service_only_watches() || atomic_load_explicit(&service.is_failed, memory_order_relaxed) ||
        REAL(cuCtxGetCurrent, (&context)) != CUDA_SUCCESS || context == NULL)
        return -1;
    uint64_t number = atomic_load_explicit(&service.context, memory_order_acquire) + 1;
    if (thread_context.context != context || thread_context.context_number != number) {
        thread_context.device = device_of_primary(context);
        thread_context.context = context;
        thread_context.context_number = number;
    }
    return thread_context.device;
}

service_device *service_here(void)
{
    int index = device_here();
    return index < 0 ? NULL : device_started(index);
}

service_device *service_here_started(void)
{
    int index = device_here();
    return index >= 0 && atomic_load_explicit(&devices[index].is_on, memory_order_acquire)
               ? &devices[index]
               : NULL;
}

/* Set once a pool has given memory outside of its device's addresses: the setting `memory`. */
static _Atomic int is_outside;

void service_given(const service_device *device, CUdeviceptr address)
{
    if (device->address_bytes > (uintptr_t)address - device->address_base ||
        atomic_load_explicit(&is_outside, memory_order_relaxed))
        return;
    atomic_store(&service_low, 0);
    atomic_store(&service_high, UINTPTR_MAX);
    atomic_store(&is_outside, 1);
}

/* Only Tenure knows whose such an address is. Of freed memory it does not say the device. */
static service_device *device_outside(CUdeviceptr address)
{
    tnr_block_info block;
    tnr_status status = tnr_block_get(&block, (const void *)(uintptr_t)address);
    if (status == TNR_OK && block.device < SERVICE_DEVICES_MAX)
        return &devices[block.device];
    int index = status == TNR_ERR_NOT_LIVE ? device_here() : -1;
    return index >= 0 ? &devices[index] : NULL;
}

service_device *service_of_address(CUdeviceptr address)
{
    int end = atomic_load_explicit(&devices_end, memory_order_acquire);
    for (int i = 0; i < end; i++)
        if (atomic_load_explicit(&devices[i].is_known, memory_order_acquire) &&
            (uintptr_t)address - devices[i].address_base < devices[i].address_bytes)
            return &devices[i];
    return atomic_load_explicit(&is_outside, memory_order_relaxed) && address != 0
               ? device_outside(address)
               : NULL;
}

void service_learn(CUdeviceptr address)
{
    tnr_block_info block;
    tnr_device_info info = {.struct_bytes = sizeof(info)};
    if (service_of_address(address) != NULL ||
        tnr_block_get(&block, (const void *)(uintptr_t)address) != TNR_OK ||
        block.device >= SERVICE_DEVICES_MAX || tnr_device_get(&info, block.device) != TNR_OK)
        return;
    service_device *device = &devices[block.device];
    pthread_mutex_lock(&service.mutex);
    if (!atomic_load(&device->is_on)) {
        device->index = block.device;
        device->address_base = info.address_base;
        device->address_bytes = info.address_bytes;
        bounds_widen(device);
        if (atomic_load(&devices_end) <= block.device)
            atomic_store(&devices_end, block.device + 1);
        atomic_store_explicit(&device->is_known, 1, memory_order_release);
    }
    pthread_mutex_unlock(&service.mutex);
}

void service_unlearn(int index)
{
    pthread_mutex_lock(&service.mutex);
    if (!atomic_load(&devices[index].is_on))
        atomic_store(&devices[index].is_known, 0);
    pthread_mutex_unlock(&service.mutex);
}

service_device *service_device_at(int index)
{
    return &devices[index];
}

void service_contexts_changed(void)
{
    atomic_fetch_add(&service.context, 1);
}

/* ---- the end of a device -------------------------------------------------------------------- */

static int others_are_on(int index)
{
    int count = 0;
    for (int i = 0; i < SERVICE_DEVICES_MAX; i++)
        count += i != index && atomic_load(&devices[i].is_on);
    return count > 0;
}

/* Ends a device in Tenure, or all of Tenure if it is the only one. Under the mutex. */
static void device_end(service_device *device, int has_others)
{
    tnr_status status = has_others ? tnr_device_end(device->index, 1) : tnr_shutdown(1);
    if (status == TNR_OK)
        return;
    atomic_store(&device->is_given_up, 1);
    service_say("%s Device %d is reset nevertheless; from now on its memory comes from the "
                "driver's own allocator.",
                tnr_last_error(), device->index);
}

int service_device_reset(int index)
{
    if (index < 0 || index >= SERVICE_DEVICES_MAX || !atomic_load(&devices[index].is_on))
        return 0;
    service_device *device = &devices[index];
    /* Other threads may be busy on other devices: they are waited for, and kept out. Whether there
     * are other devices changes under the mutex alone, which a thread takes when it has a door. */
    pthread_mutex_lock(&service.mutex);
    int is_shared = service_has_several();
    if (is_shared) {
        pthread_mutex_unlock(&service.mutex);
        doors_close();
        pthread_mutex_lock(&service.mutex);
    }
    int has_others = others_are_on(index);
    if (atomic_load(&device->is_on))
        device_end(device, has_others);
    for (int i = 0; i < SERVICE_MEMORY_COUNT; i++)
        atomic_store(&device->peers[i], 0);
    atomic_store(&device->is_known, 0);
    atomic_store(&device->is_on, 0);
    pthread_mutex_unlock(&service.mutex);
    if (is_shared)
        doors_open();
    return !has_others;
}
