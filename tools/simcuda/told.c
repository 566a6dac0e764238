/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a program is told that asks for what only NVIDIA's driver has.
 *
 * NVIDIA's CUDA runtime asks for cuGetExportTable, which leads to tables of functions that nobody
 * documents, and for some 200 other entry points. Without them each of its calls ends with an error
 * that speaks of old drivers. So the real reason is said, once. NVIDIA's libraries have that
 * runtime inside: if one of them is loaded, it is named.
 */
#include "sim.h"

#include <link.h>
#include <stdio.h>
#include <string.h>

static const char *file_name(const char *path)
{
    const char *slash = strrchr(path, '/');
    return slash == NULL ? path : slash + 1;
}

/* Adds the name of a library that brings a runtime along. */
static int library_visit(struct dl_phdr_info *info, size_t bytes, void *user)
{
    static const char *const libraries[] = {"libcublas.so",   "libcudnn.so",    "libcufft.so",
                                            "libcurand.so",   "libcusparse.so", "libcusolver.so",
                                            "libnccl.so",     "libcudnn_",      "libnvjpeg.so",
                                            "libcutensor.so", "libnpp"};
    enum { TEXT_BYTES = 256 };
    char *text = user;
    const char *name = file_name(info->dlpi_name);
    size_t used = strlen(text);
    (void)bytes;
    for (size_t i = 0; i < sizeof(libraries) / sizeof(libraries[0]); i++)
        if (strncmp(name, libraries[i], strlen(libraries[i])) == 0 &&
            used + strlen(name) + 3 < TEXT_BYTES) {
            snprintf(text + used, TEXT_BYTES - used, "%s%s", used == 0 ? "" : ", ", name);
            break;
        }
    return 0;
}

void sim_tell_runtime(const char *symbol)
{
    static int was_said;
    char libraries[256] = "";
    if (was_said || strcmp(symbol, "cuGetExportTable") != 0)
        return;
    was_said = 1;
    (void)dl_iterate_phdr(library_visit, libraries);
    if (libraries[0] != '\0')
        sim_note("%s: loaded here, and each of NVIDIA's libraries uses the CUDA runtime that is "
                 "inside of it, which needs NVIDIA's driver. Its calls fail here, as "
                 "cublasCreate does with CUBLAS_STATUS_NOT_INITIALIZED; what it does needs a GPU",
                 libraries);
    else
        sim_note("this program uses the CUDA runtime that is linked into it, or into a library of "
                 "its (PyTorch, CuPy and JAX bring one), and that needs NVIDIA's driver. Its calls "
                 "fail here with \"API call is not supported in the installed CUDA driver\" (36). "
                 "Build the program with nvcc -cudart shared and start it with tenure run --driver "
                 "sim; what such libraries do needs a GPU");
}
