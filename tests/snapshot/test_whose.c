/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Whose a frame is by the file that it lies in, by real names of files. A program's own file may
 * begin as that of an interpreter or of a library does: its frames are the program's. With
 * is_python (alloc/see/snapshot/whose.c) replaced by a comparison of beginnings, or "libtorch"
 * among the machinery, own_files fails; without the letters behind a version, or what follows the
 * name of a library, interpreters does.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "see/snapshot/whose.h"

#define COUNT(list) (sizeof(list) / sizeof((list)[0]))

static void check_all(const char *const *modules, size_t count, unsigned whose)
{
    for (size_t i = 0; i < count; i++)
        if (tnri_frame_whose("solve", "", modules[i]) != whose)
            fail_msg("%s: %u", modules[i], tnri_frame_whose("solve", "", modules[i]));
}

static void interpreters(void **state)
{
    static const char *const modules[] = {"python",
                                          "python2.7",
                                          "python3",
                                          "python3.8",
                                          "python3.12",
                                          "python3.13t",
                                          "python3.12d",
                                          "python3.7m",
                                          "python.exe",
                                          "pythonw.exe",
                                          "python312.dll",
                                          "libpython3.so",
                                          "libpython2.7.so",
                                          "libpython3.12.so.1.0",
                                          "libpython3.13td.so.1.0",
                                          "libpython3.7m.so.1.0",
                                          "libpython3.11.dylib"};
    (void)state;
    check_all(modules, COUNT(modules), TNRI_WHOSE_MACHINERY);
}

static void own_files(void **state)
{
    static const char *const modules[] = {
        "python_solver.so",        "pythonnet.so",        "python-config-reader",
        "pythonic.cpython-312.so", "python3_bindings.so", "libpython_ops.so",
        "libpythonnet.so",         "python3.12-engine",   "libtorch_ops.so",
        "libtorchserve_engine.so", "libc10k.so",          "engine"};
    (void)state;
    check_all(modules, COUNT(modules), TNRI_WHOSE_PROGRAM);
}

static void libraries(void **state)
{
    static const char *const modules[] = {
        "libtorch.so",        "libtorch_cpu.so",
        "libtorch_cuda.so",   "libtorch_cuda_linalg.so",
        "libtorch_hip.so",    "libtorch_python.so",
        "libc10.so",          "libc10_cuda.so",
        "libc.so.6",          "libc-2.31.so",
        "libstdc++.so.6",     "libgcc_s.so.1",
        "libffi.so.8",        "ld-linux-x86-64.so.2",
        "libpthread-2.31.so", "_ctypes.cpython-312-x86_64-linux-gnu.so"};
    (void)state;
    check_all(modules, COUNT(modules), TNRI_WHOSE_MACHINERY);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(interpreters), cmocka_unit_test(own_files),
                                       cmocka_unit_test(libraries)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
