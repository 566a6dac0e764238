/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every public function that takes an address, with every kind of address: each pair has its status
 * by the manual, changes nothing, and leaves no lock behind.
 *
 * In tnri_world_find, the block map searched without a look whether the world has the address:
 * no_block_there crashed, with tnr_pool_malloc_at and an address outside the device's range.
 */
#include "../segments/owner.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cuda.h>
#include <tenure/tenure.h>

static tnr_pool apart; /* with memory of its own on `stream`, and nothing live */
static tnr_stream stream, other;
static CUevent event;
static char folder[64];

/* ---- the functions -------------------------------------------------------------------------- */

static tnr_status at_small(void *ptr)
{
    return tnr_pool_malloc_at(ptr, apart, 512, 0, stream);
}

static tnr_status at_large(void *ptr)
{
    return tnr_pool_malloc_at(ptr, apart, TNR_BYTES_MAX, 0, stream);
}

static tnr_status at_too_large(void *ptr)
{
    return tnr_pool_malloc_at(ptr, apart, SIZE_MAX, 0, stream);
}

static tnr_status commit(void *ptr)
{
    return tnr_commit(ptr, 4 * MIB);
}

static tnr_status block_get(void *ptr)
{
    tnr_block_info info;
    return tnr_block_get(&info, ptr);
}

static tnr_status record_use(void *ptr)
{
    return tnr_record_use(ptr, other);
}

static tnr_status record_own(void *ptr)
{
    return tnr_record_use(ptr, stream);
}

static tnr_status record_stream(void *ptr)
{
    return tnr_record_stream(ptr, other);
}

static tnr_status keep_until(void *ptr)
{
    return tnr_keep_until(ptr, event);
}

static tnr_status free_on(void *ptr)
{
    return tnr_free_on(ptr, other);
}

static tnr_status export_create(void *ptr)
{
    tnr_export exported;
    tnr_status status = tnr_export_create(&exported, ptr);
    return status == TNR_OK ? tnr_export_close(exported) : status;
}

static tnr_status export_offer(void *ptr)
{
    tnr_export_name name;
    return tnr_export_offer(&name, ptr);
}

static tnr_status import_get(void *ptr)
{
    tnr_import_info info = {.struct_bytes = sizeof(info)};
    return tnr_import_get(&info, ptr);
}

static tnr_status publish(void *ptr)
{
    tnr_status status = tnr_publish(NULL, "weights", ptr, NULL);
    return status == TNR_OK ? tnr_unpublish("weights") : status;
}

static tnr_status park(void *ptr)
{
    return tnr_park(NULL, ptr, stream, TNR_CONTENT_KEEP);
}

static tnr_status unpark(void *ptr)
{
    return tnr_unpark(ptr, stream);
}

static tnr_status content_set(void *ptr)
{
    return tnr_block_content_set(ptr, TNR_CONTENT_DEFAULT);
}

static tnr_status tag_of(void *ptr)
{
    const char *tag;
    return tnr_tag_of(&tag, ptr);
}

static tnr_status registered(void *ptr)
{
    return tnr_memory_registered(ptr);
}

#define OK TNR_OK
#define FOREIGN TNR_ERR_FOREIGN_POINTER
#define DEAD TNR_ERR_NOT_LIVE
#define INSIDE TNR_ERR_INTERIOR_POINTER
#define NO_SIZE TNR_ERR_INVALID_SIZE
#define NO_ARGUMENT TNR_ERR_INVALID_ARGUMENT

static const struct {
    const char *name;
    tnr_status (*call)(void *ptr);
    tnr_status foreign, dead, inside, null;
} functions[] = {
    {"tnr_free", tnr_free, FOREIGN, DEAD, INSIDE, OK},
    {"tnr_free_on", free_on, FOREIGN, DEAD, INSIDE, OK},
    {"tnr_free_sync", tnr_free_sync, FOREIGN, DEAD, INSIDE, OK},
    {"tnr_commit", commit, FOREIGN, DEAD, INSIDE, NO_ARGUMENT},
    {"tnr_block_get", block_get, FOREIGN, DEAD, OK, FOREIGN},
    {"tnr_memory_registered", registered, FOREIGN, DEAD, OK, FOREIGN},
    {"tnr_pool_malloc_at, 512", at_small, FOREIGN, FOREIGN, FOREIGN, FOREIGN},
    {"tnr_pool_malloc_at, 1 EiB", at_large, FOREIGN, FOREIGN, FOREIGN, FOREIGN},
    {"tnr_pool_malloc_at, SIZE_MAX", at_too_large, NO_SIZE, NO_SIZE, NO_SIZE, NO_SIZE},
    {"tnr_record_use", record_use, FOREIGN, DEAD, OK, NO_ARGUMENT},
    {"tnr_record_use, own stream", record_own, FOREIGN, DEAD, OK, NO_ARGUMENT},
    {"tnr_record_stream", record_stream, FOREIGN, DEAD, OK, NO_ARGUMENT},
    {"tnr_keep_until", keep_until, FOREIGN, DEAD, OK, NO_ARGUMENT},
    {"tnr_export_create", export_create, FOREIGN, DEAD, OK, FOREIGN},
    {"tnr_export_offer", export_offer, FOREIGN, DEAD, OK, FOREIGN},
    {"tnr_publish", publish, FOREIGN, DEAD, OK, FOREIGN},
    {"tnr_import_get", import_get, FOREIGN, FOREIGN, FOREIGN, FOREIGN},
    {"tnr_import_close", tnr_import_close, FOREIGN, FOREIGN, FOREIGN, FOREIGN},
    {"tnr_park", park, FOREIGN, DEAD, INSIDE, FOREIGN},
    {"tnr_unpark", unpark, FOREIGN, DEAD, INSIDE, FOREIGN},
    {"tnr_block_content_set", content_set, FOREIGN, DEAD, OK, FOREIGN},
    {"tnr_tag_of", tag_of, FOREIGN, DEAD, OK, FOREIGN},
};

/* ---- the addresses -------------------------------------------------------------------------- */

static int start(void **state)
{
    (void)state;
    char conf[160];
    CUcontext context;
    snprintf(folder, sizeof(folder), "/tmp/tenure-addresses-XXXXXX");
    assert_non_null(mkdtemp(folder));
    snprintf(conf, sizeof(conf), "control_dir:%s", folder);
    unit_start(conf, "DEVICES=2", NULL);
    stream = unit_stream(0);
    other = unit_stream(0);
    assert_ok(tnr_pool_create(&apart, 0, NULL));
    void *ptr;
    assert_ok(tnr_pool_malloc(&ptr, apart, 4096, 0, stream));
    assert_ok(tnr_free(ptr));
    assert_ok(tnr_pool_malloc(&ptr, apart, 8 * MIB, 0, stream));
    assert_ok(tnr_free(ptr));
    assert_int_equal(cuDevicePrimaryCtxRetain(&context, 0), CUDA_SUCCESS);
    assert_int_equal(cuCtxPushCurrent(context), CUDA_SUCCESS);
    assert_int_equal(cuEventCreate(&event, CU_EVENT_DISABLE_TIMING), CUDA_SUCCESS);
    tnr_moment before = tnr_moment_now();
    assert_int_equal(cuEventRecord(event, other), CUDA_SUCCESS);
    assert_ok(tnr_event_recorded(event, 0, other, before));
    return 0;
}

static int stop(void **state)
{
    char path[96];
    CUcontext context;
    assert_int_equal(cuEventDestroy(event), CUDA_SUCCESS);
    assert_int_equal(cuCtxPopCurrent(&context), CUDA_SUCCESS);
    assert_int_equal(cuDevicePrimaryCtxRelease(0), CUDA_SUCCESS);
    int result = unit_stop(state);
    snprintf(path, sizeof(path), "%s/published", folder);
    (void)rmdir(path);
    (void)rmdir(folder);
    return result;
}

static void differ(const char *name, const char *what, const void *ptr, tnr_status got,
                   tnr_status expected)
{
    if (got != expected)
        fail_msg("%s of %s (%p): %s, not %s: %s", name, what, ptr, tnr_status_name(got),
                 tnr_status_name(expected), tnr_last_error());
}

/* An address at which no block can be: of nothing of Tenure's, or of nothing that is live. Every
 * call is refused with one of two statuses, and changes nothing. */
static void all_refuse(const char *what, uintptr_t address, int is_foreign)
{
    void *ptr = (void *)address;
    for (size_t f = 0; f < sizeof(functions) / sizeof(functions[0]); f++) {
        tnr_stats before = unit_stats();
        tnr_status expected = is_foreign ? functions[f].foreign : functions[f].dead;
        if (ptr == NULL)
            expected = functions[f].null;
        if (strncmp(functions[f].name, "tnr_pool_malloc_at", 18) == 0 &&
            address % TNR_ALIGNMENT_DEFAULT != 0)
            expected = TNR_ERR_INVALID_ALIGNMENT;
        differ(functions[f].name, what, ptr, functions[f].call(ptr), expected);
        tnr_stats after = unit_stats();
        if (memcmp(&before, &after, offsetof(tnr_stats, driver_calls)) != 0)
            fail_msg("%s of %s (%p) changed the statistics", functions[f].name, what, ptr);
    }
}

/* ---- the tests ------------------------------------------------------------------------------ */

static void of_others(void **state)
{
    (void)state;
    int on_stack = 0;
    void *on_heap = malloc(4096);
    CUdeviceptr driver;
    tnr_device_info device = {.struct_bytes = sizeof(device)};
    assert_ok(tnr_device_get(&device, 0));
    uintptr_t base = device.address_base, end = base + device.address_bytes;
    assert_int_equal(cuMemAlloc(&driver, MIB), CUDA_SUCCESS);
    all_refuse("null", 0, 1);
    all_refuse("a small number", 1, 1);
    all_refuse("another small number", 512, 1);
    all_refuse("the stack", (uintptr_t)&on_stack, 1);
    all_refuse("the heap", (uintptr_t)on_heap, 1);
    all_refuse("the heap, aligned", ((uintptr_t)on_heap + 511) & ~(uintptr_t)511, 1);
    all_refuse("cuMemAlloc", (uintptr_t)driver, 1);
    all_refuse("the byte before the range", base - 1, 1);
    all_refuse("just before the range", base - 512, 1);
    all_refuse("the end of the range", end, 1);
    all_refuse("just behind the range", end + 512, 1);
    all_refuse("the first address that is none", (uintptr_t)1 << 47, 1);
    all_refuse("the middle of all", (uintptr_t)1 << 63, 1);
    all_refuse("the last 512", UINTPTR_MAX - 511, 1);
    all_refuse("the last byte", UINTPTR_MAX, 1);
    all_refuse("a high one", 0x7f0000000000, 1);
    assert_int_equal(cuMemFree(driver), CUDA_SUCCESS);
    free(on_heap);
}

static void no_block_there(void **state)
{
    (void)state;
    tnr_device_info device = {.struct_bytes = sizeof(device)};
    assert_ok(tnr_device_get(&device, 0));
    uintptr_t end = device.address_base + device.address_bytes;
    all_refuse("the last byte of the range", end - 1, 0);
    all_refuse("the last 512 of the range", end - 512, 0);
    all_refuse("the middle of the range", end - device.address_bytes / 4, 0);
    static const size_t sizes[] = {600, 5 * MIB};
    for (int i = 0; i < 2; i++) {
        char *block = unit_malloc(sizes[i], stream), *freed = unit_malloc(sizes[i], stream);
        char *above = unit_malloc(sizes[i], stream);
        tnr_block_info info;
        assert_ok(tnr_block_get(&info, freed));
        assert_ok(tnr_free(freed));
        all_refuse("a freed block", (uintptr_t)freed, 0);
        all_refuse("the inside of a freed block", (uintptr_t)freed + 512, 0);
        all_refuse("the byte behind a block", (uintptr_t)block + info.bytes, 0);
        all_refuse("the byte before a block", (uintptr_t)above - 1, 0);
        assert_ok(tnr_free(block));
        assert_ok(tnr_free(above));
        assert_ok(tnr_trim(NULL, 0, 0));
        all_refuse("a hole", (uintptr_t)freed, 0);
        all_refuse("the inside of a hole", (uintptr_t)freed + 513, 0);
    }
    tnr_pool pool;
    void *gone;
    assert_ok(tnr_pool_create(&pool, 0, NULL));
    assert_ok(tnr_pool_malloc(&gone, pool, MIB, 0, stream));
    assert_ok(tnr_free(gone));
    assert_ok(tnr_pool_destroy(pool));
    all_refuse("a pool that has ended", (uintptr_t)gone, 0);
}

static void inside_a_block(void **state)
{
    (void)state;
    static const size_t sizes[] = {600, 5 * MIB};
    for (int i = 0; i < 2; i++) {
        char *block = unit_malloc(sizes[i], stream);
        static const size_t places[] = {1, 512, 599};
        for (size_t f = 0; f < sizeof(functions) / sizeof(functions[0]); f++)
            for (int p = 0; p < 3; p++) {
                tnr_status expected = functions[f].inside;
                if (places[p] != 512 && strncmp(functions[f].name, "tnr_pool_malloc_at", 18) == 0)
                    expected = TNR_ERR_INVALID_ALIGNMENT;
                differ(functions[f].name, "the inside of a block", block + places[p],
                       functions[f].call(block + places[p]), expected);
            }
        assert_ok(tnr_free(block));
    }
}

/* Memory of other kinds: what lies in it and is no block is refused as elsewhere. */
static void in_memory_of_all_kinds(void **state)
{
    (void)state;
    tnr_pool pool;
    char *ptr;
    assert_ok(tnr_configure("guard:on"));
    assert_ok(tnr_malloc((void **)&ptr, 5000, 0, stream));
    assert_ok(tnr_configure("guard:off"));
    all_refuse("a guard page", ((uintptr_t)ptr + 5000 + 2 * MIB - 1) & ~(2 * MIB - 1), 0);
    assert_ok(tnr_free(ptr));

    assert_ok(tnr_reserve((void **)&ptr, 64 * MIB, 0, stream));
    all_refuse("reserved addresses", (uintptr_t)ptr + 4 * MIB, 0);
    assert_ok(tnr_commit(ptr, MIB));
    all_refuse("reserved addresses behind what is committed", (uintptr_t)ptr + 4 * MIB, 0);
    assert_ok(tnr_free(ptr));

    assert_ok(tnr_pool_create(&pool, 0, NULL));
    assert_ok(tnr_pool_malloc((void **)&ptr, pool, 3 * MIB, 0, stream));
    assert_ok(tnr_pool_sleep(pool, 0, NULL));
    all_refuse("a pool that sleeps", (uintptr_t)ptr + 3 * MIB, 0);
    assert_ok(tnr_free(ptr));
    all_refuse("a block freed in its sleep", (uintptr_t)ptr, 0);
    assert_ok(tnr_pool_destroy(pool));

    pool = owner_pool();
    assert_ok(tnr_pool_malloc((void **)&ptr, pool, 3 * MIB, 0, stream));
    all_refuse("a foreign segment", (uintptr_t)ptr + 3 * MIB, 0);
    tnr_block_info info;
    assert_ok(tnr_block_get(&info, ptr));
    all_refuse("the end of a foreign segment", (uintptr_t)info.segment + info.segment_bytes, 1);
    assert_ok(tnr_free(ptr));
    assert_ok(tnr_pool_trim(NULL, pool, 0, 0));
    all_refuse("a segment that was given back", (uintptr_t)ptr, 1);
    assert_ok(tnr_pool_destroy(pool));
}

/* An import is no block, wherever it begins; nor is anything behind it. */
static void in_an_import(void **state)
{
    (void)state;
    int sockets[2];
    tnr_export exported;
    tnr_import_info info = {.struct_bytes = sizeof(info)};
    void *block = unit_malloc(3 * MIB, stream);
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, sockets), 0);
    assert_ok(tnr_export_create(&exported, block));
    assert_ok(tnr_export_send(exported, sockets[0]));
    assert_ok(tnr_import_receive(&info, sockets[1], 0, NULL));
    for (size_t f = 0; f < sizeof(functions) / sizeof(functions[0]); f++)
        if (strncmp(functions[f].name, "tnr_import", 10) != 0)
            differ(functions[f].name, "an import", info.ptr, functions[f].call(info.ptr),
                   functions[f].foreign);
    all_refuse("behind an import", (uintptr_t)info.ptr + 512 * MIB, 1);
    assert_error(tnr_import_close((char *)info.ptr + 512), FOREIGN, "no import");
    assert_ok(tnr_import_close(info.ptr));
    assert_ok(tnr_export_close(exported));
    assert_ok(tnr_free(block));
    (void)close(sockets[0]);
    (void)close(sockets[1]);
}

/* Where the pool has memory of the stream: only what is free and mapped is handed out, and only
 * where all of it is. */
static void at_an_address_of_the_pool(void **state)
{
    (void)state;
    tnr_pool pool;
    char *ptr;
    assert_ok(tnr_pool_create(&pool, 0, NULL));
    assert_ok(tnr_pool_malloc((void **)&ptr, pool, 8 * MIB, 0, stream));
    static const size_t large[] = {8 * MIB, 9 * MIB, 64 * MIB, TNR_BYTES_MAX};
    for (size_t i = 0; i < 4; i++) {
        assert_error(tnr_pool_malloc_at(ptr, pool, large[i], 0, stream), TNR_ERR_BUSY, NULL);
        assert_error(tnr_pool_malloc_at(ptr, pool, large[i], 0, other), FOREIGN, NULL);
        assert_error(tnr_pool_malloc_at(ptr, pool, large[i], 1, stream), TNR_ERR_INVALID_DEVICE,
                     NULL);
    }
    assert_ok(tnr_free(ptr));
    assert_error(tnr_pool_malloc_at(ptr, pool, 1000 * MIB, 0, stream), TNR_ERR_BUSY, NULL);
    assert_error(tnr_pool_malloc_at(ptr + 64 * MIB, pool, 8 * MIB, 0, stream), TNR_ERR_BUSY, NULL);
    assert_error(tnr_pool_malloc_at(ptr, pool, 512, 0, stream), FOREIGN, NULL);
    assert_ok(tnr_pool_malloc_at(ptr + MIB, pool, 3 * MIB, 0, stream));
    assert_ok(tnr_free(ptr + MIB));
    assert_ok(tnr_pool_destroy(pool));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(of_others, start, stop),
        cmocka_unit_test_setup_teardown(no_block_there, start, stop),
        cmocka_unit_test_setup_teardown(inside_a_block, start, stop),
        cmocka_unit_test_setup_teardown(in_memory_of_all_kinds, start, stop),
        cmocka_unit_test_setup_teardown(in_an_import, start, stop),
        cmocka_unit_test_setup_teardown(at_an_address_of_the_pool, start, stop),
    };
    return cmocka_run_group_tests_name("addresses", tests, NULL, NULL);
}
