/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A thread is cancelled inside each call, at each place where a thread can be: a call of the system
 * that may wait, and every call of the driver, which may make one. The call comes to its end all
 * the same; the thread ends afterwards. Then another thread does the same, and nothing keeps it.
 *
 * The program is linked so that these calls of the library's come here first.
 *
 * Lines of the library changed to see it fail:
 *   tnr_publish, tnr_snapshot_write, tnr_configure without TNRI_CALM_CALL: that step
 *   TNRI_CALM taken from tnri_ladder_malloc, tnri_device_push, hook_malloc, stream_find_slowly: the
 *     steps that come there
 *   TNRI_CALM_CALL without pthread_testcancel: it_ends_where_a_call_begins
 *   tnri_rest with nanosleep: a_lock_that_is_taken
 */
#include "unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include <tenure/control.h>
#include <tenure/tenure.h>

#include "base/lock.h"
#include "own_folder.h"
#include "share/group/member.h"

/* ---- the places ----------------------------------------------------------------------------- */

static _Thread_local int is_watched; /* this thread is in a step */
static _Thread_local int is_cancelled;
static _Thread_local int places_left; /* before it is cancelled; 0: it is not to be */
static const char *place_open;        /* where a thread could have been cancelled */
static int places_seen;               /* in the latest step */

static void place(const char *name)
{
    int before, was;
    if (!is_watched)
        return;
    (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &before);
    if (before == PTHREAD_CANCEL_ENABLE)
        place_open = name;
    places_seen++;
    if (places_left > 0 && --places_left == 0) {
        is_cancelled = 1;
        (void)pthread_cancel(pthread_self());
    }
    (void)pthread_setcancelstate(before, &was);
}

#define PLACE(type, name, parameters, arguments)                                                   \
    type __real_##name parameters;                                                                 \
    type __wrap_##name parameters;                                                                 \
    type __wrap_##name parameters                                                                  \
    {                                                                                              \
        place(#name);                                                                              \
        return __real_##name arguments;                                                            \
    }

PLACE(int, open, (const char *path, int flags, mode_t mode), (path, flags, mode))
PLACE(int, openat, (int folder, const char *path, int flags, mode_t mode),
      (folder, path, flags, mode))
PLACE(int, close, (int file), (file))
PLACE(ssize_t, read, (int file, void *to, size_t bytes), (file, to, bytes))
PLACE(ssize_t, write, (int file, const void *from, size_t bytes), (file, from, bytes))
PLACE(int, poll, (struct pollfd * waits, nfds_t count, int ms), (waits, count, ms))
PLACE(int, nanosleep, (const struct timespec *time, struct timespec *left), (time, left))
PLACE(ssize_t, sendmsg, (int file, const struct msghdr *message, int flags), (file, message, flags))
PLACE(ssize_t, recvmsg, (int file, struct msghdr *message, int flags), (file, message, flags))
PLACE(int, connect, (int file, const struct sockaddr *to, socklen_t bytes), (file, to, bytes))
PLACE(int, fcntl, (int file, int what, long with), (file, what, with))
PLACE(int, pthread_join, (pthread_t thread, void **result), (thread, result))
PLACE(int, pthread_cond_wait, (pthread_cond_t * condition, pthread_mutex_t *mutex),
      (condition, mutex))
PLACE(void *, dlopen, (const char *path, int how), (path, how))

CUresult __real_tnri_drive_end(tnr_driver_kind kind, CUresult result, uint64_t began_ns);
CUresult __wrap_tnri_drive_end(tnr_driver_kind kind, CUresult result, uint64_t began_ns);
CUresult __wrap_tnri_drive_end(tnr_driver_kind kind, CUresult result, uint64_t began_ns)
{
    place("a driver call");
    return __real_tnri_drive_end(kind, result, began_ns);
}

/* ---- the steps ------------------------------------------------------------------------------ */

static char folder[64], conf[128];
static tnr_stream stream, other;
static int sockets[2]; /* for an export of this process's, which it may have only once */

/* Whatever comes of them: what is looked at is that they come to an end. */
#define TRY(call) (call_begin(), (void)!(call))

/* A thread that was cancelled in one call ends at the beginning of the next, which is not wanted
 * here: a step leaves nothing behind. */
static void call_begin(void)
{
    int was;
    if (is_cancelled)
        (void)pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, &was);
}

static void allocations(void)
{
    void *ptr;
    TRY(tnr_malloc(&ptr, 7 * MIB, 0, stream));
    TRY(tnr_free(ptr));
    TRY(tnr_malloc_aligned(&ptr, MIB, 1 << 16, 0, other));
    TRY(tnr_free_on(ptr, stream));
    TRY(tnr_malloc(&ptr, MIB, 0, stream));
    TRY(tnr_free_sync(ptr));
    TRY(tnr_trim(NULL, 0, 0));
}

static void uses(void)
{
    void *ptr;
    TRY(tnr_malloc(&ptr, MIB, 0, stream));
    TRY(tnr_record_use(ptr, other));
    TRY(tnr_record_stream(ptr, other));
    TRY(tnr_free(ptr));
    TRY(tnr_stream_synchronized(0, other, tnr_moment_now()));
    TRY(tnr_device_synchronized(0, tnr_moment_now()));
}

static void growable(void)
{
    void *ptr;
    TRY(tnr_reserve(&ptr, 64 * MIB, 0, stream));
    TRY(tnr_commit(ptr, 8 * MIB));
    TRY(tnr_free(ptr));
}

static void pools(void)
{
    void *ptr;
    tnr_pool pool;
    tnr_pool_options options = TNR_POOL_OPTIONS_INIT;
    TRY(tnr_pool_create(&pool, 0, &options));
    TRY(tnr_pool_push(pool));
    TRY(tnr_pool_malloc(&ptr, pool, 3 * MIB, 0, stream));
    TRY(tnr_pool_pop(pool));
    TRY(tnr_free(ptr));
    TRY(tnr_pool_trim(NULL, pool, 0, 0));
    TRY(tnr_pool_sleep(pool, 0, NULL));
    TRY(tnr_pool_wake(pool, 0));
    TRY(tnr_compact(NULL, pool, 0));
    TRY(tnr_pool_limit_set(pool, 64 * MIB, 0));
    TRY(tnr_pool_destroy(pool));
}

static void sleeps(void)
{
    static const char *const tags[] = {"t"};
    void *ptr;
    tnr_pool pool;
    TRY(tnr_tag_pool(&pool, "t", TNR_CONTENT_DEFAULT));
    TRY(tnr_pool_malloc(&ptr, pool, 5 * MIB, 0, stream));
    TRY(tnr_tags_sleep(tags, 1, 0, NULL));
    TRY(tnr_tags_wake(tags, 1, 0));
    TRY(tnr_device_compact(NULL, 0));
    TRY(tnr_device_sleep(0, NULL));
    TRY(tnr_device_wake(0));
    TRY(tnr_park(NULL, ptr, stream, TNR_CONTENT_KEEP));
    TRY(tnr_unpark(ptr, stream));
    TRY(tnr_free(ptr));
    TRY(tnr_sleep_prepare(MIB, 0));
}

static void exports(void)
{
    void *ptr;
    tnr_export number;
    tnr_export_name name;
    tnr_export_info info = {.struct_bytes = sizeof(info)};
    tnr_import_info import = {.struct_bytes = sizeof(import)};
    TRY(tnr_malloc(&ptr, 2 * MIB, 0, stream));
    TRY(tnr_export_create(&number, ptr));
    TRY(tnr_export_get(&info, number));
    TRY(tnr_export_send(number, sockets[0]));
    TRY(tnr_import_receive(&import, sockets[1], 0, NULL));
    TRY(tnr_import_close(import.ptr));
    TRY(tnr_export_close(number));
    TRY(tnr_export_offer(&name, ptr));
    TRY(tnr_import_open(&import, &name, 0, NULL));
    TRY(tnr_free(ptr));
}

static void names(void)
{
    void *ptr;
    tnr_published_info info = {.struct_bytes = sizeof(info)};
    tnr_publication_info held = {.struct_bytes = sizeof(held)};
    tnr_import_info import = {.struct_bytes = sizeof(import)};
    TRY(tnr_malloc(&ptr, 2 * MIB, 0, stream));
    TRY(tnr_publish(NULL, "n", ptr, NULL));
    TRY(tnr_published_get(&info, "n"));
    TRY(tnr_publication_at(&held, 0));
    TRY(tnr_hold(NULL, "n", NULL));
    TRY(tnr_attach(&import, "n", 0, NULL));
    TRY(tnr_unpublish("n"));
    TRY(tnr_free(ptr));
}

static void pictures(void)
{
    char path[128], text[256];
    tnr_stats stats = {.struct_bytes = sizeof(stats)};
    for (int i = 0; i < 2; i++) {
        snprintf(path, sizeof(path), "%s/x.%s", folder, i == 0 ? "json.gz" : "pickle");
        TRY(tnr_snapshot_write(path, TNR_SNAPSHOT_AUTO));
    }
    TRY(tnr_stats_get(&stats, NULL, 0));
    (void)tnr_stats_json(text, sizeof(text), NULL, 0);
    TRY(tnr_history_set(1000, TNR_HISTORY_FULL));
    TRY(tnr_mark("here"));
    TRY(tnr_validate(-1));
}

static void settings(void)
{
    char changed[192];
    snprintf(changed, sizeof(changed), "control:on,control_dir:%s", folder);
    TRY(tnr_configure(changed));
    TRY(tnr_control_path(changed, sizeof(changed)) == 0);
    TRY(tnr_configure("control:off,snapshot_signal:USR2"));
    TRY(tnr_configure("snapshot_signal:none"));
}

static void captures(void)
{
    void *ptr;
    tnr_pool pool;
    tnr_capture_options options = TNR_CAPTURE_OPTIONS_INIT;
    TRY(tnr_graph_pool_create(&pool, 0, NULL));
    options.pool = pool;
    TRY(tnr_capture_begin(0, stream, &options));
    TRY(tnr_malloc(&ptr, MIB, 0, stream));
    TRY(tnr_free(ptr));
    TRY(tnr_capture_abort(0, stream));
    TRY(tnr_pool_destroy(pool));
}

/* Last: another start belongs to it. */
static void ends(void)
{
    void *ptr;
    TRY(tnr_device_end(0, 1));
    TRY(tnr_malloc(&ptr, MIB, 0, NULL));
    TRY(tnr_shutdown(1));
    TRY(tnr_init());
    TRY(tnr_malloc(&ptr, MIB, 0, NULL));
    TRY(tnr_free(ptr));
}

static const struct {
    const char *name;
    void (*run)(void);
} steps[] = {{"allocations", allocations},
             {"uses", uses},
             {"growable", growable},
             {"pools", pools},
             {"sleeps", sleeps},
             {"exports", exports},
             {"names", names},
             {"pictures", pictures},
             {"settings", settings},
             {"captures", captures},
             {"ends", ends}};
enum { STEPS = sizeof(steps) / sizeof(steps[0]), TRIES = 24 };

typedef struct turn {
    int step, nth;
    int is_whole;
} turn;

static void *turn_run(void *argument)
{
    turn *self = argument;
    int was;
    places_seen = 0;
    places_left = self->nth;
    is_watched = 1;
    steps[self->step].run();
    is_watched = 0;
    self->is_whole = 1;
    (void)pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, &was);
    pthread_testcancel();
    return NULL;
}

/* Does a step on a thread that is cancelled at a place. Returns how many places there were. */
static int turn_make(int step, int nth)
{
    pthread_t thread;
    void *result;
    turn self = {step, nth, 0};
    place_open = NULL;
    assert_int_equal(pthread_create(&thread, NULL, turn_run, &self), 0);
    assert_int_equal(pthread_join(thread, &result), 0);
    if (place_open != NULL)
        fail_msg("%s: a thread could end at %s", steps[step].name, place_open);
    if (!self.is_whole)
        fail_msg("%s: it ended at place %d", steps[step].name, nth);
    assert_true((result == PTHREAD_CANCELED) == (nth > 0 && nth <= places_seen));
    return places_seen;
}

static void each_step_at_each_place(void **state)
{
    (void)state;
    tnri_member_seen seen;
    int seat = 0;
    for (int step = 0; step < STEPS; step++) {
        unit_start(conf, "MEMORY=256M", NULL);
        assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets), 0);
        stream = unit_stream(0);
        other = unit_stream(0);
        void *block = unit_malloc(MIB, stream);
        (void)tnri_member_next(&seen, &seat, 0);
        int count = turn_make(step, 0);
        print_message("%s: %d places\n", steps[step].name, count);
        assert_true(count > 0);
        int stride = count / TRIES + 1; /* they all were looked at; some are where it ends */
        for (int nth = 1; nth <= count; nth += stride) {
            (void)turn_make(step, nth);
            (void)turn_make(step, 0);
            assert_ok(tnr_validate(-1));
        }
        if (steps[step].run != ends)
            assert_ok(tnr_free(block));
        (void)simcuda_run(UINT64_MAX); /* the driver lets go of the graphs of captures */
        assert_int_equal(unit_stop(NULL), 0);
        (void)close(sockets[0]);
        (void)close(sockets[1]);
    }
}

/* ---- threads that only call ----------------------------------------------------------------- */

static void *call_on(void *argument)
{
    tnr_published_info info = {.struct_bytes = sizeof(info)};
    tnr_stats stats = {.struct_bytes = sizeof(stats)};
    for (;;) {
        if (*(int *)argument == 0)
            (void)!tnr_published_get(&info, "n");
        else if (*(int *)argument == 1)
            (void)!tnr_stats_get(&stats, NULL, 0);
        else
            (void)!tnr_validate(-1);
    }
    return NULL;
}

static void it_ends_where_a_call_begins(void **state)
{
    (void)state;
    unit_start(conf, NULL, NULL);
    (void)unit_malloc(MIB, NULL);
    for (int which = 0; which < 3; which++) {
        pthread_t thread;
        void *result;
        assert_int_equal(pthread_create(&thread, NULL, call_on, &which), 0);
        (void)usleep(2000);
        assert_int_equal(pthread_cancel(thread), 0);
        assert_int_equal(pthread_join(thread, &result), 0);
        assert_ptr_equal(result, PTHREAD_CANCELED);
        assert_ok(tnr_validate(-1));
    }
    assert_int_equal(unit_stop(NULL), 0);
}

/* ---- locks ---------------------------------------------------------------------------------- */

static tnri_lock lock;
static _Atomic int has_it;

static void *lock_wait(void *nothing)
{
    tnri_lock_take(&lock); /* on the cached path nothing else keeps it from being cancelled */
    atomic_store(&has_it, 1);
    tnri_lock_release(&lock);
    pthread_testcancel();
    return nothing;
}

static void a_lock_that_is_taken(void **state)
{
    (void)state;
    pthread_t thread;
    void *result;
    tnri_lock_init(&lock, TNRI_RANK_HOST);
    tnri_lock_take(&lock);
    assert_int_equal(pthread_create(&thread, NULL, lock_wait, NULL), 0);
    (void)usleep(50000);
    assert_int_equal(pthread_cancel(thread), 0);
    (void)usleep(50000);
    tnri_lock_release(&lock);
    assert_int_equal(pthread_join(thread, &result), 0);
    assert_ptr_equal(result, PTHREAD_CANCELED);
    assert_int_equal(atomic_load(&has_it), 1);
}

static int folder_end(void **state)
{
    (void)state;
    return folder_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_step_at_each_place),
        cmocka_unit_test(it_ends_where_a_call_begins),
        cmocka_unit_test(a_lock_that_is_taken),
    };
    snprintf(folder, sizeof(folder), "/tmp/tenure-cancel-XXXXXX");
    if (mkdtemp(folder) == NULL)
        return 1;
    snprintf(conf, sizeof(conf), "handle_type:posix_fd,control_dir:%s", folder);
    return cmocka_run_group_tests(tests, NULL, folder_end);
}
