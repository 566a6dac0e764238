/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Where a driver is looked for, and drivers that are odd: see odd_driver.c, whose path is the
 * program's argument. Each failed start says what is the matter, and the next one can succeed.
 *
 * dlopen() and dladdr() are this program's: see the first section.
 *
 * With the version kept whatever cuDriverGetVersion answered (tnri_driver_load):
 * a_driver_that_does_not_say_its_version failed.
 */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif

#include "unit.h"

#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/cuda/driver.h"
#include "memory/device/device.h"

static const char *odd_path;
static const char *cuda_is; /* in place of libcuda.so.1; null: itself */
static int hides_sim;       /* the simulated device is in no file */
static enum { KNOWS_SELF, KNOWS_NOT, KNOWS_NO_FILE, KNOWS_TOO_LONG } self;

#define ORIGINAL(name) ((__typeof__(&(name)))(uintptr_t)dlsym(RTLD_NEXT, #name))

void *dlopen(const char *name, int flags)
{
    if (name != NULL && cuda_is != NULL && strcmp(name, "libcuda.so.1") == 0)
        name = cuda_is;
    if (name != NULL && hides_sim && strstr(name, "simcuda") != NULL)
        name = "/nonexistent/libtenure_simcuda.so";
    return ORIGINAL(dlopen)(name, flags);
}

int dladdr(const void *address, Dl_info *info)
{
    static char far[8192];
    int found = ORIGINAL(dladdr)(address, info);
    if (self == KNOWS_NOT)
        return 0;
    if (self == KNOWS_NO_FILE)
        info->dli_fname = NULL;
    memset(far, 'x', sizeof(far) - 1);
    far[0] = far[sizeof(far) - 2] = '/';
    if (self == KNOWS_TOO_LONG)
        info->dli_fname = far;
    return found;
}

static int stop(void **state)
{
    cuda_is = NULL;
    hides_sim = 0;
    self = KNOWS_SELF;
    unsetenv("ODD_DRIVER");
    return unit_stop(state);
}

static void check_works(int version)
{
    tnr_driver_info info = {.struct_bytes = sizeof(info)};
    assert_ok(tnr_init());
    assert_ok(tnr_driver_get(&info));
    assert_int_equal(info.version, version);
    void *ptr = unit_malloc(3 * MIB, NULL);
    assert_ok(tnr_validate(-1));
    assert_ok(tnr_free(ptr));
    assert_ok(tnr_shutdown(1));
}

/* ---- where it is ---------------------------------------------------------------------------- */

static void the_system_s_driver(void **state)
{
    (void)state;
    unit_settings(NULL, NULL);
    cuda_is = "/nonexistent/libcuda.so.1";
    static const char *const names[] = {NULL, "", "cuda"};
    for (size_t i = 0; i < 3; i++) {
        if (names[i] == NULL)
            unsetenv("TENURE_DRIVER");
        else
            setenv("TENURE_DRIVER", names[i], 1);
        cuda_is = "/nonexistent/libcuda.so.1";
        assert_error(tnr_init(), TNR_ERR_NO_DRIVER, "Install the NVIDIA driver");
        cuda_is = odd_path;
        check_works(11030);
    }
}

static void the_simulated_device(void **state)
{
    (void)state;
    unit_settings(NULL, NULL);
    setenv("TENURE_DRIVER", "sim", 1);
    hides_sim = 1;
    assert_error(tnr_init(), TNR_ERR_NO_DRIVER, "the simulated device was not found");
    for (self = KNOWS_NOT; self <= KNOWS_TOO_LONG; self++)
        assert_error(tnr_init(), TNR_ERR_NO_DRIVER, "Give its path: TENURE_DRIVER=");
    hides_sim = 0; /* the loader finds it by its name alone: the program has it */
    for (self = KNOWS_SELF; self <= KNOWS_TOO_LONG; self++)
        check_works(13000);
}

/* ---- what it is ----------------------------------------------------------------------------- */

static void odd(const char *how)
{
    unit_settings(NULL, NULL);
    setenv("TENURE_DRIVER", odd_path, 1);
    setenv("ODD_DRIVER", how, 1);
}

static void no_driver_at_all(void **state)
{
    (void)state;
    Dl_info libc;
    unit_settings(NULL, NULL);
    assert_true(ORIGINAL(dladdr)((const void *)(uintptr_t)ORIGINAL(dladdr), &libc) != 0);
    setenv("TENURE_DRIVER", libc.dli_fname, 1);
    assert_error(tnr_init(), TNR_ERR_DRIVER_TOO_OLD, "has no cuGetProcAddress");
    odd("");
    check_works(11030);
}

static void a_driver_that_lacks_everything(void **state)
{
    (void)state;
    odd("nothing");
    assert_error(tnr_init(), TNR_ERR_DRIVER_TOO_OLD, "(CUDA 11.3) lacks cu");
    assert_true(strlen(tnr_last_error()) < 2000);
    odd("");
    check_works(11030);
}

static void a_driver_that_does_not_say_its_version(void **state)
{
    (void)state;
    odd("mute");
    check_works(0);
}

static void counts_of_devices(void **state)
{
    (void)state;
    odd("none");
    assert_error(tnr_init(), TNR_ERR_NO_DEVICE, "the driver reports no device");
    setenv("ODD_DRIVER", "many", 1); /* more than one there are not */
    assert_error(tnr_init(), TNR_ERR_DRIVER, "asking for a device's capabilities");
    setenv("ODD_DRIVER", "", 1);
    assert_ok(tnr_init());
    tnri_device *first = tnri_device_at(0);
    assert_ok(tnri_devices_find()); /* again: nothing is found anew */
    assert_ptr_equal(tnri_device_at(0), first);
    check_works(11030);
}

/* An error that the driver has no words for is told by its number. */
static CUresult CUDAAPI no_name(CUresult error, const char **name)
{
    (void)error;
    *name = NULL;
    return CUDA_SUCCESS;
}

static void errors_without_a_name(void **state)
{
    (void)state;
    void *ptr;
    unit_start(NULL, "MEMORY=64M", NULL);
    __typeof__(tnri_driver.cuGetErrorName) kept = tnri_driver.cuGetErrorName;
    tnri_driver.cuGetErrorName = no_name;
    simcuda_fail("cuMemCreate", 1, 0, CUDA_ERROR_LAUNCH_FAILED);
    tnr_status status = tnr_malloc(&ptr, MIB, 0, NULL);
    tnri_driver.cuGetErrorName = kept;
    assert_error(status, TNR_ERR_DRIVER, "an unknown driver error (719)");
}

int main(int argc, char **argv)
{
    odd_path = argc > 1 ? argv[1] : "";
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(the_system_s_driver, stop),
        cmocka_unit_test_teardown(the_simulated_device, stop),
        cmocka_unit_test_teardown(no_driver_at_all, stop),
        cmocka_unit_test_teardown(a_driver_that_lacks_everything, stop),
        cmocka_unit_test_teardown(a_driver_that_does_not_say_its_version, stop),
        cmocka_unit_test_teardown(counts_of_devices, stop),
        cmocka_unit_test_teardown(errors_without_a_name, stop),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
