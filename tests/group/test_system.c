/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every system call by which a process joins a group, works in it and leaves it fails at every use,
 * once and from there on. The device comes into use, or is refused with a sentence. Once the system
 * works again, the device can be used, and nothing is left.
 *
 * The program is linked so that these calls of the library's come here first.
 *
 * Lines changed in the library to see it fail:
 *   tnri_board_sit without tnri_board_forget: descriptors are left
 *   member_sit without close: the same
 *   group_join without tnri_board_rise: the same
 */
#include "unit/unit.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "fault/system.h"
#include "share/group/member.h"

SYSTEM_WRAP(int, posix_fallocate, (int file, off_t from, off_t bytes), (file, from, bytes), ENOSPC)
#ifndef WITHOUT_GETRLIMIT
SYSTEM_WRAP(int, getrlimit, (int which, struct rlimit *most), (which, most), -1)
#endif
SYSTEM_WRAP(int, fcntl, (int file, int what, struct flock *lock), (file, what, lock), -1)

/* Those of files; the others are for host memory. */
void *__real_mmap(void *at, size_t bytes, int access, int flags, int file, off_t from);
void *__wrap_mmap(void *at, size_t bytes, int access, int flags, int file, off_t from);
void *__wrap_mmap(void *at, size_t bytes, int access, int flags, int file, off_t from)
{
    if (file >= 0 && system_is_failing(ENOMEM))
        return MAP_FAILED;
    return __real_mmap(at, bytes, access, flags, file, from);
}

/* Waits that end for no reason, and wakes that reach nobody but through the value. */
long __real_syscall(long number, ...);
long __wrap_syscall(long number, void *word, long what, long value, void *time, void *b, long c);
long __wrap_syscall(long number, void *word, long what, long value, void *time, void *b, long c)
{
    if (number == SYS_futex && what == 0 && system_is_failing(EINTR))
        return -1;
    return __real_syscall(number, word, what, value, time, b, c);
}

/* ---- the test ------------------------------------------------------------------------------- */

static char folder[] = "/tmp/tenure-group-system-XXXXXX";

/* Runs it with one fault. 0: there was nothing left to fail. */
static int fault_run(int nth, int for_good)
{
    void *ptr;
    char conf[96], path[128];
    snprintf(path, sizeof(path), "%s/g-73696d63756461000000000000000000.group", folder);
    (void)unlink(path);
    snprintf(conf, sizeof(conf), "group:g,group_floor_mb:4,control_dir:%s", folder);
    unit_start(conf, "MEMORY=64M", NULL);
    int files = system_files_count();
    system_fail_at(nth, for_good);
    tnr_status status = tnr_malloc(&ptr, 8 * MIB, 0, NULL);
    tnri_member_seen seen;
    int seat = 0;
    assert_int_equal(tnri_member_next(&seen, &seat, 0), status == TNR_OK);
    if (status == TNR_OK)
        assert_ok(tnr_free(ptr));
    else
        assert_non_null(strstr(tnr_last_error(), "group: "));
    if (status == TNR_OK)
        assert_ok(tnr_device_end(0, 0));
    int has_failed = system_mend();
    /* The system works again. */
    assert_ok(tnr_malloc(&ptr, 8 * MIB, 0, NULL));
    assert_error(tnr_malloc(&ptr, 60 * MIB, 0, NULL), TNR_ERR_OUT_OF_MEMORY, NULL);
    assert_ok(tnr_shutdown(1));
    assert_int_equal(system_files_count(), files);
    assert_int_equal(unit_stop(NULL), 0);
    return has_failed;
}

static void each_call_fails(void **state)
{
    (void)state;
    int nth = 1;
    while (fault_run(nth, 0))
        nth++;
    print_message("%d calls\n", nth - 1);
    assert_true(nth > 8); /* all of them come up */
}

static void each_call_fails_for_good(void **state)
{
    (void)state;
    for (int nth = 1; nth <= 10; nth++)
        (void)fault_run(nth, 1);
}

static int folder_end(void **state)
{
    (void)state;
    char path[128];
    snprintf(path, sizeof(path), "%s/g-73696d63756461000000000000000000.group", folder);
    return unlink(path) == 0 && rmdir(folder) == 0 ? 0 : 1;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(each_call_fails, unit_stop),
        cmocka_unit_test_teardown(each_call_fails_for_good, unit_stop),
    };
    if (mkdtemp(folder) == NULL)
        return 1;
    return cmocka_run_group_tests(tests, NULL, folder_end);
}
