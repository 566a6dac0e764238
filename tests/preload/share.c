/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Two processes and one piece of memory: this one exports blocks, the same program started again
 * opens them, reads, and writes.
 */
#include <dlfcn.h>
#include <fcntl.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "engine.h"
#include "scenarios.h"

enum { BLOCKS = 3 };
static const size_t sizes[BLOCKS] = {1000, (1 << 20) + 77, 96 << 20};

static struct {
    PFN_cuIpcGetMemHandle_v4010 get;
    PFN_cuIpcOpenMemHandle_v11000 open;
    PFN_cuIpcCloseMemHandle_v4010 close;
} ipc;

/* By the driver's handle, or, as the simulated device has none, where interposers put them. */
static void ipc_reach(const char *symbol, void *function)
{
    void *library = dlopen("libcuda.so.1", RTLD_NOW);
    void *found = library == NULL ? NULL : dlsym(library, symbol);
    if (found == NULL)
        found = dlsym(RTLD_DEFAULT, symbol);
    CHECK(found != NULL);
    memcpy(function, &found, sizeof(found));
}

static void ipc_start(void)
{
    ipc_reach("cuIpcGetMemHandle", &ipc.get);
    ipc_reach("cuIpcOpenMemHandle_v2", &ipc.open);
    ipc_reach("cuIpcCloseMemHandle", &ipc.close);
}

static void send_all(int file, const void *data, size_t bytes)
{
    CHECK(write(file, data, bytes) == (ssize_t)bytes);
}

static void receive_all(int file, void *data, size_t bytes)
{
    for (size_t done = 0; done < bytes;) {
        ssize_t got = read(file, (char *)data + done, bytes - done);
        CHECK(got > 0);
        done += (size_t)got;
    }
}

/* The other process: its standard input and the descriptor 3 lead to the first. */
void scenario_share_other(void)
{
    CUipcMemHandle handles[BLOCKS];
    CUdeviceptr opened[BLOCKS], again, base;
    size_t bytes;
    char told;
    engine_start(0);
    ipc_start();
    receive_all(STDIN_FILENO, handles, sizeof(handles));
    for (int i = 0; i < BLOCKS; i++) {
        MUST(ipc.open(&opened[i], handles[i], CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
        verify(opened[i], i + 1, sizes[i], NULL);
        fill(opened[i], i + 50, sizes[i], NULL);
        MUST(cu.cuMemGetAddressRange(&base, &bytes, opened[i] + sizes[i] / 2));
        CHECK(base == opened[i] && bytes >= sizes[i]);
    }
    MUST(ipc.open(&again, handles[1], CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS));
    CHECK(again == opened[1]);
    MUST(ipc.close(again));
    verify(opened[1], 51, sizes[1], NULL); /* opened twice, so still open */
    MUST(cu.cuCtxSynchronize());
    send_all(3, "w", 1);
    receive_all(STDIN_FILENO, &told, 1); /* the first has seen it, and freed a block */
    verify(opened[2], 99, sizes[2], NULL);
    for (int i = 0; i < BLOCKS; i++)
        MUST(ipc.close(opened[i]));
    CHECK(ipc.close(opened[0]) != CUDA_SUCCESS);
    CHECK(ipc.open(&again, handles[0], CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) != CUDA_SUCCESS);
}

static pid_t other_start(int *to, int *from)
{
    int there[2], back[2];
    CHECK(pipe2(there, O_CLOEXEC) == 0 &&
          pipe2(back, O_CLOEXEC) == 0); /* so that it sees our end */
    pid_t other = fork();
    CHECK(other >= 0);
    if (other == 0) {
        char way[64], scenario[] = "share_other", program[] = "/proc/self/exe";
        snprintf(way, sizeof(way), "%s", engine_way);
        char *arguments[] = {program, way, scenario, NULL};
        dup2(there[0], STDIN_FILENO);
        dup2(back[1], 3);
        execv(program, arguments);
        _exit(127);
    }
    close(there[0]);
    close(back[1]);
    *to = there[1];
    *from = back[0];
    return other;
}

void scenario_share(void)
{
    int to, from, status;
    char told;
    CUipcMemHandle handles[BLOCKS];
    CUdeviceptr blocks[BLOCKS];
    pid_t other = other_start(&to, &from);
    engine_start(0);
    ipc_start();
    for (int i = 0; i < BLOCKS; i++) {
        MUST(cu.cuMemAlloc(&blocks[i], sizes[i]));
        fill(blocks[i], i + 1, sizes[i], NULL);
        /* Anywhere in the block stands for the block. */
        MUST(ipc.get(&handles[i], blocks[i] + (i == 1 ? 512 : 0)));
    }
    CUdeviceptr own;
    CHECK(ipc.open(&own, handles[0], CU_IPC_MEM_LAZY_ENABLE_PEER_ACCESS) != CUDA_SUCCESS);
    CHECK(ipc.get(NULL, blocks[0]) != CUDA_SUCCESS);
    MUST(cu.cuCtxSynchronize());
    send_all(to, handles, sizeof(handles));
    receive_all(from, &told, 1);
    for (int i = 0; i < BLOCKS; i++)
        verify(blocks[i], i + 50, sizes[i], NULL);
    fill(blocks[2], 99, sizes[2], NULL);
    MUST(cu.cuMemFree(blocks[0]));
    MUST(cu.cuCtxSynchronize());
    send_all(to, "f", 1);
    CHECK(waitpid(other, &status, 0) == other);
    CHECK(WIFEXITED(status) && WEXITSTATUS(status) == 0);
    MUST(cu.cuMemFree(blocks[1]));
    MUST(cu.cuMemFree(blocks[2]));
    printf("shared %d blocks\n", BLOCKS);
}
