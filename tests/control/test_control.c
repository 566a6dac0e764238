/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The server from outside: who may connect, what is served, and what becomes of connections that
 * behave badly. Also that the server begins and ends with its setting, the library, a fork and the
 * process.
 *
 * Lines changed in the library to see a test fail:
 *   is_welcome: all but one user: other_users, and others
 *   greet without the look whether it is over: other_users (it hangs)
 *   tnri_folder_open without the test of owner and mode: folders
 *   place_find: the newest instead of the oldest: stuck_connections (it hangs)
 *   tnri_server_abandon not called: a_fork_has_nothing
 *   fork_child without `servers.on = NULL`: ends_with_the_process
 *   thread_make without the mask: signals_are_blocked (the process dies)
 *   exit_end not registered: ends_with_the_process
 *   name_remove not called in tnri_server_retire: off_unless_asked_for, is_moved, and others
 *   tnri_control_reap not called in tnr_configure: off_unless_asked_for
 *   tnri_snapshot_forget not called in connection_end: snapshots (it hangs)
 *   control_follow without its test of is_here: not_switched_off_from_outside
 *   is_meant with 1 always, or without the test for trims: host_memory
 *   use_tell with what is free instead of what waits; streams told unasked: status_of_streams
 */
#include "sleep/sleep.h"

#include <tenure/host.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tenure/history.h>
#include <tenure/control.h>
#include <tenure/tag.h>

#include "await.h"
#include "client.h"
#include "commit_seed.h"
#include "few.h"
#include "own_threads.h"

static char own_program[4096];

static int sockets_count(void)
{
    int count = 0;
    DIR *files = opendir("/proc/self/fd");
    for (struct dirent *entry; (entry = readdir(files)) != NULL;) {
        char target[64] = "";
        if (readlinkat(dirfd(files), entry->d_name, target, sizeof(target) - 1) > 0)
            count += strncmp(target, "socket:", 7) == 0;
    }
    closedir(files);
    return count;
}

/* An answer that says so. */
static void assert_says(const char *answer, const char *text)
{
    if (answer == NULL || strstr(answer, text) == NULL)
        fail_msg("\"%s\" is not in: %.600s", text, answer == NULL ? "(hung up)" : answer);
}

/* ---- beginning ------------------------------------------------------------------------------ */

static void off_unless_asked_for(void **state)
{
    (void)state;
    char conf[128], path[8] = "x";
    snprintf(conf, sizeof(conf), "control_dir:%s", client_folder());
    int threads = threads_count(), sockets = sockets_count();
    unit_start(conf, NULL, NULL);
    assert_ok(tnr_free(unit_malloc(1, NULL)));
    assert_int_equal(threads_count(), threads);
    assert_int_equal(sockets_count(), sockets);
    assert_int_equal(client_folder_count(), 0);
    assert_int_equal(tnr_control_path(path, sizeof(path)), 0);
    assert_string_equal(path, "");
    assert_ok(tnr_configure("control:on"));
    assert_int_equal(threads_count(), threads + 1);
    assert_int_equal(sockets_count(), sockets + 1);
    assert_int_equal(client_folder_count(), 1);
    size_t length = tnr_control_path(NULL, 0);
    assert_true(length > strlen(client_folder()));
    assert_int_equal(tnr_control_path(path, sizeof(path)), length);
    assert_ok(tnr_configure("control:on")); /* it is on */
    assert_int_equal(threads_count(), threads + 1);
    assert_ok(tnr_configure("control:off"));
    assert_int_equal(threads_count(), threads);
    assert_int_equal(sockets_count(), sockets);
    assert_int_equal(client_folder_count(), 0);
}

static void ends_with_the_library(void **state)
{
    (void)state;
    int threads = threads_count();
    unit_start(client_conf(NULL), NULL, NULL);
    client held;
    assert_true(client_open(&held));
    assert_ok(tnr_shutdown(0));
    assert_false(client_receive(&held)); /* hung up */
    client_close(&held);
    assert_int_equal(threads_count(), threads);
    assert_int_equal(client_folder_count(), 0);
    assert_ok(tnr_init()); /* TENURE_CONF says so again */
    assert_int_equal(client_folder_count(), 1);
    assert_says(client_ask_once("{\"command\":\"status\"}"), "\"ok\":true");
    /* Set before any start, and never started. */
    assert_ok(tnr_shutdown(0));
    assert_ok(tnr_configure(client_conf(NULL)));
    assert_says(client_ask_once("{\"command\":\"status\"}"), "\"started\":false,\"devices\":[]");
    assert_says(client_ask_once("{\"command\":\"sleep\",\"device\":0}"), "does not use device 0");
    assert_says(client_ask_once("{\"command\":\"snapshot\"}"), "TNR_ERR_SHUTDOWN");
    assert_says(client_ask_once("{\"command\":\"settings\"}"),
                "\"key\":\"control\",\"value\":\"on\"");
    assert_ok(tnr_shutdown(0));
    assert_int_equal(threads_count(), threads);
    assert_int_equal(client_folder_count(), 0);
}

static void a_device_that_ends(void **state)
{
    (void)state;
    unit_start(client_conf(NULL), NULL, NULL);
    client held;
    assert_ok(tnr_free(unit_malloc(1, NULL)));
    assert_true(client_open(&held));
    assert_says(client_ask(&held, "{\"command\":\"status\"}"), "\"device\":0");
    assert_ok(tnr_device_end(0, 0));
    assert_says(client_ask(&held, "{\"command\":\"status\"}"), "\"devices\":[]");
    assert_says(client_ask(&held, "{\"command\":\"sleep\"}"), "\"devices\":[],\"ok\":true");
    client_close(&held);
}

static void is_moved(void **state)
{
    (void)state;
    char conf[600], other[] = "/tmp/tenure-control-other-XXXXXX", path[400];
    unit_start(client_conf(NULL), NULL, NULL);
    assert_non_null(mkdtemp(other));
    snprintf(conf, sizeof(conf), "control_dir:%s", other);
    int threads = threads_count();
    assert_ok(tnr_configure(conf));
    assert_int_equal(threads_count(), threads);
    assert_int_equal(client_folder_count(), 0);
    assert_true(tnr_control_path(path, sizeof(path)) > 0);
    assert_int_equal(strncmp(path, other, strlen(other)), 0);
    assert_says(client_ask_once("{\"command\":\"status\"}"), "\"ok\":true");
    /* A path that is longer than a socket's address, made on the way. */
    snprintf(path, sizeof(path), "%s/%0100d", other, 7);
    snprintf(conf, sizeof(conf), "control_dir:%s", path);
    assert_ok(tnr_configure(conf));
    int folder = open(path, O_RDONLY | O_DIRECTORY);
    assert_true(folder >= 0 && tnr_control_path(path, sizeof(path)) > 108);
    snprintf(conf, sizeof(conf), "/proc/self/fd/%d%s", folder, strrchr(path, '/'));
    client one;
    assert_true(client_connect(&one, conf) && client_receive(&one));
    assert_says(one.line, "\"protocol\":1");
    client_close(&one);
    close(folder);
    assert_ok(tnr_configure("control:off"));
    *strrchr(path, '/') = '\0';
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(rmdir(other), 0);
}

static void folders(void **state)
{
    (void)state;
    char place[] = "/tmp/tenure-control-place-XXXXXX", path[128], conf[256];
    unit_start(NULL, NULL, NULL);
    assert_non_null(mkdtemp(place));
    assert_int_equal(chmod(place, 0750), 0);
    snprintf(conf, sizeof(conf), "control:on,control_dir:%s", place);
    assert_error(tnr_configure(conf), TNR_ERR_FILE, "has mode 750");
    snprintf(conf, sizeof(conf), "control:try,control_dir:%s", place);
    assert_ok(tnr_configure(conf)); /* it goes on without */
    assert_int_equal(tnr_control_path(NULL, 0), 0);
    assert_int_equal(chmod(place, 0700), 0);
    assert_ok(tnr_configure("bin_blocks:8")); /* and comes when it can */
    assert_true(tnr_control_path(NULL, 0) > 0);
    assert_ok(tnr_configure("control:off"));
    snprintf(path, sizeof(path), "%s/link", place);
    assert_int_equal(symlink(client_folder(), path), 0);
    snprintf(conf, sizeof(conf), "control:on,control_dir:%s", path);
    assert_error(tnr_configure(conf), TNR_ERR_FILE, "cannot be opened");
    assert_int_equal(unlink(path), 0);
    close(open(path, O_WRONLY | O_CREAT, 0600));
    assert_error(tnr_configure(conf), TNR_ERR_FILE, "cannot be opened");
    assert_int_equal(unlink(path), 0);
    assert_error(tnr_configure("control:on,control_dir:/nowhere/at/all"), TNR_ERR_FILE,
                 "cannot be made");
    assert_int_equal(tnr_control_path(NULL, 0), 0);
    assert_ok(tnr_configure(conf)); /* made if it is not there */
    struct stat found;
    assert_int_equal(stat(path, &found), 0);
    assert_int_equal(found.st_mode & 0777, 0700);
    if (geteuid() == 0) {
        assert_int_equal(chown(place, 65534, 65534), 0);
        snprintf(conf, sizeof(conf), "control_dir:%s", place);
        assert_error(tnr_configure(conf), TNR_ERR_FILE, "belongs to user 65534");
        assert_int_equal(chown(place, 0, 0), 0);
    }
    assert_ok(tnr_configure("control:off"));
    assert_int_equal(rmdir(path), 0);
    assert_int_equal(rmdir(place), 0);
}

/* ---- forks, signals, the end of the process -------------------------------------------------- */

static void forked(void *data)
{
    (void)data;
    if (tnr_control_path(NULL, 0) != 0 || threads_count() != 1)
        _exit(1);
    _exit(sockets_count());
}

static void a_fork_has_nothing(void **state)
{
    (void)state;
    unit_start(client_conf(NULL), NULL, NULL);
    int others = sockets_count() - 1;
    client held;
    assert_true(client_open(&held));
    assert_int_equal(unit_in_child(forked, NULL, 0), others + 1); /* what this test has open */
    assert_int_equal(client_folder_count(), 1);
    assert_says(client_ask(&held, "{\"command\":\"status\"}"), "\"ok\":true");
    client_close(&held);
}

/* The program's signals wait for a thread of its own. */
static void signals_are_blocked(void **state)
{
    (void)state;
    sigset_t one, before, pending;
    sigemptyset(&one);
    sigaddset(&one, SIGUSR1);
    unit_start(client_conf(NULL), NULL, NULL);
    assert_says(client_ask_once("{\"command\":\"status\"}"), "\"ok\":true");
    assert_int_equal(pthread_sigmask(SIG_BLOCK, &one, &before), 0);
    assert_int_equal(kill(getpid(), SIGUSR1), 0); /* would end the process */
    assert_says(client_ask_once("{\"command\":\"status\"}"), "\"ok\":true");
    assert_int_equal(sigpending(&pending), 0);
    assert_true(sigismember(&pending, SIGUSR1));
    int taken;
    assert_int_equal(sigwait(&one, &taken), 0);
    assert_int_equal(pthread_sigmask(SIG_SETMASK, &before, NULL), 0);
}

/* The allocator of AddressSanitizer may be locked for ever in a child of a program with threads. */
#if defined(__SANITIZE_ADDRESS__)
enum { CHILD_MAY_ALLOCATE = 0 };
#elif defined(__has_feature)
enum { CHILD_MAY_ALLOCATE = !__has_feature(address_sanitizer) };
#else
enum { CHILD_MAY_ALLOCATE = 1 };
#endif

/* As a program of its own: see main. Before the driver is touched a child may start afresh. */
static int program_main(void)
{
    char path[512];
    if (tnr_configure(client_conf(NULL)) != TNR_OK)
        return 2;
    pid_t child = fork();
    if (child == 0 && !CHILD_MAY_ALLOCATE)
        _exit(tnr_control_path(NULL, 0) == 0 ? 0 : 1);
    if (child == 0) {
        int was_off = tnr_control_path(NULL, 0) == 0;
        int is_on = tnr_init() == TNR_OK && tnr_control_path(path, sizeof(path)) > 0;
        int is_served = is_on && client_ask_once("{\"command\":\"status\"}") != NULL;
        _exit(was_off && is_served && tnr_shutdown(0) == TNR_OK ? 0 : 1);
    }
    int status = -1;
    (void)waitpid(child, &status, 0);
    if (status != 0 || tnr_control_path(path, sizeof(path)) == 0)
        return 3;
    puts(path);
    exit(access(path, F_OK) == 0 ? 0 : 4); /* without a shutdown */
}

static void ends_with_the_process(void **state)
{
    (void)state;
    char command[4300], path[512] = "";
    unit_settings(NULL, NULL, NULL);
    snprintf(command, sizeof(command), "CONTROL_TEST_FOLDER='%s' '%s' program", client_folder(),
             own_program);
    FILE *output = popen(command, "r");
    assert_non_null(output);
    assert_non_null(fgets(path, sizeof(path), output));
    assert_int_equal(pclose(output), 0);
    path[strcspn(path, "\n")] = '\0';
    assert_int_equal(strncmp(path, client_folder(), strlen(client_folder())), 0);
    assert_int_equal(client_folder_count(), 0);
}

/* ---- who comes in --------------------------------------------------------------------------- */

static void foreigner(void *data)
{
    client one;
    if (setgid(65534) != 0 || setuid(65534) != 0 || !client_connect(&one, data) ||
        !client_receive(&one))
        _exit(1);
    int is_refused = strstr(one.line, "user 65534 may not") != NULL;
    int was_sent = client_send(&one, "{\"command\":\"trim\"}\n", 19);
    (void)was_sent; /* it may have hung up already */
    _exit(is_refused && !client_receive(&one) ? 0 : 2);
}

static void other_users(void **state)
{
    (void)state;
    char path[512];
    if (geteuid() != 0) {
        print_message("not root: nobody else can be tried\n");
        skip();
    }
    unit_start(client_conf(NULL), NULL, NULL);
    assert_true(tnr_control_path(path, sizeof(path)) > 0);
    assert_int_equal(unit_in_child(foreigner, path, 0), 1); /* the folder is shut */
    assert_int_equal(chmod(client_folder(), 0777), 0);
    assert_int_equal(chmod(path, 0777), 0);
    assert_int_equal(unit_in_child(foreigner, path, 0), 0); /* and if it were not */
    assert_int_equal(chmod(client_folder(), 0700), 0);
    assert_says(client_ask_once("{\"command\":\"status\"}"), "\"ok\":true");
}

/* ---- what is served ------------------------------------------------------------------------- */

static void rules(void **state)
{
    (void)state;
    unit_start(client_conf("chunk_max_mb:2"), NULL, NULL);
    sleep_context_enter();
    tnr_pool pool;
    void *weights, *plain = unit_malloc(4 * MIB, NULL), *more;
    assert_ok(tnr_tag_pool(&pool, "weights", TNR_CONTENT_DEFAULT));
    assert_ok(tnr_pool_malloc(&weights, pool, 6 * MIB, 0, NULL));
    sleep_fill(weights, 6 * MIB, 1, NULL);
    sleep_fill(plain, 4 * MIB, 2, NULL);
    client one;
    assert_true(client_open(&one));
    assert_says(one.line, "\"protocol\":1");
    assert_says(client_ask(&one, "{\"id\":7,\"command\":\"status\"}"),
                "{\"id\":7,\"command\":\"status\",\"started\":true");
    assert_says(one.line, "\"name\":\"weights\",\"kind\":\"user\",\"tag\":\"weights\","
                          "\"state\":\"awake\",\"reserved_bytes\":6291456");
    assert_says(one.line, "\"kind\":\"default\",\"tag\":null");
    assert_says(client_ask(&one, "{\"command\":\"sleep\",\"tags\":[\"weights\"]}"), "\"ok\":true");
    assert_int_equal(sleep_stats(pool).bytes_asleep, 6 * MIB);
    assert_int_equal(sleep_stats(NULL).bytes_asleep, 6 * MIB);
    assert_says(client_ask(&one, "{\"command\":\"sleep\",\"device\":0}"),
                "\"asleep_bytes\":10485760");
    assert_says(client_ask(&one, "{\"command\":\"wake\",\"tags\":[\"weights\"]}"), "\"ok\":true");
    assert_int_equal(sleep_stats(pool).bytes_asleep, 0);
    sleep_check(weights, 6 * MIB, 1);
    assert_says(client_ask(&one, "{\"command\":\"wake\"}"), "\"asleep_bytes\":0");
    sleep_check(plain, 4 * MIB, 2);
    assert_says(
        client_ask(&one, "{\"command\":\"limit\",\"bytes\":6291456,\"tags\":[\"weights\"]}"),
        "\"limit_bytes\":6291456}]}]");
    assert_error(tnr_pool_malloc(&more, pool, 2 * MIB, 0, NULL), TNR_ERR_LIMIT,
                 "limit 6.00 MiB of the tag \"weights\" (set by tenure ctl), 6.00 MiB reserved");
    assert_says(client_ask(&one, "{\"command\":\"limit\",\"bytes\":10485760}"), "\"ok\":true");
    assert_error(tnr_malloc(&more, 2 * MIB, 0, NULL), TNR_ERR_LIMIT,
                 "limit 10.00 MiB (set by tenure ctl), 10.00 MiB reserved");
    assert_says(client_ask(&one, "{\"command\":\"limit\",\"bytes\":null}"), "\"limit_bytes\":null");
    assert_ok(tnr_malloc(&more, 2 * MIB, 0, NULL));
    assert_ok(tnr_free(more));
    assert_says(client_ask(&one, "{\"command\":\"trim\"}"), "\"released_bytes\":2097152");
    assert_ok(tnr_malloc(&more, 2 * MIB, 0, NULL));
    assert_ok(tnr_free(more));
    assert_says(client_ask(&one, "{\"command\":\"compact\"}"), "\"released_bytes\":2097152");
    assert_ok(tnr_free(weights));
    assert_says(client_ask(&one, "{\"command\":\"trim\",\"tags\":[\"weights\"],\"bytes\":4194304}"),
                "\"released_bytes\":2097152");
    assert_says(client_ask(&one, "{\"command\":\"settings\",\"set\":\"history:light\"}"),
                "\"ok\":true");
    assert_says(client_ask(&one, "{\"command\":\"settings\"}"),
                "\"key\":\"history\",\"value\":\"light\"");
    assert_says(client_ask(&one, "{\"command\":\"settings\",\"set\":\"nonsense:1\"}"),
                "TNR_ERR_CONFIG");
    client_close(&one);
    assert_ok(tnr_free(plain));
    sleep_context_leave();
}

/* Of which stream memory is, and what waits for a use: told to who asks for streams. */
static void status_of_streams(void **state)
{
    (void)state;
    char expected[128];
    unit_start(client_conf("chunk_max_mb:2"), "SCHEDULE=lazy", NULL);
    sleep_context_enter();
    tnr_stream one = unit_stream(0), other = unit_stream(0);
    void *kept = unit_malloc(3 * MIB, one), *freed = unit_malloc(2 * MIB, other);
    client asking;
    assert_true(client_open(&asking));
    assert_null(strstr(client_ask(&asking, "{\"command\":\"status\"}"), "\"streams\""));
    client_ask(&asking, "{\"command\":\"status\",\"streams\":true}");
    snprintf(expected, sizeof(expected),
             "\"stream\":\"%p\",\"held_bytes\":4194304,\"live_bytes\":3145728,\"live_blocks\":1,"
             "\"waiting_bytes\":0",
             (void *)one);
    assert_says(asking.line, expected);
    assert_says(asking.line, "\"streams_left_out\":0");
    assert_says(asking.line, "\"moving_chunks\":0,\"name\":null");
    assert_ok(tnr_stream_name_set(0, one, "to \"keep\""));
    client_ask(&asking, "{\"command\":\"status\",\"streams\":true}");
    assert_says(asking.line, "\"moving_chunks\":0,\"name\":\"to \\\"keep\\\"\"");
    sleep_fill(freed, 2 * MIB, 1, one);
    assert_ok(tnr_record_use(freed, one));
    assert_ok(tnr_free(freed));
    client_ask(&asking, "{\"command\":\"status\",\"streams\":true}");
    snprintf(expected, sizeof(expected),
             "\"stream\":\"%p\",\"held_bytes\":2097152,\"live_bytes\":0,\"live_blocks\":0,"
             "\"waiting_bytes\":2097152",
             (void *)other);
    assert_says(asking.line, expected);
    client_close(&asking);
    assert_ok(tnr_free(kept));
    sleep_context_leave();
}

static int outside_told;

static int outside_tell(tnr_outside *outside, int device, void *user)
{
    assert_int_equal(outside->rows_count, 0);
    outside_told++;
    if (user == NULL)
        return 0;
    outside->used_bytes = 100 * MIB;
    outside->is_from_start = 1;
    outside->rows_count = *(const size_t *)user;
    for (size_t i = 0; i < outside->rows_count && i < TNR_OUTSIDE_ROWS_MAX; i++) {
        outside->rows[i].bytes = (uint64_t)device + 7;
        memset(outside->rows[i].name, 'a', sizeof(outside->rows[i].name)); /* without an end */
    }
    return 1;
}

/* What is explained of the memory that a driver says is used: told to who asks, if somebody knows.
 */
static void status_of_account(void **state)
{
    (void)state;
    static const char asked[] = "{\"command\":\"status\",\"account\":true}";
    size_t rows = 2;
    client asking;
    unit_start(client_conf("chunk_max_mb:2"), NULL);
    sleep_context_enter();
    void *block = unit_malloc(3 * MIB, unit_stream(0));
    outside_told = 0;
    assert_true(client_open(&asking));
    assert_null(strstr(client_ask(&asking, asked), "\"account\":"));
    assert_ok(tnr_outside_set(outside_tell, &rows));
    assert_null(strstr(client_ask(&asking, "{\"command\":\"status\"}"), "\"account\":"));
    assert_int_equal(outside_told, 0);
    client_ask(&asking, asked);
    assert_says(asking.line, "\"account\":{\"used_bytes\":104857600,\"from_start\":true,"
                             "\"tenure_bytes\":4194304,\"outside\":[{\"name\":\"aaa");
    assert_says(asking.line, "aaa\",\"bytes\":7}],\"explained_bytes\":4194318}");
    assert_int_equal(outside_told, 1);
    rows = TNR_OUTSIDE_ROWS_MAX + 1; /* more than there is room for: nothing of it is believed */
    assert_null(strstr(client_ask(&asking, asked), "\"account\":"));
    assert_ok(tnr_outside_set(outside_tell, NULL));
    assert_null(strstr(client_ask(&asking, asked), "\"account\":"));
    assert_int_equal(outside_told, 3);
    assert_ok(tnr_outside_set(NULL, NULL));
    assert_null(strstr(client_ask(&asking, asked), "\"account\":"));
    assert_int_equal(outside_told, 3);
    client_close(&asking);
    assert_ok(tnr_free(block));
    sleep_context_leave();
}

/* Refusals of the library come as they are, and change nothing. */
static void refusals(void **state)
{
    (void)state;
    unit_start(client_conf(NULL), "DEVICES=2", NULL);
    void *block = unit_malloc(MIB, NULL);
    static const char *const asked[][2] = {
        {"{\"command\":\"sleep\",\"tags\":[\"nobody\"]}", "nothing has the tag \\\"nobody\\\""},
        {"{\"command\":\"wake\",\"tags\":[\"weights\",\"nobody\"]}", "nobody"},
        {"{\"command\":\"trim\",\"tags\":[\"nobody\"]}", "nobody"},
        {"{\"command\":\"limit\",\"bytes\":1,\"tags\":[\"nobody\"]}", "nobody"},
        {"{\"command\":\"sleep\",\"device\":1}", "does not use device 1"},
        {"{\"command\":\"trim\",\"device\":9223372036854775807}", "does not use device 92233720"},
        {"{\"command\":\"snapshot\",\"format\":\"../x\"}", "format must be"},
    };
    tnr_pool pool;
    assert_ok(tnr_tag_pool(&pool, "weights", TNR_CONTENT_DEFAULT));
    for (size_t i = 0; i < sizeof(asked) / sizeof(asked[0]); i++) {
        const char *answer = client_ask_once(asked[i][0]);
        assert_says(answer, asked[i][1]);
        assert_says(answer, "\"ok\":false");
    }
    tnr_device_info device = {.struct_bytes = sizeof(device)};
    assert_ok(tnr_device_get(&device, 1));
    assert_false(device.in_use); /* nothing that was asked put it into use */
    assert_int_equal(unit_stats().bytes_asleep, 0);
    assert_ok(tnr_free(block));
}

static void not_switched_off_from_outside(void **state)
{
    (void)state;
    unit_start(client_conf(NULL), NULL, NULL);
    client one;
    assert_true(client_open(&one));
    assert_says(client_ask(&one, "{\"command\":\"settings\",\"set\":\"control:off\"}"),
                "cannot be changed from outside");
    assert_says(
        client_ask(&one, "{\"command\":\"settings\",\"set\":\"history:light,control_dir:\"}"),
        "cannot be changed from outside");
    assert_says(client_ask(&one, "{\"command\":\"settings\"}"),
                "\"key\":\"history\",\"value\":\"off\"");
    assert_int_equal(client_folder_count(), 1);
    client_close(&one);
}

static void snapshots(void **state)
{
    (void)state;
    char path[512], file[256];
    unit_start(client_conf(NULL), NULL, NULL);
    void *block = unit_malloc(MIB, NULL);
    client one;
    assert_true(client_open(&one));
    assert_says(client_ask(&one, "{\"command\":\"snapshot\",\"format\":\"json\"}"), "\"ok\":true");
    const char *name = strstr(one.line, "\"file\":\"") + 8;
    snprintf(file, sizeof(file), "%.*s", (int)strcspn(name, "\""), name);
    snprintf(path, sizeof(path), "%s/%s", client_folder(), file);
    struct stat found;
    assert_int_equal(stat(path, &found), 0);
    snprintf(file, sizeof(file), "\"bytes\":%lld", (long long)found.st_size);
    assert_says(one.line, file);
    assert_int_equal(client_folder_count(), 2);
    assert_says(client_ask(&one, "{\"command\":\"snapshot\"}"), ".json.gz\"");
    assert_int_equal(access(path, F_OK), -1); /* with the next request */
    assert_int_equal(client_folder_count(), 2);
    client_close(&one);
    await_true(client_folder_count() <= 1); /* and with the connection */
    assert_ok(tnr_free(block));
}

/* ---- connections that behave badly ---------------------------------------------------------- */

static void parts_of_lines(void **state)
{
    (void)state;
    static const char both[] = "{\"id\":1,\"command\":\"trim\"}\n{\"id\":2,\"command\":\"trim\"}\n";
    unit_start(client_conf(NULL), NULL, NULL);
    client one;
    assert_true(client_open(&one));
    for (size_t i = 0; i < sizeof(both) - 1; i++) /* byte by byte */
        assert_true(client_send(&one, both + i, 1));
    assert_true(client_receive(&one));
    assert_says(one.line, "{\"id\":1,");
    assert_true(client_receive(&one));
    assert_says(one.line, "{\"id\":2,");
    assert_true(client_send(&one, both, sizeof(both) - 1)); /* at once, and then no more */
    assert_int_equal(shutdown(one.socket, SHUT_WR), 0);
    assert_true(client_receive(&one));
    assert_true(client_receive(&one));
    assert_says(one.line, "{\"id\":2,");
    assert_false(client_receive(&one));
    client_close(&one);
}

static void long_lines(void **state)
{
    (void)state;
    static char line[20000];
    unit_start(client_conf(NULL), NULL, NULL);
    client one;
    memset(line, ' ', sizeof(line));
    memcpy(line, "{\"command\":\"trim\"}", 18);
    line[8191] = '\n';
    assert_true(client_open(&one));
    assert_true(client_send(&one, line, 8192));
    assert_true(client_receive(&one));
    assert_says(one.line, "\"ok\":true");
    line[8191] = ' ';
    (void)client_send(&one, line, sizeof(line));
    assert_true(client_receive(&one));
    assert_says(one.line, "longer than 8191 bytes");
    assert_false(client_receive(&one));
    client_close(&one);
}

/* One that asks and asks, and never reads; then others, and at last it reads. */
static void never_reads(void **state)
{
    (void)state;
    static const char request[] = "{\"command\":\"settings\"}\n";
    unit_start(client_conf(NULL), NULL, NULL);
    client lazy;
    size_t sent = 0;
    assert_true(client_open(&lazy));
    for (;;) { /* until nothing more goes in */
        struct pollfd room = {.fd = lazy.socket, .events = POLLOUT};
        size_t at = sent % (sizeof(request) - 1);
        ssize_t part = send(lazy.socket, request + at, sizeof(request) - 1 - at, MSG_DONTWAIT);
        if (part > 0) {
            sent += (size_t)part;
            continue;
        }
        if (client_ask_once("{\"command\":\"status\"}") == NULL)
            fail_msg("others are not served");
        if (poll(&room, 1, 0) == 0)
            break;
    }
    assert_true(sent > 0);
    for (int i = 0; i < 20; i++)
        assert_says(client_ask_once("{\"command\":\"status\"}"), "\"ok\":true");
    assert_true(client_receive(&lazy));
    assert_says(lazy.line, "\"key\":\"control\"");
    client_close(&lazy);
    assert_says(client_ask_once("{\"command\":\"status\"}"), "\"ok\":true");
}

/* More than there is room for, each with half a line: the newest are served, the oldest go. */
static void stuck_connections(void **state)
{
    (void)state;
    enum { MANY = 40 };
    static client stuck[MANY];
    unit_start(client_conf(NULL), NULL, NULL);
    for (int i = 0; i < MANY; i++) {
        assert_true(client_open(&stuck[i]));
        assert_true(client_send(&stuck[i], "{\"command\":", 11));
    }
    assert_says(client_ask_once("{\"command\":\"status\"}"), "\"ok\":true");
    assert_false(client_receive(&stuck[0]));
    assert_false(client_receive(&stuck[MANY - 17]));
    assert_true(client_send(&stuck[MANY - 1], "\"trim\"}\n", 8));
    assert_true(client_receive(&stuck[MANY - 1]));
    assert_says(stuck[MANY - 1].line, "\"ok\":true");
    for (int i = 0; i < MANY; i++)
        client_close(&stuck[i]);
}

/* A controller that dies at each step of what it does. */
static void die_at(void *data)
{
    const char *request =
        "{\"command\":\"sleep\"}\n{\"command\":\"snapshot\"}\n{\"command\":\"wake\"}\n";
    int steps = *(int *)data;
    char path[512];
    client one;
    snprintf(path, sizeof(path), "%s", getenv("CONTROL_TEST_PATH"));
    if (steps-- == 0 || !client_connect(&one, path) || steps-- == 0 || !client_receive(&one))
        raise(SIGKILL);
    for (const char *at = request; *at != '\0'; at++)
        if (steps-- == 0 || !client_send(&one, at, 1))
            raise(SIGKILL);
    for (int i = 0; i < 3; i++)
        if (steps-- == 0 || !client_receive(&one))
            raise(SIGKILL);
    _exit(0);
}

static void killed_at_every_step(void **state)
{
    (void)state;
    char path[512];
    unit_start(client_conf("chunk_max_mb:2"), NULL, NULL);
    sleep_context_enter();
    void *block = unit_malloc(4 * MIB, NULL);
    sleep_fill(block, 4 * MIB, 5, NULL);
    assert_int_equal(cuStreamSynchronize(NULL), CUDA_SUCCESS);
    assert_true(tnr_control_path(path, sizeof(path)) > 0);
    assert_int_equal(setenv("CONTROL_TEST_PATH", path, 1), 0);
    int stride = few_or(1, 7);
    for (int step = (int)(commit_seed() % (uint64_t)stride), status = -SIGKILL; status == -SIGKILL;
         step += stride) {
        status = unit_in_child(die_at, &step, 1);
        const char *answer = client_ask_once("{\"command\":\"wake\"}");
        assert_true(step < 1000);
        assert_says(answer, "\"asleep_bytes\":0");
        assert_true(status == -SIGKILL || status == 0);
        sleep_check(block, 4 * MIB, 5);
    }
    await_true(client_folder_count() <= 1); /* no snapshot is left */
    assert_ok(tnr_free(block));
    sleep_context_leave();
}

/* Host memory is told of as a device, gives back what is idle, and has a limit if it is named. What
 * moves memory away passes it over. */
static void host_memory(void **state)
{
    (void)state;
    void *ptr = NULL;
    client one;
    unit_start(client_conf(NULL), NULL, NULL);
    assert_ok(tnr_host_malloc(&ptr, 1 * MIB));
    assert_true(client_open(&one));
    assert_says(client_ask(&one, "{\"command\":\"status\",\"account\":true}"),
                "\"device\":64,\"name\":\"host memory near device 0\"");
    assert_ok(tnr_host_free(ptr));
    assert_says(client_ask(&one, "{\"command\":\"sleep\"}"), "\"ok\":true");
    assert_says(client_ask(&one, "{\"command\":\"wake\"}"), "\"ok\":true");
    assert_says(client_ask(&one, "{\"command\":\"sleep\",\"device\":64}"), "neither sleeps");
    assert_says(client_ask(&one, "{\"command\":\"limit\",\"bytes\":4194304}"), "\"ok\":true");
    size_t limit = 0;
    assert_ok(tnr_limit_get(&limit, TNR_HOST(0)));
    assert_int_equal(limit, SIZE_MAX);
    assert_says(client_ask(&one, "{\"command\":\"limit\",\"bytes\":8388608,\"device\":64}"),
                "\"limit_bytes\":8388608");
    assert_says(client_ask(&one, "{\"command\":\"trim\"}"),
                "\"device\":64,\"released_bytes\":2097152");
    assert_says(client_ask(&one, "{\"command\":\"trim\",\"device\":65}"), "does not use device 65");
    assert_says(client_ask(&one, "{\"command\":\"trim\",\"device\":128}"),
                "does not use device 128");
    client_close(&one);
}

#define TEST(name) cmocka_unit_test_teardown(name, unit_stop)

int main(int argc, char **argv)
{
    (void)argv;
    const struct CMUnitTest tests[] = {
        TEST(off_unless_asked_for),
        TEST(ends_with_the_library),
        TEST(a_device_that_ends),
        TEST(is_moved),
        TEST(folders),
        TEST(a_fork_has_nothing),
        TEST(signals_are_blocked),
        TEST(ends_with_the_process),
        TEST(other_users),
        TEST(rules),
        TEST(status_of_streams),
        TEST(status_of_account),
        TEST(refusals),
        TEST(not_switched_off_from_outside),
        TEST(snapshots),
        TEST(parts_of_lines),
        TEST(long_lines),
        TEST(never_reads),
        TEST(stuck_connections),
        TEST(killed_at_every_step),
        TEST(host_memory),
    };
    if (argc > 1)
        return program_main();
    ssize_t length = readlink("/proc/self/exe", own_program, sizeof(own_program) - 1);
    if (length <= 0)
        return 1;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
