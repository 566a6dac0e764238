/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Published blocks: this process and workers (export/worker.h) publish, hold and attach. They die
 * at every system call of each of these steps, every such call is made to fail, and they run out of
 * descriptors.
 *
 * Lines of the library changed to see it fail:
 *   access_give always for writing too: there_and_back
 *   ladder_take as for other pools: there_and_back, chunks_are_large
 *   chunk_bytes_most without is_shared: chunks_are_large
 *   tnri_imported_label left out: snapshots_name_imports
 *   older_check that lets 100 more pass; an importer counted when all is sent:
 *     generations_that_never_end
 *   notice_check that refuses nobody: names_that_exist
 *   latest_end that closes nothing: generations
 *   tnr_unpublish that leaves the notice, or itself in it: there_and_back
 *   tnri_offered_is_there always 1: names_that_exist, who_publishes_dies
 *   tnri_notice_read without the magic number: names_that_are_none
 *   tnri_notice_write in place, without a rename: who_publishes_dies, calls_fail
 *   an exporter that hangs up without a word: no_descriptors
 *   an import counted in the reader's reserved_bytes: imports_are_the_holders
 *   tnr_attach that tries once, or, on a quick machine, 16 times: generations_under_load
 */
#include "publish.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/types.h>
#include <unistd.h>

#include <cuda.h>

#include "await.h"

/* ---- what it does --------------------------------------------------------------------------- */

static void there_and_back(void **state)
{
    (void)state;
    start(NULL, "MEMORY=256M");
    tnr_import_info info, second;
    tnr_published_info known = {.struct_bytes = sizeof(known)};
    unsigned long long flags = 0;
    const CUmemLocation place = {.type = CU_MEM_LOCATION_TYPE_DEVICE};
    worker other = worker_start();
    assert_error(attach(&info, 0), TNR_ERR_INVALID_EXPORT, "no process holds");
    assert_error(tnr_published_get(&known, "w"), TNR_ERR_INVALID_EXPORT, "ever");
    uint64_t address = must(&other, 'P', 77);
    void *own = unit_malloc(40 * MIB, NULL); /* this process has begun to use its addresses */
    assert_ok(attach(&info, SAME));
    assert_true(!SAME || (uintptr_t)info.ptr == address);
    assert_int_equal(marked(info.ptr), 77);
    assert_int_equal(info.bytes, 9 * MIB);
    assert_int_equal(info.generation, 1);
    assert_int_equal(info.process, other.process);
    assert_string_equal(info.published, "w");
    assert_int_equal(info.is_read_only, 1);
    assert_int_equal(cuMemGetAccess(&flags, &place, (CUdeviceptr)(uintptr_t)info.ptr),
                     CUDA_SUCCESS);
    assert_int_equal(flags, CU_MEM_ACCESS_FLAGS_PROT_READ);
    assert_ok(attach(&second, SAME));
    assert_ptr_equal(second.ptr, info.ptr);
    assert_ok(tnr_published_get(&known, "w"));
    assert_int_equal(known.generation, 1);
    assert_int_equal(known.bytes, 9 * MIB);
    assert_int_equal(known.holders, 1);
    assert_int_equal(known.processes[0], other.process);
    second = (tnr_import_info){.struct_bytes = sizeof(second)};
    assert_ok(tnr_import_at(&second, 0));
    assert_string_equal(second.published, "w");
    assert_error(tnr_import_at(&second, 1), TNR_ERR_INVALID_ARGUMENT, "index is 1");
    (void)must(&other, 'U', 0);
    assert_int_equal(tried(&other, 'U', 0), TNR_ERR_INVALID_EXPORT);
    assert_error(attach(&second, 0), TNR_ERR_INVALID_EXPORT, "unpublished");
    assert_int_equal(marked(info.ptr), 77);
    assert_ok(tnr_import_close(info.ptr));
    assert_ok(tnr_import_close(info.ptr));
    assert_ok(tnr_free(own));
    assert_true(worker_end(&other, 0));
}

/* A snapshot names what is imported, and from whom. */
static void snapshots_name_imports(void **state)
{
    (void)state;
    start(NULL, NULL);
    char path[96], wanted[128], text[65536];
    tnr_import_info info;
    worker other = worker_start();
    (void)must(&other, 'P', 77);
    assert_ok(attach(&info, 0));
    snprintf(path, sizeof(path), "%s/memory.json", folder);
    assert_ok(tnr_snapshot_write(path, TNR_SNAPSHOT_AUTO));
    FILE *file = fopen(path, "r");
    assert_non_null(file);
    text[fread(text, 1, sizeof(text) - 1, file)] = '\0';
    (void)fclose(file);
    snprintf(wanted, sizeof(wanted),
             "\"process\":%d,\"published\":\"w\",\"generation\":1,\"read_only\":true}",
             (int)other.process);
    assert_non_null(strstr(text, wanted));
    assert_ok(tnr_import_close(info.ptr));
    assert_true(worker_end(&other, 0));
}

/* A driver that has no such thing maps for writing too, and it is said. */
static void without_protection(void **state)
{
    (void)state;
    start(NULL, NULL);
    tnr_import_info info;
    worker other = worker_start();
    (void)must(&other, 'P', 77);
    assert_ok(tnr_free(unit_malloc(MIB, NULL)));
    simcuda_fail("cuMemSetAccess", 1, 0, CUDA_ERROR_NOT_SUPPORTED);
    assert_ok(attach(&info, 0));
    assert_int_equal(info.is_read_only, 0);
    assert_int_equal(marked(info.ptr), 77);
    assert_ok(tnr_import_close(info.ptr));
    assert_true(worker_end(&other, 0));
}

static uint64_t chunks_count(void)
{
    simcuda_live live;
    assert_int_equal(simcuda_live_get(-1, &live), 0);
    return live.handles;
}

/* Few chunks, far from where others begin. */
static void chunks_are_large(void **state)
{
    (void)state;
    start("address_space_gb:64", "MEMORY=2G");
    void *large, *odd, *plain = unit_malloc(512 * MIB, NULL);
    uint64_t before = chunks_count();
    tnr_pool pool = shared_pool();
    assert_ok(tnr_pool_malloc(&large, pool, 512 * MIB, 0, NULL));
    assert_int_equal(chunks_count(), before + 1);
    assert_ok(tnr_pool_malloc(&odd, pool, 256 * MIB + 1, 0, NULL));
    assert_int_equal(chunks_count(), before + 2);
    assert_true((uintptr_t)large - (uintptr_t)plain >= 16 * GIB);
    assert_ok(tnr_free(odd));
    assert_ok(tnr_free(large));
    assert_ok(tnr_free(plain));
}

static void generations(void **state)
{
    (void)state;
    start(NULL, "MEMORY=256M");
    worker one = worker_start(), two = worker_start();
    tnr_pool pool = shared_pool();
    tnr_publication_info info = {.struct_bytes = sizeof(info)};
    assert_ok(publish(pool, 40 * MIB, 11, NULL));
    uint64_t first = must(&one, 'A', SAME);
    assert_ok(publish(pool, 40 * MIB, 22, NULL));
    assert_int_equal(must(&two, 'G', 0), 2);
    uint64_t second = must(&two, 'A', SAME);
    assert_int_equal(must(&one, 'q', first), 11);
    assert_int_equal(must(&two, 'q', second), 22);
    assert_ok(tnr_publication_at(&info, 0));
    assert_int_equal(info.generation, 2);
    assert_int_equal(info.is_latest, 1);
    assert_int_equal(info.processes[0], two.process);
    assert_ok(tnr_publication_at(&info, 1));
    assert_int_equal(info.generation, 1);
    assert_int_equal(info.is_latest, 0);
    assert_int_equal(info.readers, 1);
    assert_int_equal(info.processes[0], one.process);
    assert_ok(tnr_trim(NULL, 0, 0));
    assert_true(unit_stats().reserved_bytes.current >= 80 * MIB); /* both are there */
    /* The one who had the first goes on with the second. */
    uint64_t next = must(&one, 'A', SAME);
    (void)must(&one, 'z', first);
    assert_int_equal(must(&one, 'q', next), 22);
    assert_ok(tnr_trim(NULL, 0, 0));
    assert_true(unit_stats().reserved_bytes.current < 80 * MIB);
    assert_ok(tnr_unpublish("w"));
    assert_error(tnr_publication_at(&info, 2), TNR_ERR_INVALID_ARGUMENT, "index is 2");
    assert_ok(publish(pool, MIB, 33, NULL)); /* numbers go on */
    assert_int_equal(must(&two, 'G', 0), 3);
    assert_ok(tnr_unpublish("w"));
    assert_false(worker_end(&two, 1));
    (void)must(&one, 'z', next);
    all_is_free_at_last();
    assert_true(worker_end(&one, 0));
}

/* Readers that never close are as many generations as may be, and then nothing changes. */
static void generations_that_never_end(void **state)
{
    (void)state;
    start(NULL, "MEMORY=256M");
    worker one = worker_start();
    tnr_pool pool = shared_pool();
    uint64_t open[3];
    tnr_publish_options options = TNR_PUBLISH_OPTIONS_INIT;
    options.older_max = 2;
    calls_send_slowly(50); /* a reader that goes on at once is one already */
    for (unsigned i = 0; i < 3; i++) {
        assert_ok(publish(pool, 4 * MIB, i + 1, &options));
        open[i] = must(&one, 'A', 0);
    }
    calls_send_slowly(0);
    assert_error(publish(pool, 4 * MIB, 9, &options), TNR_ERR_BUSY, "Generation 1 has 1 reader,");
    assert_int_equal(must(&one, 'G', 0), 3);
    (void)must(&one, 'z', open[0]);
    assert_ok(publish(pool, 4 * MIB, 4, &options));
    assert_int_equal(must(&one, 'q', open[1]), 2);
    assert_ok(tnr_unpublish("w"));
    assert_false(worker_end(&one, 1));
    all_is_free_at_last();
}

static void names_that_exist(void **state)
{
    (void)state;
    start(NULL, NULL);
    tnr_import_info info;
    worker other = worker_start();
    tnr_pool pool = shared_pool();
    tnr_publish_options replace = TNR_PUBLISH_OPTIONS_INIT;
    replace.replace = 1;
    (void)must(&other, 'P', 1);
    assert_error(publish(pool, MIB, 2, NULL), TNR_ERR_BUSY, "holds the name");
    assert_ok(publish(pool, MIB, 2, &replace));
    assert_error(attach(&info, 0), TNR_ERR_INVALID_ARGUMENT, "own");
    uint64_t ptr = must(&other, 'A', 0);
    assert_int_equal(must(&other, 'q', ptr), 2);
    (void)must(&other, 'z', ptr);
    assert_int_equal(tried(&other, 'P', 3), TNR_ERR_BUSY);
    (void)must(&other, 'Q', 3);
    assert_ok(tnr_unpublish("w")); /* which is the other's by now, and stays so */
    assert_ok(attach(&info, 0));
    assert_int_equal(info.generation, 3);
    assert_ok(tnr_import_close(info.ptr));
    (void)worker_end(&other, 1);
    assert_ok(publish(pool, MIB, 4, NULL)); /* who has died holds nothing */
    assert_ok(tnr_unpublish("w"));
}

static void file_make(const char *name, const void *data, size_t bytes)
{
    char path[160];
    snprintf(path, sizeof(path), "%s/%s", folder, name);
    FILE *file = fopen(path, "w");
    assert_non_null(file);
    assert_int_equal(fwrite(data, 1, bytes, file), bytes);
    assert_int_equal(fclose(file), 0);
}

static void names_that_are_none(void **state)
{
    (void)state;
    start(NULL, NULL);
    static const char *const bad[] = {
        "",
        ".w",
        "a/b",
        "a b",
        "\xc3\xa4",
        ("0123456789012345678901234567890123456789012345678901234567890"
         "123")};
    const uint64_t junk[20] = {0x6b6e756a, 1, 1}; /* all but the first word is as it may be */
    tnr_import_info info;
    tnr_published_info known = {.struct_bytes = sizeof(known)};
    tnr_pool pool = shared_pool();
    void *ptr;
    assert_ok(tnr_pool_malloc(&ptr, pool, MIB, 0, NULL));
    for (size_t i = 0; i < sizeof(bad) / sizeof(bad[0]); i++) {
        assert_error(tnr_publish(NULL, bad[i], ptr, NULL), TNR_ERR_INVALID_ARGUMENT, "not a name");
        assert_error(tnr_hold(NULL, bad[i], NULL), TNR_ERR_INVALID_ARGUMENT, "not a name");
    }
    assert_error(tnr_publish(NULL, NULL, ptr, NULL), TNR_ERR_INVALID_ARGUMENT, "null");
    assert_error(tnr_publish(NULL, "w", junk, NULL), TNR_ERR_FOREIGN_POINTER, "");
    assert_error(tnr_unpublish("w"), TNR_ERR_INVALID_EXPORT, "holds nothing");
    /* Another version's, as long as ours, and one of another length. */
    for (size_t bytes = sizeof(junk); bytes > 0; bytes -= sizeof(junk) / 2) {
        file_make("w.published", junk, bytes);
        assert_error(tnr_publish(NULL, "w", ptr, NULL), TNR_ERR_FILE, "not of this version");
        assert_error(tnr_hold(NULL, "w", NULL), TNR_ERR_FILE, "not of this version");
        assert_error(tnr_published_get(&known, "w"), TNR_ERR_FILE, "not of this version");
        assert_error(attach(&info, 0), TNR_ERR_FILE, "not of this version");
    }
    assert_ok(tnr_publish(NULL, "v", ptr, NULL));
    assert_int_equal(chmod(folder, 0755), 0); /* others may look */
    assert_error(tnr_unpublish("v"), TNR_ERR_FILE, "mode 755");
    assert_error(tnr_publish(NULL, "w", ptr, NULL), TNR_ERR_FILE, "mode 755");
    assert_error(attach(&info, 0), TNR_ERR_FILE, "mode 755");
    assert_error(attach(&info, 0), TNR_ERR_FILE, "published names: ");
    assert_int_equal(chmod(folder, 0700), 0);
    assert_ok(tnr_unpublish("v"));
    assert_ok(tnr_free(ptr));
}

/* What readers have stays physical: it counts, is not given back, and does not sleep. */
static void memory_counts(void **state)
{
    (void)state;
    start(NULL, "MEMORY=64M");
    void *ptr;
    worker other = worker_start();
    tnr_pool pool = shared_pool();
    assert_ok(publish(pool, 40 * MIB, 5, NULL));
    uint64_t open = must(&other, 'A', 0);
    assert_ok(tnr_unpublish("w"));
    assert_ok(tnr_trim(NULL, 0, 0));
    assert_ok(tnr_pool_trim(NULL, pool, 0, 0));
    assert_int_equal(unit_stats().reserved_bytes.current, 40 * MIB);
    assert_error(tnr_pool_sleep(pool, 0, NULL), TNR_ERR_BUSY, "1 importer has blocks");
    assert_error(tnr_pool_destroy(pool), TNR_ERR_BUSY, "1 importer has some");
    assert_ok(tnr_limit_set(48 * MIB, 0));
    assert_error(tnr_malloc(&ptr, 10 * MIB, 0, NULL), TNR_ERR_LIMIT, "");
    assert_int_equal(must(&other, 'q', open), 5);
    (void)must(&other, 'z', open);
    assert_ok(tnr_malloc(&ptr, 10 * MIB, 0, NULL));
    assert_ok(tnr_free(ptr));
    assert_ok(tnr_pool_sleep(pool, 0, NULL));
    assert_ok(tnr_pool_wake(pool, 0));
    assert_ok(tnr_pool_destroy(pool));
    assert_true(worker_end(&other, 0));
}

/* In a reader what it has of others is no memory of its own: no limit binds it, a trim leaves it,
 * and a sleep of all that is the reader's leaves it where it is. */
static void imports_are_the_holders(void **state)
{
    (void)state;
    start(NULL, "MEMORY=64M");
    void *ptr;
    tnr_import_info info;
    worker other = worker_start();
    (void)must(&other, 'P', 77);
    assert_ok(tnr_malloc(&ptr, 8 * MIB, 0, NULL));
    uint64_t own = unit_stats().reserved_bytes.current;
    assert_ok(tnr_limit_set(own, 0));
    assert_ok(attach(&info, SAME));
    assert_int_equal(unit_stats().reserved_bytes.current, own);
    assert_ok(tnr_free(ptr));
    assert_ok(tnr_trim(NULL, 0, 0));
    assert_int_equal(unit_stats().reserved_bytes.current, 0);
    assert_int_equal(marked(info.ptr), 77);
    assert_ok(tnr_malloc(&ptr, 8 * MIB, 0, NULL)); /* the limit has room for all of it */
    assert_ok(tnr_device_sleep(0, NULL));
    assert_int_equal(marked(info.ptr), 77);
    assert_ok(tnr_device_wake(0));
    assert_int_equal(marked(info.ptr), 77);
    assert_ok(tnr_import_close(info.ptr));
    assert_ok(tnr_free(ptr));
    assert_true(worker_end(&other, 0));
}

/* ---- deaths --------------------------------------------------------------------------------- */

/* What is left is the former generation, the new one, or none; and names serve again. */
static void who_publishes_dies(void **state)
{
    (void)state;
    start(NULL, NULL);
    tnr_import_info info;
    int dies = 1;
    for (unsigned nth = 1; dies; nth++) {
        answer said;
        worker other = worker_start(), next = worker_start();
        (void)must(&other, 'Q', 10);
        (void)must(&other, 'k', nth);
        dies = !(there(&other, 'P', 20, "w", &said) && there(&other, 'U', 0, "w", &said));
        (void)worker_end(&other, dies);
        tnr_status status = attach(&info, 0);
        assert_true(status == TNR_ERR_TRANSPORT || status == TNR_ERR_INVALID_EXPORT);
        (void)must(&next, 'P', 30);
        assert_ok(attach(&info, 0));
        assert_int_equal(marked(info.ptr), 30);
        assert_ok(tnr_import_close(info.ptr));
        assert_true(worker_end(&next, 0));
    }
}

static void who_attaches_or_holds_dies(void **state)
{
    (void)state;
    for (int holds = 0; holds < 2; holds++) {
        start(NULL, "MEMORY=64M");
        tnr_pool pool = shared_pool();
        int dies = 1;
        for (unsigned nth = 1; dies; nth++) {
            answer said;
            worker other = worker_start(), next = worker_start();
            assert_ok(publish(pool, 40 * MIB, nth, NULL));
            (void)must(&other, 'k', nth);
            if (holds)
                dies = !(there(&other, 'H', 0, "w", &said) && there(&other, 'U', 0, "w", &said));
            else
                dies = !(there(&other, 'A', 0, "w", &said) &&
                         there(&other, 'z', said.value, "w", &said));
            (void)worker_end(&other, dies);
            uint64_t open = must(&next, 'A', 0);
            assert_int_equal(must(&next, 'q', open), nth);
            (void)must(&next, 'z', open);
            assert_ok(tnr_unpublish("w"));
            all_is_free_at_last();
            assert_true(worker_end(&next, 0));
        }
        (void)stop(NULL);
    }
    start(NULL, NULL);
}

/* ---- failures ------------------------------------------------------------------------------- */

/* Every call fails; what was asked for is refused or done, and the next try serves. */
static void calls_fail(void **state)
{
    (void)state;
    start(NULL, NULL);
    worker publisher = worker_start(), holder = worker_start(), reader = worker_start();
    static const char what[] = "PHA";
    (void)must(&publisher, 'P', 1);
    (void)must(&holder, 'H', 0);
    (void)must(&holder, 'U', 0);
    for (size_t i = 0; i < 3; i++) {
        const worker *who = i == 0 ? &publisher : i == 1 ? &holder : &reader;
        unsigned before = worker_descriptors(who->process), taken = i == 0 ? 0 : 1;
        int fails = 1;
        for (unsigned nth = 1; fails; nth++) {
            answer said;
            (void)must(who, 'e', nth);
            assert_true(there(who, (uint64_t)what[i], 0, "w", &said));
            fails = worker_must(who, 'n', 0) >= nth;
            (void)must(who, 'e', 0);
            if (said.status == TNR_OK && what[i] == 'A')
                (void)must(who, 'z', said.value);
            else if (said.status == TNR_OK && what[i] == 'H')
                (void)must(who, 'U', 0);
            else if (said.status != TNR_OK)
                assert_true(said.status == TNR_ERR_FILE || said.status == TNR_ERR_TRANSPORT);
            await_true(worker_descriptors(who->process) <= before + taken);
        }
        uint64_t value = must(who, (uint64_t)what[i], 0);
        if (what[i] == 'A')
            (void)must(who, 'z', value);
    }
    assert_true(worker_end(&reader, 0));
    assert_true(worker_end(&holder, 0));
    assert_true(worker_end(&publisher, 0));
}

/* A full table of descriptors, there and here, is told, and nothing is lost. */
static void no_descriptors(void **state)
{
    (void)state;
    start(NULL, NULL);
    tnr_import_info info;
    worker publisher = worker_start(), reader = worker_start();
    (void)must(&publisher, 'P', 77);
    assert_ok(tnr_free(unit_malloc(MIB, NULL)));
    (void)must(&reader, 'z', must(&reader, 'A', 0));
    for (uint64_t more = 0; more < 12; more++) {
        answer said;
        (void)must(&reader, 'L', more);
        assert_true(there(&reader, 'A', 0, "w", &said));
        (void)must(&reader, 'L', (uint64_t)-1);
        if (said.status == TNR_OK) {
            (void)must(&reader, 'z', said.value);
            break;
        }
        assert_true(said.status == TNR_ERR_TRANSPORT || said.status == TNR_ERR_FILE ||
                    said.status == TNR_ERR_DRIVER);
    }
    /* One, for who comes in, and none for the pair of sockets. A connection of before that is
     * closed there only now leaves room for more: then once more. */
    tnr_status status = TNR_OK;
    for (int tries = 0; status == TNR_OK && tries < 1000; tries++) {
        (void)must(&publisher, 'L', 1);
        status = attach(&info, 0);
        if (status == TNR_OK) {
            assert_ok(tnr_import_close(info.ptr));
            (void)must(&publisher, 'L', (uint64_t)-1);
        }
    }
    assert_error(status, TNR_ERR_TRANSPORT, "ulimit -n");
    (void)must(&publisher, 'L', (uint64_t)-1);
    assert_ok(attach(&info, 0));
    assert_ok(tnr_import_close(info.ptr));
    assert_true(worker_end(&reader, 0));
    assert_true(worker_end(&publisher, 0));
}

/* ---- under load ----------------------------------------------------------------------------- */

enum { READERS = 4 };

static _Atomic int readers_stop;

/* Attaches whatever is the latest, whose word is its generation, until there is no more. */
static void *reader_run(void *nothing)
{
    uintptr_t wrong = 0;
    uint64_t seen = 0;
    (void)nothing;
    while (!atomic_load(&readers_stop)) {
        tnr_import_info info;
        tnr_status status = attach(&info, 0);
        if (status == TNR_ERR_INVALID_EXPORT && seen == 0)
            continue; /* the first is still to come */
        int is_wrong =
            status != TNR_OK || info.generation < seen || marked(info.ptr) != info.generation;
        if (is_wrong)
            print_error("reader: status %d (%s), generation %llu after %llu\n", (int)status,
                        status == TNR_OK ? "" : tnr_last_error(),
                        (unsigned long long)(status == TNR_OK ? info.generation : 0),
                        (unsigned long long)seen);
        wrong += (uintptr_t)is_wrong;
        seen = status == TNR_OK ? info.generation : seen;
        wrong += status == TNR_OK && tnr_import_close(info.ptr) != TNR_OK;
    }
    return (void *)wrong;
}

static void generations_under_load(void **state)
{
    (void)state;
    start(NULL, NULL);
    const char *rounds = getenv("PUBLISH_ROUNDS");
    pthread_t threads[READERS];
    worker other = worker_start();
    assert_ok(tnr_free(unit_malloc(MIB, NULL)));
    atomic_store(&readers_stop, 0);
    for (int i = 0; i < READERS; i++)
        assert_int_equal(pthread_create(&threads[i], NULL, reader_run, NULL), 0);
    (void)must(&other, 'R', rounds == NULL ? 40 : strtoull(rounds, NULL, 10));
    atomic_store(&readers_stop, 1);
    for (int i = 0; i < READERS; i++) {
        void *wrong;
        assert_int_equal(pthread_join(threads[i], &wrong), 0);
        assert_null(wrong);
    }
    assert_true(worker_end(&other, 0));
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "worker") == 0)
        return worker_work();
    const struct CMUnitTest tests[] = {
        CASE(there_and_back),
        CASE(snapshots_name_imports),
        CASE(without_protection),
        CASE(chunks_are_large),
        CASE(generations),
        CASE(generations_that_never_end),
        CASE(names_that_exist),
        CASE(names_that_are_none),
        CASE(memory_counts),
        CASE(imports_are_the_holders),
        CASE(who_publishes_dies),
        CASE(who_attaches_or_holds_dies),
        CASE(calls_fail),
        CASE(no_descriptors),
        CASE(generations_under_load),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
