/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Choosing a driver and starting on it: see session.h.
 */
#include "session.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "beside.h"

static const char cuda_library[] = "libcuda.so.1";

/* ---- choosing ------------------------------------------------------------------------------- */

/* Where the simulated device lies, seen from the folder of the command: where it is installed
 * (TENURE_SIMULATED_DIR comes from the build), in the build tree, and beside the command. */
static const char *const simulated_places[] = {
    TENURE_SIMULATED_DIR "/libtenure_simcuda.so",
    "../lib/tenure/libtenure_simcuda.so",
    "libtenure_simcuda.so",
};

/* Finds the simulated device's library. Leaves `path` empty if there is none. */
static void simulated_find(char path[PATH_MAX])
{
    (void)beside_find(path, simulated_places,
                      sizeof(simulated_places) / sizeof(simulated_places[0]));
}

/* Takes the simulated device: by its path if we know it, else by the library's own search. */
static void choose_simulated(session_choice *choice)
{
    snprintf(choice->driver, sizeof(choice->driver), "%s",
             choice->simulated[0] ? choice->simulated : "sim");
}

exit_code session_choose(session_choice *choice, const char *driver, char *error,
                         size_t error_bytes)
{
    memset(choice, 0, sizeof(*choice));
    simulated_find(choice->simulated);
    const char *environment = getenv("TENURE_DRIVER");
    if (driver && strcmp(driver, "auto") == 0)
        driver = NULL;
    if (!driver && environment && *environment != '\0')
        driver = environment;
    choice->by_user = driver != NULL;
    if (driver && strcmp(driver, "sim") != 0 && strcmp(driver, "cuda") != 0 &&
        !strchr(driver, '/')) {
        snprintf(error, error_bytes,
                 "the driver must be auto, cuda, sim or a path with a slash, not \"%s\"", driver);
        return EXIT_CODE_BAD_INPUT;
    }
    if (!driver) {
        choice->fell_back = !gpu_probe(cuda_library, &choice->gpu);
        driver = choice->fell_back ? "sim" : "cuda";
    }
    if (strcmp(driver, "sim") == 0)
        choose_simulated(choice);
    else
        snprintf(choice->driver, sizeof(choice->driver), "%s", driver);
    setenv("TENURE_DRIVER", choice->driver, 1);
    return EXIT_CODE_OK;
}

/* ---- starting ------------------------------------------------------------------------------- */

/* Copies the library's sentence. A library that has none would be a bug; say so. */
static exit_code library_failed(tnr_status status, char *error, size_t error_bytes)
{
    const char *sentence = tnr_last_error();
    snprintf(error, error_bytes, "%s: %s", tnr_status_name(status),
             *sentence ? sentence : "(the library gave no reason)");
    return exit_code_of(status);
}

exit_code session_restart(const session *active, char *error, size_t error_bytes)
{
    tnr_status status = tnr_init();
    if (status == TNR_OK && active->settings)
        status = tnr_configure(active->settings);
    return status == TNR_OK ? EXIT_CODE_OK : library_failed(status, error, error_bytes);
}

/* Asks the library what it has loaded and whether the device is there. */
static exit_code library_open(session *result, char *error, size_t error_bytes)
{
    exit_code code = session_restart(result, error, error_bytes);
    if (code != EXIT_CODE_OK)
        return code;
    tnr_driver_info info = {.struct_bytes = sizeof(info)};
    tnr_status status = tnr_driver_get(&info);
    if (status != TNR_OK)
        return library_failed(status, error, error_bytes);
    snprintf(result->path, sizeof(result->path), "%s", info.path);
    result->simulated = info.simulated;
    result->version = info.version;
    if (result->device >= info.devices_count) {
        snprintf(error, error_bytes, "there is no device %d: the driver has %d, counted from 0",
                 result->device, info.devices_count);
        return EXIT_CODE_BAD_INPUT;
    }
    result->device_info.struct_bytes = sizeof(result->device_info);
    status = tnr_device_get(&result->device_info, result->device);
    return status == TNR_OK ? EXIT_CODE_OK : library_failed(status, error, error_bytes);
}

/* Opens the same driver for the command's own calls. */
static exit_code driver_open(session *result, char *error, size_t error_bytes)
{
    if (gpu_driver_load(&result->gpu, result->path, error, error_bytes) != 0)
        return EXIT_CODE_NO_DEVICE;
    gpu_driver *gpu = &result->gpu;
    CUresult status = gpu->cuInit(0);
    if (status == CUDA_SUCCESS)
        status = gpu->cuDeviceGet(&result->cu_device, result->device);
    if (status == CUDA_SUCCESS)
        status = gpu->cuDevicePrimaryCtxRetain(&result->context, result->cu_device);
    if (status == CUDA_SUCCESS)
        status = gpu->cuCtxPushCurrent(result->context);
    if (status == CUDA_SUCCESS)
        return EXIT_CODE_OK;
    char text[256];
    snprintf(error, error_bytes, "device %d cannot be used: %s", result->device,
             gpu_error_text(gpu, status, text, sizeof(text)));
    return EXIT_CODE_NO_DEVICE;
}

exit_code session_open(session *result, const session_options *options, int device, char *error,
                       size_t error_bytes)
{
    memset(result, 0, sizeof(*result));
    result->device = device;
    result->settings = options->settings;
    exit_code code = session_choose(&result->choice, options->driver, error, error_bytes);
    if (code == EXIT_CODE_OK)
        code = library_open(result, error, error_bytes);
    if (code == EXIT_CODE_OK)
        code = driver_open(result, error, error_bytes);
    if (code == EXIT_CODE_OK)
        return code;
    session_close(result);
    if (code == EXIT_CODE_NO_DEVICE) {
        size_t length = strlen(error);
        int is_simulated = strcmp(result->choice.driver, "sim") == 0 ||
                           strcmp(result->choice.driver, result->choice.simulated) == 0;
        snprintf(error + length, error_bytes - length,
                 "\nRun `tenure doctor` for what is missing%s.",
                 is_simulated ? "" : ", or use --driver sim");
    }
    return code;
}

void session_close(session *active)
{
    if (active->path[0] != '\0' && tnr_shutdown(1) != TNR_OK)
        fprintf(stderr, "tenure: shutting down failed: %s\n", tnr_last_error());
    if (active->context) {
        CUcontext popped;
        active->gpu.cuCtxPopCurrent(&popped);
        active->gpu.cuDevicePrimaryCtxRelease(active->cu_device);
    }
    gpu_driver_unload(&active->gpu);
    active->context = NULL;
    active->path[0] = '\0';
}

const char *session_describe(const session *active, char *buffer, size_t bytes)
{
    int length =
        snprintf(buffer, bytes, "%s (device %d), driver %s, CUDA %d.%d",
                 active->simulated ? "the simulated device" : active->device_info.name,
                 active->device, active->path, active->version / 1000, active->version % 1000 / 10);
    if (active->choice.fell_back && length > 0 && (size_t)length < bytes)
        snprintf(buffer + length, bytes - (size_t)length, "\n(%s)", active->choice.gpu.reason);
    return buffer;
}

/* ---- streams -------------------------------------------------------------------------------- */

exit_code session_streams_create(session *active, CUstream *streams, size_t count, char *error,
                                 size_t error_bytes)
{
    for (size_t i = 0; i < count; i++) {
        CUresult status = active->gpu.cuStreamCreate(&streams[i], CU_STREAM_NON_BLOCKING);
        if (status != CUDA_SUCCESS) {
            char text[256];
            snprintf(error, error_bytes, "stream %zu of %zu cannot be created: %s", i + 1, count,
                     gpu_error_text(&active->gpu, status, text, sizeof(text)));
            session_streams_destroy(active, streams, i);
            return EXIT_CODE_CHECK_FAILED;
        }
    }
    return EXIT_CODE_OK;
}

void session_streams_destroy(session *active, CUstream *streams, size_t count)
{
    for (size_t i = 0; i < count; i++)
        active->gpu.cuStreamDestroy(streams[i]);
}
