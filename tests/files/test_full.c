/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every file that the library writes or maps, where there is no room for it: on a disk that is full
 * (a small one of its own; only root can mount that), where the system refuses the blocks, and
 * beyond the process's limit for files. The call is refused with a sentence, no signal ends the
 * program, nothing is left, and the program goes on.
 *
 * Lines of the library changed to see it fail:
 *   board_check with ftruncate in place of tnri_file_fill: a_full_disk and blocks_are_refused
 *     (SIGBUS at the first allocation), a_limit (SIGXFSZ)
 *   the same, for a file that is empty alone: a_board_with_holes
 *   tnri_file_limit that answers 0: a_limit (SIGXFSZ)
 *   file_write in sink.c without tnri_file_limit, as tnri_notice_write and text_write: a_limit
 */
#include "unit/unit.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <tenure/history.h>
#include <tenure/publish.h>

#include "own_folder.h"
#include "share/group/member.h"
#include "see/trap/listener.h"
#include "see/trap/story.h"

enum { SKIPPED = 77, BOARD_ROOM = 4096, NO_ROOM = 64 };

#define UNLIMITED ((rlim_t)1 << 62)

static int blocks_error; /* what posix_fallocate says; 0: what the system says */

int __real_posix_fallocate(int file, off_t from, off_t bytes);
int __wrap_posix_fallocate(int file, off_t from, off_t bytes);
int __wrap_posix_fallocate(int file, off_t from, off_t bytes)
{
    return blocks_error != 0 ? blocks_error : __real_posix_fallocate(file, from, bytes);
}

/* ---- what a process does there -------------------------------------------------------------- */

static char folder[64];

static int entries_count(void)
{
    int count = -2; /* "." and ".." */
    DIR *list = opendir(folder);
    while (list != NULL && readdir(list) != NULL)
        count++;
    if (list != NULL)
        (void)closedir(list);
    return count;
}

/* RLIM_INFINITY: leaves it. UNLIMITED: none, as the simulated device's own memory needs. */
static void limit_set(rlim_t bytes)
{
    struct rlimit most;
    if (bytes == RLIM_INFINITY)
        return;
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &most), 0);
    most.rlim_cur = bytes == UNLIMITED ? most.rlim_max : bytes;
    assert_int_equal(setrlimit(RLIMIT_FSIZE, &most), 0);
}

static void start(const char *more)
{
    limit_set(UNLIMITED);
    char conf[160];
    snprintf(conf, sizeof(conf), "control_dir:%s,trap_file:%s/traps%s", folder, folder, more);
    unit_start(conf, NULL, NULL);
}

/* A group's board: the device is refused, and comes into use without the group. */
static void group_is_refused(rlim_t limit)
{
    void *ptr;
    tnri_member_seen seen;
    int seat = 0;
    start(",group:g");
    limit_set(limit);
    assert_error(tnr_malloc(&ptr, MIB, 0, NULL), TNR_ERR_FILE, "bytes on the disk");
    assert_error(tnr_malloc(&ptr, MIB, 0, NULL), TNR_ERR_FILE, "leave `group` empty");
    if (limit != RLIM_INFINITY)
        limit_set(UNLIMITED);
    assert_ok(tnr_configure("group:''"));
    assert_ok(tnr_malloc(&ptr, MIB, 0, NULL));
    assert_int_equal(tnri_member_next(&seen, &seat, 0), 0);
    assert_ok(tnr_free(ptr));
    assert_int_equal(unit_stop(NULL), 0);
}

/* What was published before stays, because its notice cannot be changed. */
static void ends_later(const void *ptr, rlim_t limit)
{
    limit_set(UNLIMITED);
    assert_ok(tnr_publish(NULL, "w", ptr, NULL));
    limit_set(limit);
    assert_error(tnr_unpublish("w"), TNR_ERR_FILE, "cannot be written");
    limit_set(UNLIMITED);
    assert_ok(tnr_unpublish("w"));
}

/* A notice and a snapshot: nothing of them is left. */
static void files_are_refused(rlim_t limit)
{
    void *ptr;
    char path[128];
    start(",handle_type:posix_fd");
    assert_ok(tnr_malloc(&ptr, 2 * MIB, 0, NULL));
    int entries = entries_count();
    limit_set(limit);
    assert_error(tnr_publish(NULL, "w", ptr, NULL), TNR_ERR_FILE, "cannot be written");
    snprintf(path, sizeof(path), "%s/x.json", folder);
    assert_error(tnr_snapshot_write(path, TNR_SNAPSHOT_AUTO), TNR_ERR_FILE, NULL);
    snprintf(path, sizeof(path), "%s/x.pickle.gz", folder);
    assert_error(tnr_snapshot_write(path, TNR_SNAPSHOT_AUTO), TNR_ERR_FILE, NULL);
    assert_int_equal(entries_count(), entries);
    if (limit != RLIM_INFINITY)
        ends_later(ptr, limit);
    assert_ok(tnr_free(ptr));
    assert_int_equal(unit_stop(NULL), 0);
}

/* What a trap has found: the text is lost, as its manual says. */
static void finding_is_lost(rlim_t limit)
{
    start("");
    limit_set(limit);
    tnri_finding finding;
    memset(&finding, 0, sizeof(finding));
    tnri_finding_tell(&finding);
    assert_int_equal(unit_stop(NULL), 0);
}

/* A folder on a disk of its own that is full. 0: this process may not mount one. */
static int disk_make(int has_board)
{
    char path[128];
    static const char data[4096];
    if (unshare(CLONE_NEWNS) != 0 || mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("none", folder, "tmpfs", 0, "size=64k,mode=700") != 0)
        return 0;
    snprintf(path, sizeof(path), "%s/g-73696d63756461000000000000000000.group", folder);
    int board = has_board ? open(path, O_RDWR | O_CREAT | O_EXCL, 0600) : -1;
    assert_true(!has_board || ftruncate(board, (off_t)sizeof(tnri_board)) == 0);
    snprintf(path, sizeof(path), "%s/fill", folder);
    int fill = open(path, O_WRONLY | O_CREAT | O_EXCL, 0600);
    while (write(fill, data, sizeof(data)) > 0)
        ;
    assert_int_equal(errno, ENOSPC);
    (void)close(fill);
    if (has_board)
        (void)close(board);
    return 1;
}

/* ---- in children ---------------------------------------------------------------------------- */

static void on_a_full_disk(void *data)
{
    if (!disk_make(0))
        exit(SKIPPED);
    (void)data;
    group_is_refused(RLIM_INFINITY);
    files_are_refused(RLIM_INFINITY);
    finding_is_lost(RLIM_INFINITY);
    exit(0);
}

static void on_holes(void *data)
{
    if (!disk_make(1))
        exit(SKIPPED);
    (void)data;
    group_is_refused(RLIM_INFINITY);
    exit(0);
}

static void within_a_limit(void *data)
{
    (void)data;
    group_is_refused(BOARD_ROOM);
    files_are_refused(NO_ROOM);
    finding_is_lost(NO_ROOM);
    exit(0);
}

static void without_blocks(void *data)
{
    (void)data;
    blocks_error = ENOSPC;
    group_is_refused(RLIM_INFINITY);
    blocks_error = EOPNOTSUPP;
    group_is_refused(RLIM_INFINITY);
    exit(0);
}

static void in_child(void (*body)(void *))
{
    int status = unit_in_child(body, NULL, 0);
    if (status == SKIPPED)
        skip();
    assert_int_equal(status, 0);
}

static void a_full_disk(void **state)
{
    (void)state;
    in_child(on_a_full_disk);
}

static void a_board_with_holes(void **state)
{
    (void)state;
    in_child(on_holes);
}

static void a_limit(void **state)
{
    (void)state;
    in_child(within_a_limit);
}

static void blocks_are_refused(void **state)
{
    (void)state;
    in_child(without_blocks);
}

static int folder_end(void **state)
{
    (void)state;
    return folder_remove(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_full_disk),
        cmocka_unit_test(a_board_with_holes),
        cmocka_unit_test(a_limit),
        cmocka_unit_test(blocks_are_refused),
    };
    snprintf(folder, sizeof(folder), "/tmp/tenure-full-XXXXXX");
    if (mkdtemp(folder) == NULL)
        return 1;
    return cmocka_run_group_tests(tests, NULL, folder_end);
}
