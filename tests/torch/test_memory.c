/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The allocator that PyTorch calls: what it serves, what is raised when it cannot, and the calls
 * beside.
 */
#include "capture/steps.h"
#include "tenure_torch.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

static void serves_on_the_stream(void **state)
{
    (void)state;
    life_start(NULL, NULL, NULL);
    unsigned long failures = tenure_torch_failures();
    tenure_torch_init(1);
    void *block = tenure_torch_malloc(3 * MIB, 0, ORIGIN);
    tnr_block_info info;
    assert_ok(tnr_block_get(&info, block));
    assert_ptr_equal(info.stream, ORIGIN);
    assert_int_equal(info.bytes_requested, 3 * MIB);
    tenure_torch_free(block, 3 * MIB, 0, ORIGIN);
    assert_int_equal(unit_stats().allocation[TNR_WORLD_ALL].current, 0);
    assert_null(tenure_torch_malloc(0, 0, ORIGIN));
    assert_int_equal(tenure_torch_failures(), failures);
}

static void record_stream_keeps_the_block(void **state)
{
    (void)state;
    life_start(NULL, NULL, NULL);
    unsigned long failures = tenure_torch_failures();
    void *block = tenure_torch_malloc(3 * MIB, 0, ORIGIN);
    life_gate_close(0, BRANCH);
    tenure_torch_record_stream((char *)block + MIB, BRANCH);
    tenure_torch_free(block, 3 * MIB, 0, ORIGIN);
    assert_int_equal(unit_stats().bytes_retired, 3 * MIB);
    life_gate_open(0);
    /* Memory of others and tensors without bytes are nothing to keep. */
    int foreign;
    tenure_torch_record_stream(&foreign, BRANCH);
    tenure_torch_record_stream(NULL, BRANCH);
    assert_int_equal(tenure_torch_failures(), failures);
}

static void base_of_a_view(void **state)
{
    (void)state;
    life_start(NULL, NULL, NULL);
    char *block = tenure_torch_malloc(3 * MIB, 0, ORIGIN);
    size_t bytes = 0;
    assert_ptr_equal(tenure_torch_base_alloc(block + MIB, &bytes), block);
    assert_int_equal(bytes, 3 * MIB);
    int foreign;
    bytes = 7;
    assert_ptr_equal(tenure_torch_base_alloc(&foreign, &bytes), &foreign);
    assert_int_equal(bytes, 7);
    assert_null(tenure_torch_base_alloc(NULL, NULL));
    tenure_torch_free(block, 3 * MIB, 0, ORIGIN);
}

static void reset_gives_memory_back(void **state)
{
    (void)state;
    life_start(NULL, NULL, NULL);
    void *kept = tenure_torch_malloc(MIB, 0, ORIGIN);
    tenure_torch_free(tenure_torch_malloc(40 * MIB, 0, ORIGIN), 40 * MIB, 0, ORIGIN);
    assert_true(unit_stats().reserved_bytes.current >= 41 * MIB);
    tenure_torch_reset();
    assert_true(unit_stats().reserved_bytes.current < 10 * MIB);
    tenure_torch_free(kept, MIB, 0, ORIGIN);
}

/* ---- failures ------------------------------------------------------------------------------- */

/* What the functions below were called with; they leave as an exception would. */
static jmp_buf raised;
static char raised_text[4096], raised_by[64];
static int raised_memory;

static void note(const char *function, const char *text, int is_memory)
{
    snprintf(raised_text, sizeof(raised_text), "%s", text);
    snprintf(raised_by, sizeof(raised_by), "%s", function);
    raised_memory = is_memory;
    longjmp(raised, 1);
}

static void raise_memory(const char *function, const char *file, uint32_t line, const char *text)
{
    assert_non_null(strstr(file, "memory.c"));
    assert_true(line > 0);
    note(function, text, 1);
}

static void raise_other(const char *function, const char *file, uint32_t line, const char *text)
{
    (void)file;
    (void)line;
    note(function, text, 0);
}

static void short_memory_is_raised(void **state)
{
    (void)state;
    life_start(NULL, NULL, NULL);
    unsigned long failures = tenure_torch_failures();
    void *kept = tenure_torch_malloc(MIB, 0, ORIGIN);
    tenure_torch_raise_set(raise_memory, raise_other);
    tnr_device_info device = {.struct_bytes = sizeof(device)};
    assert_ok(tnr_device_get(&device, 0));
    tenure_torch_memory_fraction(64.0 * MIB / (double)device.memory_bytes, 0);
    size_t limit;
    assert_ok(tnr_limit_get(&limit, 0));
    assert_true(limit >= 64 * MIB - 1 && limit <= 64 * MIB);
    if (setjmp(raised) == 0) {
        tenure_torch_malloc(65 * MIB, 0, ORIGIN);
        fail();
    }
    assert_true(raised_memory);
    assert_string_equal(raised_by, "tnr_malloc");
    assert_non_null(strstr(raised_text, "CUDA out of memory. Tenure out of memory: "));
    assert_non_null(strstr(raised_text, "limit"));
    tenure_torch_memory_fraction(1, 0);
    assert_ok(tnr_limit_get(&limit, 0));
    assert_int_equal(limit, SIZE_MAX);
    void *served = tenure_torch_malloc(65 * MIB, 0, ORIGIN);
    assert_non_null(served);
    if (setjmp(raised) == 0) {
        tenure_torch_malloc(MIB, 99, ORIGIN);
        fail();
    }
    assert_false(raised_memory);
    assert_null(strstr(raised_text, "out of memory"));
    assert_int_equal(tenure_torch_failures(), failures + 2);
    tenure_torch_raise_set(NULL, NULL);
    tenure_torch_free(served, 65 * MIB, 0, ORIGIN);
    tenure_torch_free(kept, MIB, 0, ORIGIN);
}

/* Destructors free: a free that fails must not throw. */
static void a_failed_free_is_not_raised(void **state)
{
    (void)state;
    life_start(NULL, NULL, NULL);
    unsigned long failures = tenure_torch_failures();
    void *block = tenure_torch_malloc(MIB, 0, ORIGIN);
    tenure_torch_raise_set(raise_memory, raise_other);
    if (setjmp(raised) != 0)
        fail();
    tenure_torch_free(block, MIB, 0, ORIGIN);
    tenure_torch_free(block, MIB, 0, ORIGIN);
    tenure_torch_raise_set(NULL, NULL);
    assert_int_equal(tenure_torch_failures(), failures + 1);
}

static void free_in_child(void *data)
{
    unsigned long failures = tenure_torch_failures();
    tenure_torch_free(data, MIB, 0, ORIGIN);
    if (tenure_torch_failures() != failures || tenure_torch_malloc(MIB, 0, ORIGIN) != NULL)
        _exit(1);
}

/* A forked child has its parent's tensors to destroy, and no CUDA: no word about the former. */
static void a_forked_child(void **state)
{
    (void)state;
    life_start(NULL, NULL, NULL);
    void *block = tenure_torch_malloc(MIB, 0, ORIGIN);
    assert_int_equal(unit_in_child(free_in_child, block, 1), 0);
    tenure_torch_free(block, MIB, 0, ORIGIN);
    assert_int_equal(unit_stats().allocation[TNR_WORLD_ALL].current, 0);
}

static void without_a_way_to_raise(void **state)
{
    (void)state;
    life_start(NULL, NULL, NULL);
    unsigned long failures = tenure_torch_failures();
    assert_null(tenure_torch_malloc((size_t)1 << 50, 0, ORIGIN));
    assert_int_equal(tenure_torch_failures(), failures + 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(serves_on_the_stream, life_stop),
        cmocka_unit_test_teardown(record_stream_keeps_the_block, life_stop),
        cmocka_unit_test_teardown(base_of_a_view, life_stop),
        cmocka_unit_test_teardown(reset_gives_memory_back, life_stop),
        cmocka_unit_test_teardown(short_memory_is_raised, life_stop),
        cmocka_unit_test_teardown(a_failed_free_is_not_raised, life_stop),
        cmocka_unit_test_teardown(a_forked_child, life_stop),
        cmocka_unit_test_teardown(without_a_way_to_raise, life_stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
