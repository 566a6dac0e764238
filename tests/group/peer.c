/* SPDX-License-Identifier: Apache-2.0 */
/* See peer.h. */
#include "peer.h"

#include <cuda.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "await.h"
#include "control/answer.h"
#include "control/commands.h"
#include "gpu/cuda/driver.h"
#include "own_folder.h"
#include "share/group/board.h"
#include "miss/reclaim.h"
#include "tenure/simcuda.h"

enum { FILE_OF_PEER = 3, MARKED_BYTES = 256 << 10 };

typedef struct order {
    int64_t what;
    uint64_t a, b;
} order;

/* ---- steps ---------------------------------------------------------------------------------- */

static _Atomic uint64_t steps, trap;
static _Atomic int trap_signal;

static void step(void)
{
    if (atomic_fetch_add(&steps, 1) + 1 == atomic_load(&trap))
        (void)kill(getpid(), atomic_load(&trap_signal));
}

#define STEP(type, name, parameters, arguments)                                                    \
    type __real_##name parameters;                                                                 \
    type __wrap_##name parameters;                                                                 \
    type __wrap_##name parameters                                                                  \
    {                                                                                              \
        step();                                                                                    \
        type outcome = __real_##name arguments;                                                    \
        step();                                                                                    \
        return outcome;                                                                            \
    }

#define STEP_VOID(name, parameters, arguments)                                                     \
    void __real_##name parameters;                                                                 \
    void __wrap_##name parameters;                                                                 \
    void __wrap_##name parameters                                                                  \
    {                                                                                              \
        step();                                                                                    \
        __real_##name arguments;                                                                   \
        step();                                                                                    \
    }

/* Looks at seats that nobody has are left out: there are many, and they do nothing. */
#define STEP_SEAT(type, name)                                                                      \
    type __real_##name(const tnri_sitting *sitting, int seat);                                     \
    type __wrap_##name(const tnri_sitting *sitting, int seat);                                     \
    type __wrap_##name(const tnri_sitting *sitting, int seat)                                      \
    {                                                                                              \
        if (atomic_load(&sitting->board->seats[seat].process) != 0)                                \
            step();                                                                                \
        return __real_##name(sitting, seat);                                                       \
    }

STEP_SEAT(int, tnri_seat_lives)
STEP_SEAT(uint64_t, tnri_seat_clear_dead)
STEP(size_t, tnri_reclaim_for_others,
     (tnri_device * device, size_t bytes, size_t floor, int wait, size_t *held),
     (device, bytes, floor, wait, held))
STEP(CUresult, tnri_drive_end, (tnr_driver_kind kind, CUresult result, uint64_t began_ns),
     (kind, result, began_ns))
STEP_VOID(tnri_word_wait, (_Atomic uint32_t *word, uint32_t value, uint64_t ns), (word, value, ns))
STEP_VOID(tnri_word_ring, (_Atomic uint32_t *word), (word))
STEP_VOID(tnri_board_rise, (tnri_sitting * sitting, int is_leaving), (sitting, is_leaving))

/* ---- the peer ------------------------------------------------------------------------------- */

static struct slot {
    unsigned char *ptr;
    size_t bytes;
    unsigned char mark;
} slots[PEER_SLOTS];

static unsigned char marks_last;

/* A byte now and then, and the last one. */
static void slot_mark(struct slot *at)
{
    at->mark = ++marks_last;
    for (size_t i = 0; i < at->bytes; i += MARKED_BYTES)
        at->ptr[i] = at->mark;
    at->ptr[at->bytes - 1] = at->mark;
}

static int slot_is_marked(const struct slot *at)
{
    for (size_t i = 0; i < at->bytes; i += MARKED_BYTES)
        if (at->ptr[i] != at->mark)
            return 0;
    return at->ptr[at->bytes - 1] == at->mark;
}

static tnr_status slot_malloc(uint64_t slot, size_t bytes)
{
    void *ptr = NULL;
    struct slot *at = &slots[slot];
    tnr_status status = tnr_malloc(&ptr, bytes, 0, NULL);
    if (status != TNR_OK)
        return status;
    *at = (struct slot){.ptr = ptr, .bytes = bytes};
    slot_mark(at);
    return TNR_OK;
}

static tnr_status slot_free(uint64_t slot)
{
    struct slot *at = &slots[slot];
    if (!slot_is_marked(at)) {
        fprintf(stderr, "peer %d: the bytes of slot %llu have changed\n", (int)getpid(),
                (unsigned long long)slot);
        _exit(9);
    }
    tnr_status status = tnr_free(at->ptr);
    at->ptr = NULL;
    return status;
}

/* Work that the lazy schedule does not do before somebody waits for it. */
static tnr_status slot_work(uint64_t slot)
{
    CUcontext context, popped;
    const struct slot *at = &slots[slot];
    int is_done = cuDevicePrimaryCtxRetain(&context, 0) == CUDA_SUCCESS &&
                  cuCtxPushCurrent(context) == CUDA_SUCCESS &&
                  cuMemsetD8Async((uintptr_t)at->ptr, at->mark, at->bytes, NULL) == CUDA_SUCCESS &&
                  cuCtxPopCurrent(&popped) == CUDA_SUCCESS &&
                  cuDevicePrimaryCtxRelease(0) == CUDA_SUCCESS;
    return is_done ? TNR_OK : TNR_ERR_DRIVER;
}

/* What a member calls to give memory, and to ask for it. */
const char *const peer_calls[] = {"cuMemRelease",
                                  "cuMemUnmap",
                                  "cuEventRecord",
                                  "cuEventQuery",
                                  "cuEventCreate",
                                  "cuCtxPushCurrent",
                                  "cuMemGetInfo",
                                  "cuMemCreate",
                                  "cuEventSynchronize",
                                  "cuDeviceGetUuid",
                                  NULL};

tnr_status (*peer_other)(uint64_t a, uint64_t b);

static uint64_t random_next(uint64_t *state)
{
    uint64_t z = (*state += UINT64_C(0x9e3779b97f4a7c15));
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return z ^ (z >> 31);
}

/* Blocks of random sizes come and go, now and then all of them; running out is no mistake. Returns
 * how often that was. */
static uint64_t random_work(uint64_t operations, uint64_t seed)
{
    uint64_t short_count = 0;
    for (uint64_t i = 0; i < operations; i++) {
        uint64_t draw = random_next(&seed), slot = draw % 64;
        if (draw >> 56 == 0) {
            for (slot = 0; slot < 64; slot++)
                if (slots[slot].ptr != NULL && slot_free(slot) != TNR_OK)
                    _exit(8);
        } else if (slots[slot].ptr != NULL) {
            if (slot_free(slot) != TNR_OK)
                _exit(8);
        } else {
            uint64_t bytes = ((draw >> 8) & 3) == 0 ? 1 + (draw >> 20) % (3 * MIB)
                                                    : 1 + (draw >> 20) % (32 << 10);
            tnr_status status = slot_malloc(slot, bytes);
            short_count += status == TNR_ERR_OUT_OF_MEMORY || status == TNR_ERR_LIMIT;
            if (status != TNR_OK && status != TNR_ERR_OUT_OF_MEMORY && status != TNR_ERR_LIMIT)
                _exit(7);
        }
        if (draw >> 48 == 0 && tnr_validate(-1) != TNR_OK)
            _exit(6);
    }
    return short_count;
}

static void trap_set(uint64_t nth, int number)
{
    atomic_store(&trap, 0);
    atomic_store(&steps, 0);
    atomic_store(&trap_signal, number);
    atomic_store(&trap, nth);
}

static tnr_status status_get(peer_answer *said)
{
    tnri_answer answer;
    if (!tnri_answer_open(&answer))
        return TNR_ERR_HOST_MEMORY;
    tnri_json_object(&answer.json, NULL);
    tnri_status_tell(&answer, 0, 0);
    tnri_json_object_end(&answer.json);
    tnri_answer_end(&answer);
    snprintf(said->text, sizeof(said->text), "%.*s", (int)answer.length, answer.text);
    tnri_answer_close(&answer);
    return TNR_OK;
}

static uint64_t fork_here(void)
{
    pid_t child = fork();
    if (child == 0) {
        (void)alarm(1200);
        for (;;)
            (void)pause();
    }
    return (uint64_t)child;
}

static tnr_status snapshot_write(void)
{
    char path[128];
    snprintf(path, sizeof(path), "%s.json", getenv("TENURE_SIM_SHARED"));
    return tnr_snapshot_write(path, TNR_SNAPSHOT_AUTO);
}

static tnr_status wait_set(uint64_t ms)
{
    char text[64];
    snprintf(text, sizeof(text), "group_wait_ms:%llu", (unsigned long long)ms);
    return tnr_configure(text);
}

static tnr_status carry_out(const order *wanted, peer_answer *said)
{
    switch ((peer_order)wanted->what) {
    case PEER_MALLOC:
        return slot_malloc(wanted->a, wanted->b);
    case PEER_FREE:
        return slot_free(wanted->a);
    case PEER_STATS:
        return tnr_validate(-1);
    case PEER_TRIM:
        return tnr_trim(NULL, 0, 0);
    case PEER_WORK:
        return slot_work(wanted->a);
    case PEER_KILL_AT:
        trap_set(wanted->a, SIGKILL);
        return TNR_OK;
    case PEER_STOP_AT:
        trap_set(wanted->a, SIGSTOP);
        return TNR_OK;
    case PEER_STEPS:
        said->value = atomic_load(&steps);
        return TNR_OK;
    case PEER_STATUS:
        return status_get(said);
    case PEER_SNAPSHOT:
        return snapshot_write();
    case PEER_SLEEP:
        return tnr_device_sleep(0, NULL);
    case PEER_WAKE:
        return tnr_device_wake(0);
    case PEER_SHUTDOWN:
        return tnr_shutdown(1);
    case PEER_RANDOM:
        said->value = random_work(wanted->a, wanted->b);
        return tnr_validate(-1);
    case PEER_FORK:
        said->value = fork_here();
        return TNR_OK;
    case PEER_REFUSE:
        said->value = simcuda_fail_hits();
        simcuda_fail_clear();
        if (wanted->b > 0)
            simcuda_fail(peer_calls[wanted->a], wanted->b, 0, CUDA_ERROR_UNKNOWN);
        return TNR_OK;
    case PEER_WAIT_MS:
        return wait_set(wanted->a);
    case PEER_OTHER:
        return peer_other(wanted->a, wanted->b);
    }
    _exit(5);
}

static uint64_t now_ns(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
}

int peer_work(void)
{
    order wanted;
    static peer_answer said;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (read(FILE_OF_PEER, &wanted, sizeof(wanted)) == (ssize_t)sizeof(wanted)) {
        memset(&said, 0, sizeof(said));
        uint64_t began = now_ns();
        said.status = carry_out(&wanted, &said);
        said.ns = now_ns() - began;
        if (said.status != TNR_OK)
            snprintf(said.text, sizeof(said.text), "%s", tnr_last_error());
        said.stats.struct_bytes = sizeof(said.stats);
        if ((wanted.what == PEER_STATS || wanted.what == PEER_RANDOM) &&
            tnr_stats_get(&said.stats, NULL, 0) != TNR_OK)
            return 3;
        if (write(FILE_OF_PEER, &said, sizeof(said)) != (ssize_t)sizeof(said))
            return 1;
    }
    return tnr_shutdown(1) == TNR_OK ? 0 : 2;
}

/* ---- this side ------------------------------------------------------------------------------ */

static char folder[64], memory[32], device[96];

const char *peers_folder(void)
{
    return folder;
}

void peers_begin(unsigned device_mib)
{
    snprintf(folder, sizeof(folder), "/tmp/tenure-group-XXXXXX");
    assert_non_null(mkdtemp(folder));
    snprintf(memory, sizeof(memory), "%uM", device_mib);
    snprintf(device, sizeof(device), "%s/device", folder);
}

int peers_end(void **state)
{
    (void)state;
    return folder_remove(folder);
}

peer peer_start(const char *conf)
{
    int files[2];
    char all[256];
    /* A second is not enough where others want the processors, too. */
    const char *wait = strstr(conf, "group_wait_ms") == NULL ? ",group_wait_ms:600000" : "";
    snprintf(all, sizeof(all), "control_dir:%s,address_space_gb:4%s%s%s", folder, wait,
             conf[0] == '\0' ? "" : ",", conf);
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, files), 0);
    fflush(NULL);
    pid_t process = fork();
    assert_true(process >= 0);
    if (process == 0) {
        char program[] = "/proc/self/exe", role[] = "peer";
        char *arguments[] = {program, role, NULL};
        int there = fcntl(files[1], F_DUPFD, 10);
        (void)dup2(there, FILE_OF_PEER);
        (void)close(there);
        setenv("TENURE_CONF", all, 1);
        setenv("TENURE_SIM_MEMORY", memory, 1);
        setenv("TENURE_SIM_SHARED", device, 1);
        setenv("TENURE_DRIVER", "sim", 1);
        (void)execv(program, arguments);
        _exit(127);
    }
    (void)close(files[1]);
    return (peer){process, files[0]};
}

int peer_tell(const peer *to, peer_order what, uint64_t a, uint64_t b)
{
    order wanted = {what, a, b};
    return send(to->file, &wanted, sizeof(wanted), MSG_NOSIGNAL) == (ssize_t)sizeof(wanted);
}

int peer_hear(const peer *from, peer_answer *said)
{
    return read(from->file, said, sizeof(*said)) == (ssize_t)sizeof(*said);
}

int peer_ask(const peer *to, peer_order what, uint64_t a, uint64_t b, peer_answer *said)
{
    return peer_tell(to, what, a, b) && peer_hear(to, said);
}

peer_answer peer_must(const peer *to, peer_order what, uint64_t a, uint64_t b)
{
    static peer_answer said;
    assert_true(peer_ask(to, what, a, b, &said));
    if (said.status != TNR_OK)
        fprintf(stderr, "a peer: %s\n", said.text);
    assert_int_equal(said.status, TNR_OK);
    return said;
}

peer_answer peer_must_fail(const peer *to, peer_order what, uint64_t a, uint64_t b,
                           tnr_status status, const char *text)
{
    static peer_answer said;
    assert_true(peer_ask(to, what, a, b, &said));
    if (said.status != status || strstr(said.text, text) == NULL)
        fprintf(stderr, "status %d, \"%s\"\n", (int)said.status, said.text);
    assert_int_equal(said.status, status);
    assert_non_null(strstr(said.text, text));
    return said;
}

uint64_t peer_reserved(const peer *of)
{
    return peer_must(of, PEER_STATS, 0, 0).stats.reserved_bytes.current;
}

void peer_awaits(const peer *of, uint64_t reserved_most)
{
    await_true(peer_reserved(of) <= reserved_most);
}

int peer_end(peer *gone)
{
    int status = 0;
    (void)shutdown(gone->file, SHUT_RDWR); /* others may have copies, before they exec */
    (void)close(gone->file);
    assert_int_equal(waitpid(gone->process, &status, 0), gone->process);
    return WIFEXITED(status) && WEXITSTATUS(status) == 0;
}

void peer_kill(peer *gone)
{
    (void)kill(gone->process, SIGKILL);
    (void)peer_end(gone);
}

/* The system loses a stop that comes while a process of several threads begins its program, as
 * ThreadSanitizer's do. So it is sent again where nothing has stopped for a second. */
void peer_stop(const peer *who)
{
    int status = 0;
    pid_t found = 0;
    for (int look = 0; found == 0; look++) {
        if (look % 100 == 0)
            (void)kill(who->process, SIGSTOP);
        found = waitpid(who->process, &status, WUNTRACED | WNOHANG);
        if (found == 0)
            (void)usleep(10000);
    }
    assert_int_equal(found, who->process);
    assert_true(WIFSTOPPED(status));
}

void peer_go_on(const peer *who)
{
    (void)kill(who->process, SIGCONT);
}

int peers_left_nothing(unsigned device_mib)
{
    static peer_answer said;
    peer last = peer_start("");
    int can = peer_ask(&last, PEER_MALLOC, 0, device_mib * MIB, &said) && said.status == TNR_OK;
    if (!can)
        fprintf(stderr, "the device is not whole: %s\n", said.text);
    return peer_end(&last) && can;
}
