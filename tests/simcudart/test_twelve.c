/* SPDX-License-Identifier: Apache-2.0 */
/*
 * libcudart.so.12: calls that have another form there than in libcudart.so.13, as a program of
 * CUDA 12 makes them. They are looked up, since the headers are of CUDA 13.
 *
 * Each was taken back once: with the pointer's attributes or the properties as CUDA 13 has them, a
 * prefetch whose device is taken for flags, and edges that are not added, the test of that subject
 * failed.
 */
#include <dlfcn.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static void *runtime;

static void *look(const char *name)
{
    void *found = dlvsym(runtime, name, "libcudart.so.12");
    if (found == NULL)
        print_error("%s is not there\n", name);
    assert_non_null(found);
    return found;
}

#define CALL(result, name, ...)                                                                    \
    do {                                                                                           \
        int (*function)(__VA_ARGS__) = NULL;                                                       \
        void *symbol = look(name);                                                                 \
        memcpy(&function, &symbol, sizeof(symbol));                                                \
        result;                                                                                    \
    } while (0)

#define OK(...) assert_int_equal(function(__VA_ARGS__), 0)

static void test_version(void **state)
{
    (void)state;
    int version = 0;
    CALL(OK(&version), "cudaRuntimeGetVersion", int *);
    assert_int_equal(version / 1000, 12);
}

/* The structure ends where CUDA 12's does: what is behind it stays. */
static void test_pointer(void **state)
{
    (void)state;
    struct {
        int type, device;
        void *on_device, *on_host;
        unsigned char behind[64];
    } what;
    void *block = NULL;
    memset(&what, 0x5a, sizeof(what));
    CALL(OK(&block, 64), "cudaMalloc", void **, size_t);
    CALL(OK(&what, block), "cudaPointerGetAttributes", void *, const void *);
    assert_int_equal(what.type, 2);
    assert_ptr_equal(what.on_device, block);
    for (size_t i = 0; i < sizeof(what.behind); i++)
        assert_int_equal(what.behind[i], 0x5a);
    CALL(OK(block), "cudaFree", void *);
}

static void test_properties(void **state)
{
    (void)state;
    enum { BYTES = 1032, AT_WARP = 308, AT_CLOCK = 348, AT_MAJOR = 360, AT_COUNT = 388 };
    static unsigned char prop[BYTES + 64];
    int value = 0;
    memset(prop, 0x5a, sizeof(prop));
    CALL(OK(prop, 0), "cudaGetDeviceProperties_v2", void *, int);
    memcpy(&value, prop + AT_WARP, sizeof(value));
    assert_int_equal(value, 32);
    memcpy(&value, prop + AT_MAJOR, sizeof(value));
    assert_int_equal(value, 9);
    memcpy(&value, prop + AT_COUNT, sizeof(value));
    assert_int_equal(value, 132);
    memcpy(&value, prop + AT_CLOCK, sizeof(value)); /* which CUDA 13 has no property for */
    assert_int_equal(value, 1980000);
    assert_int_equal(prop[BYTES], 0x5a);
}

static void test_managed(void **state)
{
    (void)state;
    void *block = NULL;
    CALL(OK(&block, 64, 1), "cudaMallocManaged", void **, size_t, unsigned);
    CALL(OK(block, 64, 0, NULL), "cudaMemPrefetchAsync", const void *, size_t, int, void *);
    CALL(OK(block, 64, -1, NULL), "cudaMemPrefetchAsync", const void *, size_t, int, void *);
    CALL(OK(block, 64, 1, 0), "cudaMemAdvise", const void *, size_t, int, int);
    CALL(OK(block), "cudaFree", void *);
}

static void test_edges(void **state)
{
    (void)state;
    void *graph = NULL, *first = NULL, *second = NULL, *from = NULL, *to = NULL;
    size_t count = 1;
    CALL(OK(&graph, 0), "cudaGraphCreate", void **, unsigned);
    CALL(OK(&first, graph, NULL, 0), "cudaGraphAddEmptyNode", void **, void *, void *, size_t);
    CALL(OK(&second, graph, NULL, 0), "cudaGraphAddEmptyNode", void **, void *, void *, size_t);
    CALL(OK(graph, &first, &second, 1), "cudaGraphAddDependencies", void *, void **, void **,
         size_t);
    CALL(OK(graph, &from, &to, &count), "cudaGraphGetEdges", void *, void **, void **, size_t *);
    assert_int_equal(count, 1);
    assert_ptr_equal(from, first);
    assert_ptr_equal(to, second);
    CALL(OK(graph, NULL, NULL, NULL, &count), "cudaGraphGetEdges_v2", void *, void **, void **,
         void *, size_t *);
    assert_int_equal(count, 1);
    CALL(OK(graph), "cudaGraphDestroy", void *);
}

int main(int argc, char **argv)
{
    assert_int_equal(argc, 2);
    runtime = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    if (runtime == NULL)
        print_error("%s\n", dlerror());
    assert_non_null(runtime);
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_version),    cmocka_unit_test(test_pointer),
        cmocka_unit_test(test_properties), cmocka_unit_test(test_managed),
        cmocka_unit_test(test_edges),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
