/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What goes over the sockets of exports and imports, in one process: what another side may send,
 * descriptors that are short or left, and every call of the system failing.
 *
 * Lines of the library changed to see it fail:
 *   block_is_sound, chunk_is_sound not asked: strangers
 *   child_close that closes nothing: a_child_keeps_none
 *   a chunk's descriptor not closed once sent, or once received: strangers, each_call_fails
 *   no farewell: a dozen, with those of test_here.c
 */
#include "here.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "share/shared.h"

/* ---- what another side may send ------------------------------------------------------------- */

static void post(const void *data, size_t bytes, int file)
{
    union {
        char bytes[CMSG_SPACE(sizeof(int))];
        struct cmsghdr aligned;
    } control;
    struct iovec part = {(void *)(uintptr_t)data, bytes};
    struct msghdr message = {.msg_iov = &part, .msg_iovlen = 1};
    memset(&control, 0, sizeof(control));
    if (file >= 0) {
        message.msg_control = control.bytes;
        message.msg_controllen = sizeof(control.bytes);
        struct cmsghdr *header = CMSG_FIRSTHDR(&message);
        header->cmsg_level = SOL_SOCKET;
        header->cmsg_type = SCM_RIGHTS;
        header->cmsg_len = CMSG_LEN(sizeof(int));
        memcpy(CMSG_DATA(header), &file, sizeof(file));
    }
    assert_int_equal(sendmsg(sockets[EXPORTER], &message, MSG_NOSIGNAL), bytes);
}

static void renew(void)
{
    assert_int_equal(close(sockets[0]) + close(sockets[1]), 0);
    assert_int_equal(syscall(SYS_socketpair, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets),
                     0);
}

/* A block's message, and a chunk's, as they are sent by an exporter; the chunk's file is kept. */
static int overhear(tnr_export exported, tnri_shared_block *block, tnri_shared_chunk *chunk)
{
    int files[2] = {-1, -1};
    void *parts[2] = {block, chunk};
    size_t bytes[2] = {sizeof(*block), sizeof(*chunk)};
    assert_ok(tnr_export_send(exported, sockets[EXPORTER]));
    for (int i = 0; i < 2; i++) {
        char control[CMSG_SPACE(sizeof(int))];
        struct iovec part = {parts[i], bytes[i]};
        struct msghdr message = {.msg_iov = &part,
                                 .msg_iovlen = 1,
                                 .msg_control = control,
                                 .msg_controllen = sizeof(control)};
        assert_int_equal(recvmsg(sockets[IMPORTER], &message, 0), bytes[i]);
        memcpy(&files[i], CMSG_DATA(CMSG_FIRSTHDR(&message)), sizeof(int));
    }
    (void)close(files[0]);
    return files[1];
}

static void expect_refusal(tnr_status status)
{
    tnr_import_info info = {.struct_bytes = sizeof(info)};
    unsigned before = descriptors_count();
    assert_int_equal(shutdown(sockets[EXPORTER], SHUT_WR), 0);
    tnr_status got = tnr_import_receive(&info, sockets[IMPORTER], 0, NULL);
    if (got != status)
        print_error("%s: %s\n", tnr_status_name(got), tnr_last_error());
    assert_int_equal(got, status);
    assert_null(info.ptr);
    renew();
    assert_in_range(descriptors_count(), before - 2, before); /* what was under way is gone */
}

/* What an exporter sends, and what does not belong there. */
typedef struct overheard {
    tnri_shared_block block;
    tnri_shared_chunk chunk;
    int memory, plain, pair[2];
} overheard;

static void cut_off(const overheard *it)
{
    expect_refusal(TNR_ERR_TRANSPORT); /* nothing at all */
    post("x", 1, -1);
    expect_refusal(TNR_ERR_TRANSPORT);
    post(&it->block, sizeof(it->block) - 1, it->pair[0]); /* cut off */
    expect_refusal(TNR_ERR_TRANSPORT);
    char longer[sizeof(it->block) + 1] = {0};
    memcpy(longer, &it->block, sizeof(it->block));
    post(longer, sizeof(longer), it->pair[0]);
    expect_refusal(TNR_ERR_TRANSPORT);
    post(&it->block, sizeof(it->block), -1); /* no socket with it */
    expect_refusal(TNR_ERR_TRANSPORT);
    post(&it->block, sizeof(it->block), it->plain); /* one that is none */
    expect_refusal(TNR_ERR_TRANSPORT);
    post(&it->block, sizeof(it->block), it->pair[0]); /* and then nothing */
    expect_refusal(TNR_ERR_TRANSPORT);
}

static void wrong_block(const overheard *it)
{
    static const struct {
        size_t at;
        uint64_t value;
    } wrong[] = {
        {offsetof(tnri_shared_block, magic), 1},
        {offsetof(tnri_shared_block, mapped_bytes), 0},
        {offsetof(tnri_shared_block, mapped_bytes), 1},
        {offsetof(tnri_shared_block, mapped_bytes), UINT64_MAX},
        {offsetof(tnri_shared_block, mapped_bytes), UINT64_C(1) << 61},
        {offsetof(tnri_shared_block, chunks_count), 0},
        {offsetof(tnri_shared_block, chunks_count), 1000},
        {offsetof(tnri_shared_block, chunks_count), UINT64_MAX},
        {offsetof(tnri_shared_block, offset), UINT64_MAX},
        {offsetof(tnri_shared_block, offset), 64 * MIB},
        {offsetof(tnri_shared_block, bytes), 0},
        {offsetof(tnri_shared_block, bytes), UINT64_MAX},
        {offsetof(tnri_shared_block, handle_type), 0},
        {offsetof(tnri_shared_block, handle_type), TNR_HANDLE_NONE},
        {offsetof(tnri_shared_block, handle_type), TNR_HANDLE_FABRIC}, /* its chunk has a file */
    };
    for (size_t i = 0; i < sizeof(wrong) / sizeof(wrong[0]); i++) {
        tnri_shared_block other = it->block;
        memcpy((char *)&other + wrong[i].at, &wrong[i].value, sizeof(uint64_t));
        post(&other, sizeof(other), it->pair[0]);
        post(&it->chunk, sizeof(it->chunk), it->memory);
        expect_refusal(TNR_ERR_TRANSPORT);
    }
    tnri_shared_block huge = it->block; /* sound, and more than there is */
    huge.mapped_bytes = UINT64_C(1) << 55;
    post(&huge, sizeof(huge), it->pair[0]);
    expect_refusal(TNR_ERR_ADDRESS_SPACE);
    tnri_shared_block elsewhere = it->block;
    elsewhere.uuid[3] ^= 1;
    post(&elsewhere, sizeof(elsewhere), it->pair[0]);
    expect_refusal(TNR_ERR_INVALID_DEVICE);
}

static void wrong_chunk(const overheard *it)
{
    tnri_shared_chunk bad[] = {it->chunk, it->chunk, it->chunk, it->chunk, it->chunk};
    bad[0].magic = 0;
    bad[1].index = 1;
    bad[2].bytes = 0;
    bad[3].bytes = 1;
    bad[4].bytes = UINT64_C(1) << 40;
    for (int i = 0; i < 5; i++) {
        post(&it->block, sizeof(it->block), it->pair[0]);
        post(&bad[i], sizeof(bad[i]), it->memory);
        expect_refusal(TNR_ERR_TRANSPORT);
    }
    post(&it->block, sizeof(it->block), it->pair[0]);
    post(&it->chunk, sizeof(it->chunk), -1);
    expect_refusal(TNR_ERR_TRANSPORT);
    post(&it->block, sizeof(it->block), it->pair[0]);
    post(&it->chunk, sizeof(it->chunk), it->plain); /* no it->memory of a device */
    expect_refusal(TNR_ERR_DRIVER);
    post(&it->block, sizeof(it->block), it->pair[0]);
    post(&it->chunk, sizeof(it->chunk), it->pair[1]);
    expect_refusal(TNR_ERR_DRIVER);
}

static void strangers(void **state)
{
    (void)state;
    start(NULL, NULL);
    overheard it;
    void *ptr = unit_malloc(3 * MIB, NULL);
    tnr_export exported = export_of(ptr);
    it.memory = overhear(exported, &it.block, &it.chunk);
    it.plain = open("/dev/zero", O_RDWR | O_CLOEXEC);
    renew();
    assert_int_equal(syscall(SYS_socketpair, AF_UNIX, SOCK_SEQPACKET, 0, it.pair), 0);
    cut_off(&it);
    wrong_block(&it);
    wrong_chunk(&it);
    assert_int_equal(info_of(exported).importers, 0);
    (void)close(it.memory);
    (void)close(it.plain);
    (void)close(it.pair[0]);
    (void)close(it.pair[1]);
    tnr_import_info info = pass_on(exported);
    assert_ok(tnr_import_close(info.ptr));
    assert_ok(tnr_export_close(exported));
    assert_ok(tnr_free(ptr));
    assert_ok(tnr_trim(NULL, 0, 0)); /* looks who is over */
    assert_int_equal(unit_stats().bytes_retired, 0);
}

/* ---- descriptors ---------------------------------------------------------------------------- */

/* The simulated device has a descriptor for memory that was ever exported. Counts without it. */
static unsigned descriptors_before(tnr_export exported)
{
    tnr_import_info info = pass_on(exported);
    assert_ok(tnr_import_close(info.ptr));
    assert_int_equal(info_of(exported).importers, 0);
    return descriptors_count();
}

static void each_call_fails(void **state)
{
    (void)state;
    static const int errors[] = {EMFILE, ENOBUFS, ENOMEM};
    start(NULL, NULL);
    void *ptr = unit_malloc(9 * MIB, NULL);
    tnr_export exported = export_of(ptr);
    unsigned before = descriptors_before(exported);
    for (unsigned nth = 1, done = 0; !done; nth++) {
        tnr_import_info info = {.struct_bytes = sizeof(info)};
        calls_fail_at(nth, errors[nth % 3]);
        tnr_status status = tnr_export_send(exported, sockets[EXPORTER]);
        if (status == TNR_OK) {
            status = tnr_import_receive(&info, sockets[IMPORTER], 0, NULL);
            if (status == TNR_OK)
                assert_ok(tnr_import_close(info.ptr));
        }
        done = calls_count() < nth;
        calls_fail_at(0, 0);
        if (status != TNR_OK)
            assert_int_equal(status, TNR_ERR_TRANSPORT);
        renew();
        assert_int_equal(info_of(exported).importers, 0);
        assert_int_equal(descriptors_count(), before);
        assert_ok(tnr_validate(-1));
    }
    assert_ok(tnr_export_close(exported));
    assert_ok(tnr_free(ptr));
}

/* A table of descriptors that is full, but for ever one more. */
static void few_descriptors(void **state)
{
    (void)state;
    start(NULL, NULL);
    void *ptr = unit_malloc(5 * MIB, NULL);
    tnr_export exported = export_of(ptr);
    struct rlimit limit, less;
    unsigned before = descriptors_before(exported), good = 0;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
    int first = dup(0);
    (void)close(first);
    for (int more = 0; more < 12; more++) {
        tnr_import_info info = {.struct_bytes = sizeof(info)};
        less = (struct rlimit){(rlim_t)(first + more), limit.rlim_max};
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &less), 0);
        tnr_status status = tnr_export_send(exported, sockets[EXPORTER]);
        if (status == TNR_OK)
            status = tnr_import_receive(&info, sockets[IMPORTER], 0, NULL);
        if (status == TNR_OK) {
            assert_ok(tnr_import_close(info.ptr));
            good++;
        }
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
        renew();
        assert_int_equal(info_of(exported).importers, 0);
        assert_int_equal(descriptors_count(), before);
    }
    assert_in_range(good, 1, 11);
    assert_ok(tnr_export_close(exported));
    assert_ok(tnr_free(ptr));
}

static unsigned parents;

static void child_looks(void *exported)
{
    tnr_export_info info = {.struct_bytes = sizeof(info)};
    tnr_import_info there = {.struct_bytes = sizeof(there)};
    tnr_export number = *(tnr_export *)exported;
    tnr_export_name name;
    if (descriptors_count() != parents)
        _exit(1);
    if (tnr_export_send(number, 0) != TNR_ERR_AFTER_FORK ||
        tnr_export_get(&info, number) != TNR_ERR_AFTER_FORK ||
        tnr_export_close(number) != TNR_ERR_AFTER_FORK ||
        tnr_export_create(&number, &info) != TNR_ERR_AFTER_FORK ||
        tnr_export_offer(&name, &info) != TNR_ERR_AFTER_FORK ||
        tnr_import_open(&there, &name, 0, NULL) != TNR_ERR_AFTER_FORK ||
        tnr_import_receive(&there, 0, 0, NULL) != TNR_ERR_AFTER_FORK ||
        tnr_import_get(&there, &info) != TNR_ERR_AFTER_FORK ||
        tnr_import_close(&info) != TNR_ERR_AFTER_FORK)
        _exit(2);
}

static void a_child_keeps_none(void **state)
{
    (void)state;
    start(NULL, NULL);
    void *ptr = unit_malloc(5 * MIB, NULL);
    tnr_export exported = export_of(ptr);
    parents = descriptors_before(exported);
    tnr_import_info info = pass_on(exported);
    assert_int_equal(info_of(exported).importers, 1);
    unsigned here = descriptors_count() - parents;
    assert_in_range(here, 2, 6);
    assert_int_equal(unit_in_child(child_looks, &exported, 0), 0);
    assert_int_equal(marked(info.ptr), marked(ptr)); /* nothing changed here */
    assert_ok(tnr_import_close(info.ptr));
    assert_int_equal(info_of(exported).importers, 0);
    assert_ok(tnr_export_close(exported));
    assert_ok(tnr_free(ptr));
}

#define CASE(test) cmocka_unit_test_teardown(test, stop)

int main(void)
{
    const struct CMUnitTest tests[] = {
        CASE(strangers),
        CASE(each_call_fails),
        CASE(few_descriptors),
        CASE(a_child_keeps_none),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
