/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every system call that control makes fails at every use, once and from there on. Control is
 * switched on, or refused with a sentence. A controller is served, or its connection is closed.
 * Once the system works again, control works, too, and nothing is left.
 *
 * The program is linked so that these calls of the library's come here first.
 *
 * Lines changed in the library to see both tests fail:
 *   tnri_server_make without name_remove: an entry is left in the folder
 *   socket_publish without unlinkat: the same
 *   tnri_folder_open without close: descriptors are left
 */
#include "unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tenure/control.h>

#include "client.h"
#include "fault/system.h"

/* ---- the system ----------------------------------------------------------------------------- */

SYSTEM_WRAP(ssize_t, getrandom, (void *to, size_t bytes, unsigned flags), (to, bytes, flags), -1)
SYSTEM_WRAP(int, socket, (int domain, int type, int protocol), (domain, type, protocol), -1)
SYSTEM_WRAP(int, bind, (int file, const struct sockaddr *to, socklen_t bytes), (file, to, bytes),
            -1)
SYSTEM_WRAP(int, listen, (int file, int most), (file, most), -1)
SYSTEM_WRAP(int, renameat, (int a, const char *from, int b, const char *to), (a, from, b, to), -1)
SYSTEM_WRAP(int, eventfd, (unsigned first, int flags), (first, flags), -1)
SYSTEM_WRAP(int, accept4, (int file, struct sockaddr *from, socklen_t *bytes, int flags),
            (file, from, bytes, flags), -1)
SYSTEM_WRAP(ssize_t, recv, (int file, void *to, size_t bytes, int flags), (file, to, bytes, flags),
            -1)
SYSTEM_WRAP(ssize_t, sendmsg, (int file, const struct msghdr *from, int flags), (file, from, flags),
            -1)
SYSTEM_WRAP(int, poll, (struct pollfd * waits, nfds_t count, int timeout), (waits, count, timeout),
            -1)
SYSTEM_WRAP(int, getsockopt, (int file, int level, int name, void *to, socklen_t *bytes),
            (file, level, name, to, bytes), -1)

/* ---- the test ------------------------------------------------------------------------------- */

/* Whatever comes of it. */
static void body(void)
{
    client one;
    if (tnr_configure(client_conf(NULL)) != TNR_OK) {
        const char *said = tnr_last_error();
        assert_non_null(strstr(said, "control: "));
        assert_int_equal(tnr_control_path(NULL, 0), 0);
        return;
    }
    if (client_open(&one) && client_ask(&one, "{\"command\":\"sleep\"}") != NULL)
        (void)client_ask(&one, "{\"command\":\"snapshot\"}");
    client_close(&one);
}

/* Runs it with one fault. 0: there was nothing left to fail. */
static int fault_run(int nth, int for_good)
{
    unit_start(NULL, NULL, NULL);
    void *block = unit_malloc(MIB, NULL);
    int files = system_files_count();
    system_fail_at(nth, for_good);
    if (!for_good) {
        body();
    } else { /* a controller may wait for as long as it lasts */
        tnr_status status = tnr_configure(client_conf(NULL));
        assert_true(status == TNR_OK || strstr(tnr_last_error(), "control: ") != NULL);
        char path[512];
        client one;
        if (tnr_control_path(path, sizeof(path)) > 0 && client_connect(&one, path)) {
            (void)client_send(&one, "{\"command\":\"status\"}\n", 21);
            client_close(&one);
        }
    }
    int has_failed = system_mend();
    /* The system works again. */
    assert_ok(tnr_configure(client_conf(NULL)));
    const char *answer = client_ask_once("{\"command\":\"wake\"}");
    if (answer == NULL || strstr(answer, "\"ok\":true") == NULL)
        fail_msg("call %d%s: afterwards %s", nth, for_good ? " and all later" : "",
                 answer == NULL ? "nobody answers" : answer);
    assert_ok(tnr_configure("control:off"));
    assert_int_equal(client_folder_count(), 0);
    assert_int_equal(system_files_count(), files);
    assert_ok(tnr_free(block));
    assert_int_equal(unit_stop(NULL), 0);
    return has_failed;
}

static void each_call_fails(void **state)
{
    (void)state;
    int nth = 1;
    (void)client_folder();
    while (fault_run(nth, 0))
        nth++;
    print_message("%d calls\n", nth - 1);
    assert_true(nth > 20); /* all of them come up */
}

static void each_call_fails_for_good(void **state)
{
    (void)state;
    for (int nth = 1; nth <= 20; nth++)
        (void)fault_run(nth, 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(each_call_fails, unit_stop),
        cmocka_unit_test_teardown(each_call_fails_for_good, unit_stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
