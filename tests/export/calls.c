/* SPDX-License-Identifier: Apache-2.0 */
/* See calls.h. The library's objects are linked into the test, so these come before libc's. */
#include "calls.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cuda.h>

enum { NOTICE_BYTES = 160 };

static _Atomic unsigned count, trap; /* trap: at which one; 0: never */
static _Atomic int trap_error;       /* 0: the process ends there */
static _Atomic unsigned send_ms;

static void trap_set(unsigned nth, int error)
{
    atomic_store(&trap, 0);
    atomic_store(&count, 0);
    atomic_store(&trap_error, error);
    atomic_store(&trap, nth);
}

void calls_fail_at(unsigned nth, int error)
{
    trap_set(nth, error);
}

void calls_kill_at(unsigned nth)
{
    trap_set(nth, 0);
}

void calls_send_slowly(unsigned ms)
{
    atomic_store(&send_ms, ms);
}

unsigned calls_count(void)
{
    return atomic_load(&count);
}

/* 1 if this call is to fail; errno is set. */
static int is_trapped(void)
{
    if (atomic_fetch_add(&count, 1) + 1 != atomic_load(&trap))
        return 0;
    if (atomic_load(&trap_error) == 0)
        (void)kill(getpid(), SIGKILL);
    errno = atomic_load(&trap_error);
    return 1;
}

ssize_t sendmsg(int socket, const struct msghdr *message, int flags)
{
    if (is_trapped())
        return -1;
    ssize_t sent = syscall(SYS_sendmsg, socket, message, flags);
    int error = errno;
    unsigned ms = atomic_load(&send_ms);
    struct timespec pause = {ms / 1000, ms % 1000 * 1000000L};
    (void)nanosleep(&pause, NULL);
    errno = error;
    return sent;
}

ssize_t recvmsg(int socket, struct msghdr *message, int flags)
{
    return is_trapped() ? -1 : syscall(SYS_recvmsg, socket, message, flags);
}

int socketpair(int domain, int type, int protocol, int files[2])
{
    return is_trapped() ? -1 : (int)syscall(SYS_socketpair, domain, type, protocol, files);
}

int poll(struct pollfd *files, nfds_t files_count, int ms)
{
    struct timespec most = {ms / 1000, ms % 1000 * 1000000L};
    if (is_trapped())
        return -1;
    return (int)syscall(SYS_ppoll, files, files_count, ms < 0 ? NULL : &most, NULL, 8);
}

int getsockopt(int socket, int level, int name, void *value, socklen_t *bytes)
{
    return is_trapped() ? -1 : (int)syscall(SYS_getsockopt, socket, level, name, value, bytes);
}

int socket(int domain, int type, int protocol)
{
    return is_trapped() ? -1 : (int)syscall(SYS_socket, domain, type, protocol);
}

/* The headers have these with a union of pointers. */
int bind(int socket, __CONST_SOCKADDR_ARG address, socklen_t bytes)
{
    return is_trapped() ? -1 : (int)syscall(SYS_bind, socket, address.__sockaddr__, bytes);
}

int listen(int socket, int backlog)
{
    return is_trapped() ? -1 : (int)syscall(SYS_listen, socket, backlog);
}

int accept4(int socket, __SOCKADDR_ARG address, socklen_t *bytes, int flags)
{
    return is_trapped() ? -1
                        : (int)syscall(SYS_accept4, socket, address.__sockaddr__, bytes, flags);
}

int connect(int socket, __CONST_SOCKADDR_ARG address, socklen_t bytes)
{
    return is_trapped() ? -1 : (int)syscall(SYS_connect, socket, address.__sockaddr__, bytes);
}

ssize_t getrandom(void *bytes, size_t wanted, unsigned flags)
{
    return is_trapped() ? -1 : syscall(SYS_getrandom, bytes, wanted, flags);
}

int flock(int file, int how)
{
    return is_trapped() ? -1 : (int)syscall(SYS_flock, file, how);
}

int openat(int folder, const char *path, int flags, ...)
{
    va_list arguments;
    va_start(arguments, flags);
    mode_t mode = (flags & O_CREAT) != 0 ? va_arg(arguments, mode_t) : 0;
    va_end(arguments);
    return is_trapped() ? -1 : (int)syscall(SYS_openat, folder, path, flags, mode);
}

int renameat(int from_folder, const char *from, int folder, const char *to)
{
    return is_trapped() ? -1 : (int)syscall(SYS_renameat2, from_folder, from, folder, to, 0);
}

/* Those of a notice, which no other file has the length of. */
ssize_t read(int file, void *data, size_t bytes)
{
    return bytes == NOTICE_BYTES && is_trapped() ? -1 : syscall(SYS_read, file, data, bytes);
}

ssize_t write(int file, const void *data, size_t bytes)
{
    return bytes == NOTICE_BYTES && is_trapped() ? -1 : syscall(SYS_write, file, data, bytes);
}

unsigned descriptors_count(void)
{
    unsigned found = 0;
    DIR *folder = opendir("/proc/self/fd");
    if (folder == NULL)
        return 0;
    while (readdir(folder) != NULL)
        found++;
    (void)closedir(folder);
    return found - 3; /* itself, "." and ".." */
}

static void context_begin(void)
{
    CUcontext context;
    assert_int_equal(cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
    assert_int_equal(cuCtxPushCurrent(context), CUDA_SUCCESS);
}

static void context_end(void)
{
    CUcontext popped;
    assert_int_equal(cuCtxPopCurrent(&popped), CUDA_SUCCESS);
    assert_int_equal(cuDevicePrimaryCtxRelease(0), CUDA_SUCCESS);
}

void mark(const void *ptr, unsigned value)
{
    context_begin();
    assert_int_equal(cuMemsetD32((CUdeviceptr)(uintptr_t)ptr, value, 1), CUDA_SUCCESS);
    assert_int_equal(cuStreamSynchronize(NULL), CUDA_SUCCESS);
    context_end();
}

void work_on(void *ptr, size_t bytes, tnr_stream stream)
{
    context_begin();
    assert_int_equal(cuMemsetD8Async((CUdeviceptr)(uintptr_t)ptr, 1, bytes, stream), CUDA_SUCCESS);
    context_end();
}

unsigned marked(const void *ptr)
{
    unsigned value = 0;
    context_begin();
    assert_int_equal(cuMemcpyDtoH(&value, (CUdeviceptr)(uintptr_t)ptr, sizeof(value)),
                     CUDA_SUCCESS);
    context_end();
    return value;
}
