/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Kernels and variables of a program: what nvcc leaves of them, as played.c plays it.
 *
 * Each was taken back once: with the highest architecture chosen rather than the device's own, no
 * check of a host version's parameters, plain names for templates too, an unknown kernel without
 * accesses, the end of a range counted as touched, variables without their contents, a reset that
 * does not wait, code packed by LZ4 left out, a kernel node's function as the driver has it,
 * functions found by handles of contexts that are over, the device's architecture given as that of
 * the code, and machine code by itself not read, the test of that subject failed. With names
 * read from sections that have no contents in the file, test_broken_code does not end.
 */
#include "program.h"

#include <elf.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "tenure/simcuda.h"

#define OK(call) assert_int_equal(call, cudaSuccess)

static const void *entry_of(void (*entry)(void))
{
    const void *host = NULL;
    memcpy(&host, &entry, sizeof(host));
    return host;
}

static int reset(void **state)
{
    (void)state;
    unsetenv("TENURE_SIM_KERNELS");
    (void)cudaGetLastError();
    OK(cudaDeviceReset());
    assert_int_equal(simcuda_violations(), 0);
    return 0;
}

/* ---- kernels -------------------------------------------------------------------------------- */

static void run_add(void *const *params)
{
    float *a = NULL;
    const float *b = NULL;
    int n = 0;
    memcpy(&a, params[0], sizeof(a));
    memcpy(&b, params[1], sizeof(b));
    memcpy(&n, params[2], sizeof(n));
    for (int i = 0; i < n; i++)
        a[i] += b[i];
}

static void run_nothing(void *const *params)
{
    (void)params;
    fail(); /* no kernel may lead here */
}

/* Without a host version it does nothing; with one, from the next context on, it runs. */
static void test_host_version(void **state)
{
    (void)state;
    const size_t sizes[] = {8, 8, 4};
    float *a = NULL, *b = NULL, host[4] = {1, 2, 3, 4}, answer[4];
    int n = 4;
    void *parameters[] = {&a, &b, &n};
    for (int round = 0; round < 2; round++) {
        OK(cudaMalloc((void **)&a, sizeof(host)));
        OK(cudaMalloc((void **)&b, sizeof(host)));
        OK(cudaMemcpy(a, host, sizeof(host), cudaMemcpyHostToDevice));
        OK(cudaMemcpy(b, host, sizeof(host), cudaMemcpyHostToDevice));
        OK(program_launch(entry_add, 4, 0, NULL, parameters));
        OK(cudaMemcpy(answer, a, sizeof(answer), cudaMemcpyDeviceToHost));
        assert_true(answer[3] == (round == 0 ? 4.0F : 8.0F));
        OK(cudaDeviceReset());
        /* Its name as it stands in the source is enough. */
        assert_int_equal(simcuda_kernel_register("add", 3, sizes, run_add, NULL), 0);
    }
}

/* A template has several kernels of one plain name: only the whole name says which. */
static void test_template(void **state)
{
    (void)state;
    const size_t sizes[] = {8, 4, 4};
    void *block = NULL;
    int value = 0, n = 0;
    void *parameters[] = {&block, &value, &n};
    assert_int_equal(simcuda_kernel_register("fill", 3, sizes, run_nothing, NULL), 0);
    OK(program_launch(entry_fill, 32, 0, NULL, parameters));
    OK(cudaDeviceSynchronize());
}

static void test_refused_launches(void **state)
{
    (void)state;
    const size_t others[] = {8, 8};
    void *block = NULL, *parameters[] = {&block, &block};
    dim3 one = {1, 1, 1}, many = {1025, 1, 1};
    assert_int_equal(cudaLaunchKernel(entry_of(entry_unknown), one, many, parameters, 0, NULL),
                     cudaErrorInvalidConfiguration);
    assert_int_equal(cudaLaunchKernel(&block, one, one, parameters, 0, NULL),
                     cudaErrorInvalidDeviceFunction);
    assert_int_equal(program_launch(entry_bounded, 65, 0, NULL, NULL),
                     cudaErrorLaunchOutOfResources);
    OK(program_launch(entry_bounded, 64, 47 << 10, NULL, NULL));
    assert_int_equal(program_launch(entry_bounded, 64, 48 << 10, NULL, NULL),
                     cudaErrorInvalidValue);
    OK(cudaFuncSetAttribute(entry_of(entry_bounded), cudaFuncAttributeMaxDynamicSharedMemorySize,
                            100 << 10));
    OK(program_launch(entry_bounded, 64, 100 << 10, NULL, NULL));
    assert_int_equal(program_launch(entry_lost, 1, 0, NULL, parameters),
                     cudaErrorNoKernelImageForDevice);
    setenv("TENURE_SIM_KERNELS", "known", 1);
    assert_int_equal(program_launch(entry_unknown, 1, 0, NULL, parameters),
                     cudaErrorInvalidDeviceFunction);
    unsetenv("TENURE_SIM_KERNELS");
    OK(program_launch(entry_unknown, 1, 0, NULL, parameters));
    OK(cudaDeviceReset());
    assert_int_equal(simcuda_kernel_register("bounded", 2, others, run_nothing, NULL), 0);
    assert_int_equal(program_launch(entry_bounded, 64, 0, NULL, NULL),
                     cudaErrorInvalidDeviceFunction);
}

/* What the machine code says of a kernel: of the device's own architecture, if it has more. */
static void test_attributes(void **state)
{
    (void)state;
    struct cudaFuncAttributes attributes;
    int blocks = 0;
    size_t offset = 0, bytes = 0;
    const char *name = NULL;
    OK(cudaFuncGetAttributes(&attributes, entry_of(entry_bounded)));
    assert_int_equal(attributes.maxThreadsPerBlock, 64);
    assert_int_equal(attributes.sharedSizeBytes, 1024);
    assert_int_equal(attributes.numRegs, 255);
    OK(cudaFuncGetParamInfo(entry_of(entry_add), 2, &offset, &bytes));
    assert_int_equal(offset, 16);
    assert_int_equal(bytes, 4);
    OK(cudaFuncGetName(&name, entry_of(entry_add)));
    assert_string_equal(name, "_Z3addPfPKfi");
    /* 2,048 threads; 255 registers make 8 warps; 227 KiB of shared memory. */
    OK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, entry_of(entry_add), 256, 0));
    assert_int_equal(blocks, 8);
    OK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, entry_of(entry_bounded), 64, 0));
    assert_int_equal(blocks, 4);
    OK(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, entry_of(entry_add), 32, 100 << 10));
    assert_int_equal(blocks, 2);
}

/* ---- what an unknown kernel touches --------------------------------------------------------- */

static uint64_t races_of(char *block, char *end, int is_ordered)
{
    cudaStream_t first = NULL, second = NULL;
    cudaEvent_t event = NULL;
    void *parameters[] = {&block, &end};
    OK(cudaStreamCreateWithFlags(&first, cudaStreamNonBlocking));
    OK(cudaStreamCreateWithFlags(&second, cudaStreamNonBlocking));
    OK(cudaEventCreateWithFlags(&event, cudaEventDisableTiming));
    simcuda_races_clear();
    OK(cudaMemsetAsync(end, 1, 1, first));
    OK(cudaMemsetAsync(block, 1, 256, first));
    if (is_ordered) {
        OK(cudaEventRecord(event, first));
        OK(cudaStreamWaitEvent(second, event, 0));
    }
    OK(program_launch(entry_unknown, 1, 0, second, parameters));
    OK(cudaDeviceSynchronize());
    OK(cudaEventDestroy(event));
    OK(cudaStreamDestroy(first));
    OK(cudaStreamDestroy(second));
    return simcuda_races();
}

static void test_unknown_reads(void **state)
{
    (void)state;
    char *block = NULL;
    OK(cudaMalloc((void **)&block, 1024));
    assert_int_equal(simcuda_races_enable(1), 0);
    simcuda_races_callback(NULL, NULL);
    assert_int_equal(races_of(block, block + 512, 1), 0);
    /* The second may be where the range of the first ends: it counts as nothing. */
    assert_int_equal(races_of(block, block + 512, 0), 1);
    assert_int_equal(simcuda_races_enable(0), 0);
    OK(cudaFree(block));
}

/* ---- variables ------------------------------------------------------------------------------ */

static void test_variables(void **state)
{
    (void)state;
    float scale[4];
    char zeros[64];
    int counter = 0;
    void *address = NULL;
    size_t bytes = 0;
    for (int round = 0; round < 2; round++) { /* after a reset they are as at first */
        OK(cudaMemcpyFromSymbol(&counter, &shadow_counter, sizeof(counter), 0,
                                cudaMemcpyDeviceToHost));
        assert_int_equal(counter, 7);
        OK(cudaMemcpyFromSymbol(scale, &shadow_scale, sizeof(scale), 0, cudaMemcpyDefault));
        assert_true(scale[3] == 4.0F);
        counter = 8;
        OK(cudaMemcpyToSymbol(&shadow_counter, &counter, sizeof(counter), 0,
                              cudaMemcpyHostToDevice));
        OK(cudaDeviceReset());
    }
    OK(cudaGetSymbolAddress(&address, &shadow_zeros));
    OK(cudaGetSymbolSize(&bytes, &shadow_zeros));
    assert_int_equal(bytes, 64);
    OK(cudaMemcpy(zeros, address, sizeof(zeros), cudaMemcpyDeviceToHost));
    assert_int_equal(zeros[63], 0);
    assert_int_equal(cudaMemcpyToSymbol(&shadow_zeros, zeros, 64, 1, cudaMemcpyHostToDevice),
                     cudaErrorInvalidValue);
    assert_int_equal(cudaGetSymbolSize(&bytes, zeros), cudaErrorInvalidSymbol);
    assert_int_equal(cudaMemcpyToSymbol(&shadow_zeros, zeros, 8, 0, cudaMemcpyDeviceToHost),
                     cudaErrorInvalidMemcpyDirection);
}

/* The host reads a managed variable through a pointer that is there before main. */
static void test_managed_variable(void **state)
{
    (void)state;
    assert_non_null(managed_pointer);
    memset(managed_pointer, 3, 16);
    assert_int_equal(((char *)managed_pointer)[15], 3);
}

/* ---- graphs --------------------------------------------------------------------------------- */

static void test_kernel_node(void **state)
{
    (void)state;
    cudaGraph_t graph = NULL;
    cudaGraphNode_t node = NULL;
    cudaGraphExec_t exec = NULL;
    void *block = NULL, *parameters[] = {&block, &block};
    struct cudaKernelNodeParams params = {.func = (void *)(uintptr_t)entry_of(entry_unknown),
                                          .gridDim = {2, 1, 1},
                                          .blockDim = {32, 1, 1},
                                          .kernelParams = parameters};
    struct cudaKernelNodeParams answer;
    OK(cudaGraphCreate(&graph, 0));
    OK(cudaGraphAddKernelNode(&node, graph, NULL, 0, &params));
    OK(cudaGraphKernelNodeGetParams(node, &answer));
    assert_ptr_equal(answer.func, params.func);
    assert_int_equal(answer.gridDim.x, 2);
    OK(cudaGraphInstantiate(&exec, graph, 0));
    OK(cudaGraphLaunch(exec, NULL));
    OK(cudaDeviceSynchronize());
    params.gridDim.x = 0;
    assert_int_equal(cudaGraphExecKernelNodeSetParams(exec, node, &params),
                     cudaErrorInvalidConfiguration);
    OK(cudaGraphExecDestroy(exec));
    OK(cudaGraphDestroy(graph));
}

/* ---- code that is loaded -------------------------------------------------------------------- */

/* A library's kernels run as those of the program do, and its variables are its own. */
static void library_use(const void *code)
{
    cudaLibrary_t library = NULL, gone = NULL;
    cudaKernel_t add = NULL, all[4] = {NULL};
    unsigned count = 0;
    float *block = NULL, *other = NULL, answer[4];
    int *number = NULL, value = 0, steps = 4;
    size_t bytes = 0;
    OK(cudaLibraryLoadData(&library, code, NULL, NULL, 0, NULL, NULL, 0));
    OK(cudaLibraryGetKernelCount(&count, library));
    assert_int_equal(count, 2);
    OK(cudaLibraryEnumerateKernels(all, 4, library));
    assert_null(all[2]);
    OK(cudaLibraryGetKernel(&add, library, "_Z3addPfPKfi"));
    assert_true(add == all[0] || add == all[1]);
    assert_int_equal(cudaLibraryGetKernel(&add, library, "none"), cudaErrorSymbolNotFound);
    OK(cudaMalloc((void **)&block, 16));
    OK(cudaMalloc((void **)&other, 16));
    for (int i = 0; i < 4; i++)
        answer[i] = (float)i;
    OK(cudaMemcpy(block, answer, 16, cudaMemcpyHostToDevice));
    OK(cudaMemcpy(other, answer, 16, cudaMemcpyHostToDevice));
    void *parameters[] = {&block, &other, &steps};
    OK(cudaLaunchKernel((const void *)add, (dim3){1, 1, 1}, (dim3){4, 1, 1}, parameters, 0, NULL));
    OK(cudaMemcpy(answer, block, 16, cudaMemcpyDeviceToHost));
    assert_true(answer[3] == 6);
    OK(cudaLibraryGetGlobal((void **)&number, &bytes, library, "counter"));
    assert_int_equal(bytes, 4);
    OK(cudaMemcpy(&value, number, 4, cudaMemcpyDeviceToHost));
    assert_int_equal(value, 11);
    assert_int_equal(cudaLibraryGetGlobal(NULL, NULL, library, "none"), cudaErrorSymbolNotFound);
    OK(cudaFree(block));
    OK(cudaFree(other));
    gone = library;
    OK(cudaLibraryUnload(library));
    assert_int_equal(cudaLibraryUnload(gone), cudaErrorInvalidResourceHandle);
    assert_int_equal(cudaLibraryGetKernelCount(&count, gone), cudaErrorInvalidResourceHandle);
    (void)cudaGetLastError();
}

static void test_library(void **state)
{
    (void)state;
    static const int eleven = 11;
    static unsigned char image[PLAYED_BYTES];
    static _Alignas(16) unsigned char fatbin[2 * PLAYED_BYTES];
    const played_kernel kernels[] = {{"_Z3addPfPKfi", 3, {8, 8, 4}, 10, 64, 128},
                                     {"_Z7anotherv", 0, {0}, 10, 0, 0}};
    const played_variable variable = {"counter", 4, &eleven, 0};
    size_t bytes = played_cubin(image, kernels, 2, &variable, 1);
    unsigned char *code = malloc(bytes); /* so that reading beyond it is seen */
    assert_non_null(code);
    memcpy(code, image, bytes);
    library_use(code);
    const played_entry entry = {2, 90, 0x11, image, bytes, 0};
    (void)played_fatbin(fatbin, sizeof(fatbin), &entry, 1);
    library_use(fatbin);
    const played_wrapper wrapper = {0x466243b1, 1, fatbin, NULL};
    library_use(&wrapper);
    free(code);
}

static void test_library_refused(void **state)
{
    (void)state;
    cudaLibrary_t library = NULL;
    static _Alignas(16) unsigned char fatbin[PLAYED_BYTES];
    const played_entry text = {1, 90, 0x11, ".version 9.0", 13, 0};
    (void)played_fatbin(fatbin, sizeof(fatbin), &text, 1);
    assert_int_equal(cudaLibraryLoadData(&library, fatbin, NULL, NULL, 0, NULL, NULL, 0),
                     cudaErrorNoKernelImageForDevice);
    assert_int_equal(
        cudaLibraryLoadData(&library, ".version 9.0\n.target sm_90", NULL, NULL, 0, NULL, NULL, 0),
        cudaErrorJitCompilerNotFound);
    assert_int_equal(cudaLibraryLoadData(&library, "something", NULL, NULL, 0, NULL, NULL, 0),
                     cudaErrorInvalidKernelImage);
    assert_int_equal(
        cudaLibraryLoadFromFile(&library, "/nowhere/code", NULL, NULL, 0, NULL, NULL, 0),
        cudaErrorFileNotFound);
    assert_null(library);
    (void)cudaGetLastError();
}

/* A file that a full disk, or a copy that was stopped, has left without its end. */
static void test_library_cut_short(void **state)
{
    (void)state;
    static unsigned char image[PLAYED_BYTES];
    static _Alignas(16) unsigned char fatbin[2 * PLAYED_BYTES];
    const played_kernel kernel = {"_Z3addPfPKfi", 3, {8, 8, 4}, 10, 64, 128};
    size_t bytes = played_cubin(image, &kernel, 1, NULL, 0);
    const played_entry entry = {2, 90, 0x11, image, bytes, 0};
    const void *const codes[] = {image, fatbin};
    const size_t sizes[] = {bytes, played_fatbin(fatbin, sizeof(fatbin), &entry, 1)};
    for (int i = 0; i < 2; i++)
        for (size_t missing = 0; missing < 200; missing += 100) {
            char path[] = "simcudart_cut_XXXXXX";
            cudaLibrary_t library = NULL;
            int file = mkstemp(path);
            assert_true(file >= 0);
            assert_int_equal(write(file, codes[i], sizes[i] - missing), sizes[i] - missing);
            assert_int_equal(close(file), 0);
            cudaError_t error =
                cudaLibraryLoadFromFile(&library, path, NULL, NULL, 0, NULL, NULL, 0);
            assert_int_equal(unlink(path), 0);
            assert_int_equal(error, missing == 0 ? cudaSuccess : cudaErrorInvalidKernelImage);
            if (missing == 0)
                OK(cudaLibraryUnload(library));
        }
    (void)cudaGetLastError();
}

/* What a kernel was compiled for is what its code says, and what it runs as is the device's: CUB
 * looks up by the first how it launches, and refuses where the program was not built for that. */
static void test_compiled_for(void **state)
{
    (void)state;
    static unsigned char image[PLAYED_BYTES];
    static _Alignas(16) unsigned char fatbin[2 * PLAYED_BYTES];
    const played_kernel kernel = {"_Z3addPfPKfi", 3, {8, 8, 4}, 10, 64, 128};
    size_t bytes = played_cubin(image, &kernel, 1, NULL, 0);
    char entry_here = 0;
    const played_entry entry = {2, 80, 0x11, image, bytes, 0};
    (void)played_fatbin(fatbin, sizeof(fatbin), &entry, 1);
    played_wrapper wrapper = {0x466243b1, 1, fatbin, NULL};
    void **binary = __cudaRegisterFatBinary(&wrapper);
    __cudaRegisterFunction(binary, &entry_here, &entry_here, kernel.name, -1, NULL, NULL, NULL,
                           NULL, NULL);
    struct cudaFuncAttributes attributes;
    OK(cudaFuncGetAttributes(&attributes, &entry_here));
    assert_int_equal(attributes.ptxVersion, 80);
    assert_int_equal(attributes.binaryVersion, 90);
    __cudaUnregisterFatBinary(binary);
}

/* ---- broken code ---------------------------------------------------------------------------- */

/* Compressed code is read; whatever is cut off of it leaves none. */
static void test_packed_code(void **state)
{
    (void)state;
    static unsigned char image[PLAYED_BYTES], packed[2 * PLAYED_BYTES];
    static _Alignas(16) unsigned char fatbin[2 * PLAYED_BYTES];
    enum { TAIL = 19 + 255 };
    const played_kernel kernel = {"_Z3addPfPKfi", 3, {8, 8, 4}, 10, 64, 128};
    size_t bytes = played_cubin(image, &kernel, 1, NULL, 0);
    size_t packed_bytes = played_pack(packed, image, bytes);
    for (size_t cut = 0; cut <= packed_bytes; cut += cut < 16 ? 1 : 97) {
        char entry_here = 0;
        const played_entry entry = {2, 90, 0x2011, packed, packed_bytes - cut, bytes + TAIL};
        (void)played_fatbin(fatbin, sizeof(fatbin), &entry, 1);
        played_wrapper wrapper = {0x466243b1, 1, fatbin, NULL};
        void **binary = __cudaRegisterFatBinary(&wrapper);
        __cudaRegisterFunction(binary, &entry_here, &entry_here, kernel.name, -1, NULL, NULL, NULL,
                               NULL, NULL);
        struct cudaFuncAttributes attributes;
        OK(cudaFuncGetAttributes(&attributes, &entry_here));
        assert_int_equal(attributes.numRegs, cut <= 2 ? 10 : 0);
        __cudaUnregisterFatBinary(binary);
    }
}

/* Whatever is cut off, or wrong, a launch gets an answer. */
static void broken_launch(const unsigned char *image, size_t bytes)
{
    static _Alignas(16) unsigned char fatbin[2 * PLAYED_BYTES];
    static const char name[] = "_Z3addPfPKfi";
    char *exact = malloc(bytes + 1); /* so that reading beyond it is seen */
    assert_non_null(exact);
    const played_entry entry = {2, 90, 0x11, image, bytes, 0};
    size_t whole = played_fatbin(fatbin, sizeof(fatbin), &entry, 1);
    char *copy = malloc(whole);
    assert_non_null(copy);
    memcpy(copy, fatbin, whole);
    played_wrapper wrapper = {0x466243b1, 1, copy, NULL};
    void **binary = __cudaRegisterFatBinary(&wrapper);
    __cudaRegisterFunction(binary, exact, exact, name, -1, NULL, NULL, NULL, NULL, NULL);
    struct cudaFuncAttributes attributes;
    OK(cudaFuncGetAttributes(&attributes, exact));
    __cudaUnregisterFatBinary(binary);
    free(copy);
    free(exact);
}

static void test_broken_code(void **state)
{
    (void)state;
    static unsigned char image[PLAYED_BYTES];
    const played_kernel kernel = {"_Z3addPfPKfi", 3, {8, 8, 4}, 10, 64, 128};
    const played_variable variable = {"counter", 4, "abc", 0};
    size_t bytes = played_cubin(image, &kernel, 1, &variable, 1);
    for (size_t i = 0; i < bytes; i += 8)
        broken_launch(image, i);
    for (size_t i = 0; i < bytes; i++) {
        unsigned char was = image[i];
        for (unsigned value = 0; value < 16; value++) { /* the numbers of sections, and of kinds */
            image[i] = (unsigned char)(value < 15 ? value : was ^ 0xffU);
            broken_launch(image, bytes);
        }
        image[i] = was;
    }
    Elf64_Ehdr header;
    memcpy(&header, image, sizeof(header));
    for (size_t i = 0; i < header.e_shnum; i++) { /* contents that are nowhere */
        Elf64_Shdr was, section;
        unsigned char *at = image + header.e_shoff + i * sizeof(was);
        memcpy(&was, at, sizeof(was));
        section = was;
        section.sh_type = SHT_NOBITS;
        section.sh_offset = (uint64_t)1 << 46;
        memcpy(at, &section, sizeof(section));
        broken_launch(image, bytes);
        memcpy(at, &was, sizeof(was));
    }
}

int main(void)
{
    setenv("TENURE_SIM_SCHEDULE", "lazy", 1);
    program_register();
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(test_managed_variable, reset),
        cmocka_unit_test_teardown(test_host_version, reset),
        cmocka_unit_test_teardown(test_template, reset),
        cmocka_unit_test_teardown(test_refused_launches, reset),
        cmocka_unit_test_teardown(test_attributes, reset),
        cmocka_unit_test_teardown(test_unknown_reads, reset),
        cmocka_unit_test_teardown(test_variables, reset),
        cmocka_unit_test_teardown(test_kernel_node, reset),
        cmocka_unit_test_teardown(test_compiled_for, reset),
        cmocka_unit_test_teardown(test_compiled_for, reset),
        cmocka_unit_test_teardown(test_library, reset),
        cmocka_unit_test_teardown(test_library_refused, reset),
        cmocka_unit_test_teardown(test_library_cut_short, reset),
        cmocka_unit_test_teardown(test_packed_code, reset),
        cmocka_unit_test_teardown(test_broken_code, reset),
    };
    int failed = cmocka_run_group_tests(tests, NULL, NULL);
    program_unregister();
    return failed;
}
