/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Contents that a sleep keeps in files: what lies in the folder, for how long, and what becomes of
 * a sleep whose files cannot be made.
 *
 * Lines changed in the library to see a test fail:
 *   buffers_push: files as other ordinary buffers: kept_in_files
 *   tnri_staging_take_files: the whole parts first: kept_in_files
 *   buffers_return without files_count: the_ring_stays
 *   file_open: no second try: a_name_that_is_taken
 *   tnri_file_fill not called: no_room
 *   set_settle: its status dropped: a_disk_that_fails
 *   exit_remove without its look at the process: at_the_exit; not called: the same
 *   tnri_disk_file_bytes of 8 MiB: few_mappings_for_much
 *   tnri_disk_map without tnri_path_real: a_program_that_goes_elsewhere
 *   tnr_block_content_set: up to TNR_CONTENT_DISK: refused
 */
#include "sleep.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tenure/host.h>
#include <tenure/park.h>
#include <tenure/tag.h>

#include "away/staging.h"

static const tnr_sleep_options disk = {sizeof(tnr_sleep_options), TNR_CONTENT_DISK, 0, 0};
#define FILE_BYTES (8 * MIB)
/* Two files: the first is full. */
#define BLOCK_BYTES (9 * MIB)

static char folder[] = "sleep_disk_XXXXXX";

/* Counts the files of contents in the folder, and their bytes; each is for its user alone. */
static int files_count(size_t *bytes)
{
    int count = 0;
    DIR *dir = opendir(folder);
    assert_non_null(dir);
    *bytes = 0;
    for (struct dirent *entry; (entry = readdir(dir)) != NULL;) {
        char path[512];
        struct stat found;
        if (strstr(entry->d_name, ".contents") == NULL)
            continue;
        snprintf(path, sizeof(path), "%s/%s", folder, entry->d_name);
        assert_int_equal(stat(path, &found), 0);
        assert_int_equal(found.st_mode & 0777, 0600);
        assert_true((size_t)found.st_blocks * 512 >= (size_t)found.st_size);
        *bytes += (size_t)found.st_size;
        count++;
    }
    (void)closedir(dir);
    return count;
}

static void assert_no_files(void)
{
    size_t bytes;
    assert_int_equal(files_count(&bytes), 0);
}

/* A library that keeps contents in the folder. */
static void disk_start(void)
{
    char conf[64];
    tnri_disk_file_bytes = FILE_BYTES;
    snprintf(conf, sizeof(conf), "contents_dir:%s", folder);
    unit_start(conf, "SCHEDULE=lazy", "RACES=1", "MEMORY=512M", NULL);
    sleep_context_enter();
}

static void disk_stop(void)
{
    assert_int_equal(simcuda_races(), 0);
    assert_no_files();
    sleep_context_leave();
}

static void kept_in_files(void **state)
{
    (void)state;
    static const size_t sizes[] = {21 * MIB + 4096, 4096, 16 * MIB};
    void *blocks[3];
    size_t bytes, before = 0;
    char read[4096];
    disk_start();
    for (size_t i = 0; i < 3; i++) {
        blocks[i] = unit_malloc(sizes[i], NULL);
        sleep_fill(blocks[i], sizes[i], (uint32_t)i, NULL);
    }
    for (int round = 0; round < 3; round++) {
        assert_ok(tnr_pool_sleep(NULL, 0, &disk));
        assert_int_equal(sleep_device_bytes(), 0);
        assert_int_equal(sleep_pinned_bytes(), TNRI_RING * TNRI_BUFFER_BYTES);
        int files = files_count(&bytes);
        assert_int_equal(files, (bytes + FILE_BYTES - 1) / FILE_BYTES);
        assert_true(bytes >= 37 * MIB + 8192 && bytes < 38 * MIB);
        assert_true(round == 0 || bytes == before);
        before = bytes;
        assert_ok(tnr_sleep_read(read, sizeof(read), (char *)blocks[0] + 21 * MIB));
        assert_ok(tnr_pool_wake(NULL, 0));
        assert_no_files();
        assert_int_equal(sleep_pinned_bytes(), 0);
        for (size_t i = 0; i < 3; i++)
            sleep_check(blocks[i], sizes[i], (uint32_t)i);
        assert_int_equal(cuCtxSynchronize(), CUDA_SUCCESS);
        assert_memory_equal(read, (char *)blocks[0] + 21 * MIB, sizeof(read));
    }
    /* What is freed in its sleep takes its files along when its pool ends. */
    tnr_pool pool;
    void *alone;
    assert_ok(tnr_pool_create(&pool, 0, NULL));
    assert_ok(tnr_pool_malloc(&alone, pool, 9 * MIB, 0, NULL));
    assert_ok(tnr_pool_sleep(pool, 0, &disk));
    assert_int_equal(files_count(&bytes), 2);
    assert_ok(tnr_free(alone));
    assert_ok(tnr_pool_destroy(pool));
    disk_stop();
}

/* One sleep keeps some in host memory, some in files, and some not at all. */
static void one_sleep_of_all_kinds(void **state)
{
    (void)state;
    static const tnr_content kinds[] = {TNR_CONTENT_DEFAULT, TNR_CONTENT_KEEP, TNR_CONTENT_DISCARD,
                                        TNR_CONTENT_DISK};
    void *blocks[4];
    size_t bytes;
    disk_start();
    for (int i = 0; i < 4; i++) {
        tnr_pool pool;
        assert_ok(tnr_tag_pool(&pool, "kinds", kinds[i]));
        assert_ok(tnr_pool_malloc(&blocks[i], pool, 4 * MIB, 0, NULL));
        sleep_fill(blocks[i], 4 * MIB, (uint32_t)i, NULL);
    }
    assert_ok(tnr_tags_sleep(NULL, 0, 0, NULL));
    assert_int_equal(files_count(&bytes), 1);
    assert_int_equal(bytes, 4 * MIB);
    assert_ok(tnr_tags_wake(NULL, 0, 0));
    for (int i = 0; i < 4; i++)
        assert_int_equal(sleep_matches(blocks[i], 4 * MIB, (uint32_t)i), i != 2);
    disk_stop();
}

/* All mappings that the memory of a node's GPUs needs leave most of what a process may have. */
static void few_mappings_for_much(void **state)
{
    enum { GPUS = 8, GPU_GIB = 192, MAPPINGS = 65530 };
    (void)state;
    size_t files = GPUS * ((size_t)GPU_GIB << 30) / tnri_disk_file_bytes;
    assert_in_range(files, 1, MAPPINGS / 2);
}

/* The ring is there for as long as one pool's contents are files. */
static void the_ring_stays(void **state)
{
    (void)state;
    void *blocks[2];
    tnr_pool pools[2];
    disk_start();
    for (int i = 0; i < 2; i++) {
        assert_ok(tnr_pool_create(&pools[i], 0, NULL));
        assert_ok(tnr_pool_malloc(&blocks[i], pools[i], 3 * MIB, 0, NULL));
        sleep_fill(blocks[i], 3 * MIB, (uint32_t)i, NULL);
    }
    assert_ok(tnr_device_sleep(0, &disk));
    assert_ok(tnr_pool_wake(pools[0], 0));
    assert_ok(tnr_pool_wake(pools[1], 0));
    assert_ok(tnr_device_wake(0));
    for (int i = 0; i < 2; i++)
        sleep_check(blocks[i], 3 * MIB, (uint32_t)i);
    disk_stop();
}

static void a_name_that_is_taken(void **state)
{
    (void)state;
    char path[512];
    size_t bytes;
    disk_start();
    void *block = unit_malloc(4 * MIB, NULL);
    sleep_fill(block, 4 * MIB, 1, NULL);
    /* As a killed process with this number has left it: more than the tests before can have used
     * lie there. */
    for (int i = 0; i < 200; i++) {
        snprintf(path, sizeof(path), "%s/tenure-%d-%d.contents", folder, (int)getpid(), i);
        FILE *file = fopen(path, "wx");
        assert_non_null(file);
        (void)fputs("left", file);
        (void)fclose(file);
        assert_int_equal(chmod(path, 0600), 0);
    }
    assert_ok(tnr_pool_sleep(NULL, 0, &disk));
    assert_int_equal(files_count(&bytes), 201);
    assert_int_equal(bytes, 4 * MIB + 200 * strlen("left"));
    assert_ok(tnr_pool_wake(NULL, 0));
    sleep_check(block, 4 * MIB, 1);
    assert_int_equal(files_count(&bytes), 200);
    for (int i = 0; i < 200; i++) {
        snprintf(path, sizeof(path), "%s/tenure-%d-%d.contents", folder, (int)getpid(), i);
        assert_int_equal(unlink(path), 0);
    }
    disk_stop();
}

/* The folder that is set is one below the program's own: the files are found from any. */
static void a_program_that_goes_elsewhere(void **state)
{
    (void)state;
    disk_start();
    void *block = unit_malloc(BLOCK_BYTES, NULL);
    sleep_fill(block, BLOCK_BYTES, 7, NULL);
    int here = open(".", O_RDONLY | O_DIRECTORY);
    assert_true(here >= 0);
    assert_ok(tnr_pool_sleep(NULL, 0, &disk));
    assert_int_equal(chdir("/"), 0);
    tnr_status woken = tnr_pool_wake(NULL, 0);
    assert_int_equal(fchdir(here), 0);
    assert_int_equal(close(here), 0);
    assert_ok(woken);
    assert_no_files();
    sleep_check(block, BLOCK_BYTES, 7);
    disk_stop();
}

/* A sleep that is refused has changed nothing. */
static void assert_refused(void *block, tnr_status status, const char *text)
{
    assert_error(tnr_pool_sleep(NULL, 0, &disk), status, text);
    assert_no_files();
    assert_int_equal(sleep_pinned_bytes(), 0);
    assert_true(sleep_device_bytes() > 0);
    sleep_check(block, BLOCK_BYTES, 7);
    (void)unit_stats();
}

static void refused(void **state)
{
    (void)state;
    disk_start();
    void *block = unit_malloc(BLOCK_BYTES, NULL);
    sleep_fill(block, BLOCK_BYTES, 7, NULL);
    assert_ok(tnr_configure("contents_dir:"));
    assert_refused(block, TNR_ERR_INVALID_ARGUMENT, "contents_dir");
    assert_ok(tnr_configure("contents_dir:/no/such/folder"));
    assert_refused(block, TNR_ERR_FILE, "/no/such/folder/tenure-");
    assert_ok(tnr_configure("contents_dir:/proc"));
    assert_refused(block, TNR_ERR_FILE, "Make room");
    assert_error(tnr_block_content_set(block, TNR_CONTENT_DISK), TNR_ERR_INVALID_ARGUMENT, NULL);
    assert_error(tnr_park(NULL, block, NULL, TNR_CONTENT_DISK), TNR_ERR_INVALID_ARGUMENT, NULL);
    disk_stop();
}

/* The disk's room is taken before anything is copied. The process's limit plays the full disk. */
static void no_room(void **state)
{
    (void)state;
    struct rlimit before, less;
    disk_start();
    void *block = unit_malloc(BLOCK_BYTES, NULL);
    sleep_fill(block, BLOCK_BYTES, 7, NULL);
    assert_int_equal(getrlimit(RLIMIT_FSIZE, &before), 0);
    less = before;
    for (size_t part = 1; part <= 10; part += 9) { /* both files are too large; the first is */
        less.rlim_cur = part * MIB / 2;
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &less), 0);
        uint64_t copies = simcuda_calls("cuMemcpyDtoHAsync");
        assert_refused(block, TNR_ERR_FILE, "cannot have the");
        assert_int_equal(simcuda_calls("cuMemcpyDtoHAsync"), copies);
        assert_int_equal(setrlimit(RLIMIT_FSIZE, &before), 0);
    }
    disk_stop();
}

/* Each call of the driver that a sleep to a disk makes fails once: all or nothing. */
static void calls_fail(void **state)
{
    (void)state;
    static const char *const calls[] = {"cuMemcpyDtoHAsync_v2", "cuMemcpyHtoDAsync_v2",
                                        "cuMemUnmap",           "cuMemRelease",
                                        "cuMemCreate",          "cuMemMap"};
    disk_start();
    void *block = unit_malloc(BLOCK_BYTES, NULL);
    sleep_fill(block, BLOCK_BYTES, 7, NULL);
    for (size_t c = 0; c < sizeof(calls) / sizeof(calls[0]); c++)
        for (uint64_t nth = 1; nth <= 2; nth++) {
            simcuda_fail(calls[c], nth, 0, CUDA_ERROR_UNKNOWN);
            if (tnr_pool_sleep(NULL, 0, &disk) == TNR_OK && tnr_pool_wake(NULL, 0) != TNR_OK)
                assert_ok(tnr_pool_wake(NULL, 0));
            simcuda_fail_clear();
            assert_ok(tnr_pool_wake(NULL, 0)); /* where the way back was refused, too */
            assert_no_files();
            sleep_check(block, BLOCK_BYTES, 7);
            (void)unit_stats();
        }
    disk_stop();
}

/* The test's msync: the disk fails at the nth. */
static int syncs_left = -1;
int __real_tnri_host_pages_settle(void *memory, size_t bytes);
int __wrap_tnri_host_pages_settle(void *memory, size_t bytes);
int __wrap_tnri_host_pages_settle(void *memory, size_t bytes)
{
    if (syncs_left > 0 && --syncs_left == 0)
        return EIO;
    return __real_tnri_host_pages_settle(memory, bytes);
}

static void a_disk_that_fails(void **state)
{
    (void)state;
    disk_start();
    void *block = unit_malloc(BLOCK_BYTES, NULL);
    sleep_fill(block, BLOCK_BYTES, 7, NULL);
    for (int nth = 1; nth <= 2; nth++) {
        syncs_left = nth;
        assert_refused(block, TNR_ERR_FILE, "Input/output error");
        assert_int_equal(syncs_left, 0);
    }
    disk_stop();
}

/* What runs last at the exit, so that no sanitizer looks for what the sleep still has. */
static int exit_code;

static void exit_now(void)
{
    _exit(exit_code);
}

/* Ends in its sleep, after a forked child has ended there. */
static void sleep_and_exit(void *data)
{
    size_t bytes;
    (void)data;
    assert_int_equal(atexit(exit_now), 0);
    disk_start();
    (void)unit_malloc(BLOCK_BYTES, NULL);
    assert_ok(tnr_pool_sleep(NULL, 0, &disk));
    assert_int_equal(files_count(&bytes), 2);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0)
        exit(0);
    int status;
    assert_int_equal(waitpid(child, &status, 0), child);
    exit_code = files_count(&bytes) == 2 ? 7 : 1;
    exit(exit_code);
}

static void at_the_exit(void **state)
{
    (void)state;
    assert_int_equal(unit_in_child(sleep_and_exit, NULL, 0), 7);
    assert_no_files();
}

static int folder_make(void **state)
{
    (void)state;
    return mkdtemp(folder) == NULL;
}

static int folder_remove(void **state)
{
    (void)state;
    return rmdir(folder);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(at_the_exit),           /* first: no library has started yet */
        cmocka_unit_test(few_mappings_for_much), /* before others make files smaller */
        cmocka_unit_test_teardown(kept_in_files, unit_stop),
        cmocka_unit_test_teardown(one_sleep_of_all_kinds, unit_stop),
        cmocka_unit_test_teardown(the_ring_stays, unit_stop),
        cmocka_unit_test_teardown(a_name_that_is_taken, unit_stop),
        cmocka_unit_test_teardown(a_program_that_goes_elsewhere, unit_stop),
        cmocka_unit_test_teardown(refused, unit_stop),
        cmocka_unit_test_teardown(no_room, unit_stop),
        cmocka_unit_test_teardown(calls_fail, unit_stop),
        cmocka_unit_test_teardown(a_disk_that_fails, unit_stop),
    };
    return cmocka_run_group_tests(tests, folder_make, folder_remove);
}
