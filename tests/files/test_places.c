/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The places of a user's folder: the runtime folder that the environment names, and /tmp. Processes
 * that have such a variable and those that have none find each other, whoever comes first; and a
 * name in /tmp that somebody else has taken keeps nobody from anything.
 *
 * Each test has a /tmp and a /run of its own, which only root can mount.
 *
 * Lines of the library changed to see it fail:
 *   tnri_places_list without the runtime folder: control_is_at_home, a_name_that_is_taken
 *   home always 1: control_is_at_home; always 0: the_second_place
 *   member_sit that goes home at once: groups_meet
 *   tnri_names_open that goes home at once: names_meet
 *   is_private without the owner or the mode in runtime_add: the_second_place
 *   tnri_folder_open that tries one place: a_name_that_is_taken
 */
#include "unit/unit.h"

#include <errno.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tenure/control.h>
#include <tenure/publish.h>

#include "share/group/member.h"

enum { SKIPPED = 77 };
#define RUNTIME "/tmp/runtime"

/* ---- processes ------------------------------------------------------------------------------ */

/* A process that does something and stays until it is told to end. */
typedef struct peer {
    pid_t process;
    int socket;
    int said; /* what came of it */
} peer;

static peer peer_start(int has_runtime, const char *argument, int (*body)(const char *argument))
{
    int files[2];
    peer made = {0};
    unsigned char said;
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, files), 0);
    fflush(NULL);
    made.process = fork();
    assert_true(made.process >= 0);
    if (made.process == 0) {
        if (has_runtime)
            setenv("XDG_RUNTIME_DIR", RUNTIME, 1);
        else
            unsetenv("XDG_RUNTIME_DIR");
        said = (unsigned char)body(argument);
        (void)close(files[0]);
        _exit(write(files[1], &said, 1) == 1 && read(files[1], &said, 1) >= 0 ? 0 : 1);
    }
    (void)close(files[1]);
    made.socket = files[0];
    assert_int_equal(read(made.socket, &said, 1), 1);
    made.said = said;
    return made;
}

/* Ends it, and returns what came of it. */
static int peer_end(const peer *gone)
{
    int status;
    assert_int_equal(write(gone->socket, "", 1), 1); /* others may have its end as well */
    (void)close(gone->socket);
    assert_int_equal(waitpid(gone->process, &status, 0), gone->process);
    assert_int_equal(status, 0);
    return gone->said;
}

/* ---- what they do --------------------------------------------------------------------------- */

/* How many members the group has then. */
static int join(const char *group)
{
    char conf[64];
    void *ptr;
    tnri_member_seen seen;
    int seat = 0, count = 0;
    snprintf(conf, sizeof(conf), "group:%s", group);
    unit_start(conf, NULL, NULL);
    if (tnr_malloc(&ptr, MIB, 0, NULL) != TNR_OK)
        return 99;
    while (tnri_member_next(&seen, &seat, 0))
        count++;
    return count;
}

/* The generation that it publishes. */
static int publish(const char *name)
{
    void *ptr;
    uint64_t generation = 99;
    tnr_publish_options options = TNR_PUBLISH_OPTIONS_INIT;
    options.replace = 1;
    unit_start("handle_type:posix_fd", NULL, NULL);
    if (tnr_malloc(&ptr, 2 * MIB, 0, NULL) != TNR_OK ||
        tnr_publish(&generation, name, ptr, &options) != TNR_OK)
        return 99;
    return (int)generation;
}

/* The generation that it finds. */
static int look(const char *name)
{
    tnr_published_info info = {.struct_bytes = sizeof(info)};
    unit_start(NULL, NULL, NULL);
    tnr_status status = tnr_published_get(&info, name);
    return status == TNR_OK ? (int)info.generation : status == TNR_ERR_INVALID_EXPORT ? 0 : 99;
}

/* 1 if its socket is in that folder; 0: it has none. */
static int listen_in(const char *folder)
{
    char path[256] = "";
    unit_settings("control:on", NULL);
    if (tnr_init() != TNR_OK)
        return strstr(tnr_last_error(), "belongs to user 1 ") != NULL ? 0 : 99;
    (void)tnr_control_path(path, sizeof(path));
    return strncmp(path, folder, strlen(folder)) == 0 && path[strlen(folder)] == '/' ? 1 : 98;
}

static int once(int has_runtime, const char *argument, int (*body)(const char *argument))
{
    peer one = peer_start(has_runtime, argument, body);
    return peer_end(&one);
}

/* ---- the tests ------------------------------------------------------------------------------ */

static char own[64]; /* the folder in /tmp */

/* Folders of its own. */
static void world_make(void)
{
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("none", "/tmp", "tmpfs", 0, "mode=1777") != 0 ||
        mount("none", "/run", "tmpfs", 0, "mode=755") != 0)
        exit(SKIPPED);
    assert_int_equal(mkdir(RUNTIME, 0700), 0);
    snprintf(own, sizeof(own), "/tmp/tenure-%lu", (unsigned long)geteuid());
}

static void at_home(void *data)
{
    struct stat found;
    (void)data;
    world_make();
    assert_int_equal(once(1, RUNTIME "/tenure", listen_in), 1);
    assert_int_equal(stat(RUNTIME "/tenure", &found), 0);
    assert_int_equal(found.st_mode & 0777, 0700);
    assert_int_equal(stat(own, &found), -1);
    assert_int_equal(once(0, own, listen_in), 1);
    exit(0);
}

static void second_place(void *data)
{
    (void)data;
    world_make();
    assert_int_equal(mkdir("/run/user", 0755), 0);
    assert_int_equal(mkdir("/run/user/0", 0700), 0);
    assert_int_equal(once(0, own, listen_in), 1); /* it is named by nobody */
    assert_int_equal(chmod(RUNTIME, 0755), 0);
    assert_int_equal(once(1, own, listen_in), 1); /* others may enter it */
    assert_int_equal(chmod(RUNTIME, 0700), 0);
    assert_int_equal(chown(RUNTIME, 1, 1), 0);
    assert_int_equal(once(1, own, listen_in), 1); /* it is another's */
    exit(0);
}

static void taken(void *data)
{
    (void)data;
    world_make();
    assert_int_equal(mkdir(own, 0700), 0);
    assert_int_equal(chown(own, 1, 1), 0);
    assert_int_equal(once(0, "", listen_in), 0);
    assert_int_equal(once(1, RUNTIME "/tenure", listen_in), 1);
    assert_int_equal(once(1, "g", join), 1);
    assert_int_equal(once(1, "n", publish), 1);
    assert_int_equal(mkdir("/run/user", 0755), 0);
    assert_int_equal(mkdir("/run/user/0", 0700), 0);
    assert_int_equal(once(0, "/run/user/0/tenure", listen_in), 1);
    exit(0);
}

static void groups(void *data)
{
    (void)data;
    world_make();
    assert_int_equal(mkdir("/run/user", 0755), 0);
    assert_int_equal(symlink(RUNTIME, "/run/user/0"), 0); /* the same, by its other name */
    for (int first = 0; first < 2; first++) {
        const char *name = first ? "a" : "b";
        peer one = peer_start(first, name, join), other = peer_start(!first, name, join);
        assert_int_equal(peer_end(&other), 2);
        assert_int_equal(peer_end(&one), 1);
        /* Nobody is there: both go to the board that the one in /tmp sees, if there is one. */
        one = peer_start(1, name, join);
        other = peer_start(0, name, join);
        assert_int_equal(peer_end(&other), 2);
        assert_int_equal(peer_end(&one), 1);
    }
    exit(0);
}

static void names(void *data)
{
    (void)data;
    world_make();
    assert_int_equal(mkdir("/run/user", 0755), 0);
    assert_int_equal(symlink(RUNTIME, "/run/user/0"), 0);
    for (int first = 0; first < 2; first++) {
        const char *name = first ? "a" : "b";
        assert_int_equal(once(first, name, look), 0);
        peer one = peer_start(first, name, publish);
        assert_int_equal(once(!first, name, look), 1);
        peer other = peer_start(!first, name, publish);
        assert_int_equal(once(first, name, look), 2);
        assert_int_equal(peer_end(&one), 1);
        assert_int_equal(peer_end(&other), 2);
        assert_int_equal(once(first, name, publish), 3); /* nobody holds it: numbers go on */
        assert_int_equal(once(!first, name, publish), 4);
    }
    exit(0);
}

static void in_child(void (*body)(void *))
{
    int status = unit_in_child(body, NULL, 0);
    if (status == SKIPPED)
        skip();
    assert_int_equal(status, 0);
}

#define TEST(name, body)                                                                           \
    static void name(void **state)                                                                 \
    {                                                                                              \
        (void)state;                                                                               \
        in_child(body);                                                                            \
    }
TEST(control_is_at_home, at_home)
TEST(the_second_place, second_place)
TEST(a_name_that_is_taken, taken)
TEST(groups_meet, groups)
TEST(names_meet, names)

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(control_is_at_home),   cmocka_unit_test(the_second_place),
        cmocka_unit_test(a_name_that_is_taken), cmocka_unit_test(groups_meet),
        cmocka_unit_test(names_meet),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
