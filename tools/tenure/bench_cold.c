/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Cold start: how long does a program wait for its first block?
 *
 *   cold_start    in a fresh process, from nothing to the first block of 1 MiB: the driver is
 *                 loaded and started, a context made, the allocator started
 *   cold_first    the first block alone, of an allocator that is loaded, in a process that has a
 *                 context: what the allocator itself adds
 *   cold_second   the second block, while the first is live
 *
 * Beside the allocators: cuMemAlloc, without anything around it. Each round is a process of its own
 * (`tenure bench --cold-child`) that prints three times. PyTorch's start includes the loading of
 * its libraries, because a program in C would have to load them, too.
 */
#include "bench.h"

#include <errno.h>
#include <inttypes.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { COLD_BYTES = 1 << 20, COLD_ROUNDS_MAX = 5, COLD_ROWS = 3, COLD_COLUMNS = 4 };

_Static_assert((int)BENCH_ALLOCATORS_MAX == (int)COLD_COLUMNS, "a column for each");

/* ---- the child ------------------------------------------------------------------------------ */

/* What a fresh process has; all of it ends with the process. */
typedef struct cold_child {
    const char *driver; /* path of the library */
    int device;
    const char *torch_plugin;
    gpu_driver gpu;
    bench_allocator torch;
    char error[512];
} cold_child;

static int driver_fail(cold_child *self, const char *what, CUresult result)
{
    char text[256];
    snprintf(self->error, sizeof(self->error), "%s: %s", what,
             gpu_error_text(&self->gpu, result, text, sizeof(text)));
    return -1;
}

/* Loads the driver and makes the device's primary context current. */
static int context_make(cold_child *self)
{
    CUdevice device;
    CUcontext context;
    if (gpu_driver_load(&self->gpu, self->driver, self->error, sizeof(self->error)) != 0)
        return -1;
    CUresult result = self->gpu.cuInit(0);
    if (result == CUDA_SUCCESS)
        result = self->gpu.cuDeviceGet(&device, self->device);
    if (result == CUDA_SUCCESS)
        result = self->gpu.cuDevicePrimaryCtxRetain(&context, device);
    if (result == CUDA_SUCCESS)
        result = self->gpu.cuCtxPushCurrent(context);
    return result == CUDA_SUCCESS ? 0 : driver_fail(self, "the context", result);
}

/* Starts what has to be started before an allocation, and is no part of it. */
static int allocator_start(cold_child *self, const char *key)
{
    if (strcmp(key, "pytorch") == 0)
        return bench_torch_open(self->torch_plugin, self->device, &self->torch, self->error,
                                sizeof(self->error));
    if (strcmp(key, "tenure") != 0 || tnr_init() == TNR_OK)
        return 0;
    snprintf(self->error, sizeof(self->error), "%s", tnr_last_error());
    return -1;
}

static int block_make(cold_child *self, const char *key)
{
    void *ptr = NULL;
    CUdeviceptr address = 0;
    if (strcmp(key, "tenure") == 0) {
        if (tnr_malloc(&ptr, COLD_BYTES, self->device, NULL) == TNR_OK)
            return 0;
        snprintf(self->error, sizeof(self->error), "%s", tnr_last_error());
        return -1;
    }
    if (strcmp(key, "pytorch") == 0) {
        if (self->torch.allocate(COLD_BYTES, NULL))
            return 0;
        snprintf(self->error, sizeof(self->error), "%s", self->torch.error());
        return -1;
    }
    if (!self->gpu.cuMemAlloc || !self->gpu.cuMemAllocAsync) {
        snprintf(self->error, sizeof(self->error), "the driver has no such function");
        return -1;
    }
    CUresult result = strcmp(key, "driver_malloc") == 0
                          ? self->gpu.cuMemAlloc(&address, COLD_BYTES)
                          : self->gpu.cuMemAllocAsync(&address, COLD_BYTES, NULL);
    return result == CUDA_SUCCESS ? 0 : driver_fail(self, key, result);
}

/* Prints "start first second" in ns. A key that begins with '+' has the context made before the
 * clock starts; without, everything is in the first time, for Tenure by its own hand. */
int bench_cold_child(const char *driver, int device, const char *key, const char *torch_plugin)
{
    static cold_child self;
    int has_context = *key == '+';
    self.driver = driver;
    self.device = device;
    self.torch_plugin = torch_plugin;
    key += has_context;
    uint64_t began = clock_now_ns();
    int status = 0;
    if (has_context || strncmp(key, "driver", 6) == 0)
        status = context_make(&self);
    if (status == 0 && (has_context || strcmp(key, "pytorch") == 0))
        status = allocator_start(&self, key);
    uint64_t ready = clock_now_ns();
    if (status == 0)
        status = block_make(&self, key);
    uint64_t first = clock_now_ns();
    if (status == 0)
        status = block_make(&self, key);
    uint64_t second = clock_now_ns();
    if (status != 0) {
        printf("failed %s\n", self.error);
        return EXIT_CODE_CHECK_FAILED;
    }
    printf("%" PRIu64 " %" PRIu64 " %" PRIu64 "\n", first - began, first - ready, second - first);
    return EXIT_CODE_OK;
}

/* ---- the parent ----------------------------------------------------------------------------- */

/* Runs this program again with its own library, and reads the line that it prints. */
static int child_run(char **arguments, char *line, size_t bytes)
{
    int ends[2];
    pid_t child;
    posix_spawn_file_actions_t actions;
    line[0] = '\0';
    if (pipe(ends) != 0)
        return -1;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_addclose(&actions, ends[0]);
    int status = posix_spawn(&child, "/proc/self/exe", &actions, NULL, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    FILE *file = fdopen(ends[0], "r");
    if (!file)
        close(ends[0]);
    else if (!fgets(line, (int)bytes, file))
        line[0] = '\0';
    if (file)
        fclose(file);
    if (status != 0)
        return -1;
    while (waitpid(child, &status, 0) < 0 && errno == EINTR)
        ;
    return WIFEXITED(status) ? 0 : -1;
}

/* One process of one allocator; its times in ns[3]. Returns 0, or -1 with a sentence. */
static int cold_measure(const bench_setup *setup, const char *key, int has_context, uint64_t *ns,
                        char *error, size_t error_bytes)
{
    char device[16], child[32], line[640];
    char *arguments[] = {"tenure",
                         "bench",
                         BENCH_COLD_CHILD,
                         child,
                         "--driver",
                         (char *)setup->active->path,
                         "--device",
                         device,
                         setup->torch_plugin ? "--torch" : NULL,
                         (char *)setup->torch_plugin,
                         NULL};
    snprintf(device, sizeof(device), "%d", setup->active->device);
    snprintf(child, sizeof(child), "%s%s", has_context ? "+" : "", key);
    if (child_run(arguments, line, sizeof(line)) != 0) {
        snprintf(error, error_bytes, "a process of its own cannot be run: %s", strerror(errno));
        return -1;
    }
    if (sscanf(line, "%" SCNu64 " %" SCNu64 " %" SCNu64, &ns[0], &ns[1], &ns[2]) == 3)
        return 0;
    snprintf(error, error_bytes, "the process of its own said: %.400s", *line ? line : "nothing");
    return -1;
}

static int has_column(const bench_setup *setup, const char *key)
{
    if (strcmp(key, "tenure") == 0 || (strcmp(key, "driver_malloc") == 0 && setup->has_driver))
        return 1;
    for (size_t i = 0; i < setup->allocators_count; i++)
        if (strcmp(setup->allocators[i].key, key) == 0)
            return 1;
    return 0;
}

/* One round of one column: two processes. */
static void column_run(const bench_setup *setup, bench_row **rows, int column)
{
    uint64_t fresh[3], warm[3];
    char error[512];
    const char *key = bench_malloc_columns[column].key;
    if (cold_measure(setup, key, 0, fresh, error, sizeof(error)) != 0 ||
        cold_measure(setup, key, 1, warm, error, sizeof(error)) != 0) {
        for (int row = 0; row < COLD_ROWS; row++)
            bench_cell_fail(&rows[row]->cells[column], error);
        return;
    }
    uint64_t times[COLD_ROWS] = {fresh[0], warm[1], warm[2]};
    for (int row = 0; row < COLD_ROWS; row++)
        bench_cell_round(&rows[row]->cells[column], 1, (double)times[row],
                         bench_mixed(0, COLD_BYTES));
}

exit_code bench_cold_run(const bench_setup *setup, bench_rows *out)
{
    static const char *const names[COLD_ROWS] = {"cold_start", "cold_first", "cold_second"};
    bench_row *rows[COLD_ROWS];
    int rounds = setup->is_quick ? 1 : COLD_ROUNDS_MAX;
    for (int i = 0; i < COLD_ROWS; i++) {
        rows[i] = bench_row_add(out, names[i]);
        rows[i]->columns = bench_malloc_columns;
        rows[i]->bytes = COLD_BYTES;
        rows[i]->threads = 1;
        rows[i]->live = i == COLD_ROWS - 1 ? 2 : 1;
        rows[i]->ops = 1;
    }
    for (int round = 0; round < (setup->rounds < rounds ? setup->rounds : rounds); round++) {
        for (int k = 0; k < COLD_COLUMNS; k++) {
            int column = (round + k) % COLD_COLUMNS;
            bench_cell *cell = &rows[0]->cells[column];
            uint64_t began = clock_now_ns();
            if (has_column(setup, bench_malloc_columns[column].key) &&
                bench_cell_goes_on(cell, rounds))
                column_run(setup, rows, column);
            cell->spent_ns += clock_now_ns() - began;
        }
    }
    return EXIT_CODE_OK;
}
