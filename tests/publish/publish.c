/* SPDX-License-Identifier: Apache-2.0 */
/* See publish.h. */
#include "publish.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "await.h"
#include "own_folder.h"

char folder[64];

void start(const char *conf, const char *memory)
{
    char all[160];
    snprintf(folder, sizeof(folder), "/tmp/tenure-publish-XXXXXX");
    assert_non_null(mkdtemp(folder));
    snprintf(all, sizeof(all), "control_dir:%s%s%s", folder, conf == NULL ? "" : ",",
             conf == NULL ? "" : conf);
    unit_start(all, memory, NULL);
}

/* Every entry of the folder is a name's file: nothing is left half done. */
int stop(void **state)
{
    (void)folder_remove(folder);
    return unit_stop(state);
}

int there(const worker *who, uint64_t what, uint64_t value, const char *name, answer *said)
{
    memset(said, 0, sizeof(*said));
    (void)snprintf((char *)&said->name, sizeof(said->name), "%s", name);
    return worker_ask(who, what, value, said);
}

uint64_t must(const worker *who, uint64_t what, uint64_t value)
{
    answer said;
    assert_true(there(who, what, value, "w", &said));
    assert_int_equal(said.status, TNR_OK);
    return said.value;
}

tnr_status tried(const worker *who, uint64_t what, uint64_t value)
{
    answer said;
    assert_true(there(who, what, value, "w", &said));
    return (tnr_status)said.status;
}

tnr_status attach(tnr_import_info *info, int same_address)
{
    tnr_import_options options = TNR_IMPORT_OPTIONS_INIT;
    options.same_address = same_address;
    *info = (tnr_import_info){.struct_bytes = sizeof(*info)};
    return tnr_attach(info, "w", 0, &options);
}

tnr_pool shared_pool(void)
{
    tnr_pool pool;
    tnr_pool_options options = TNR_POOL_OPTIONS_INIT;
    options.is_shared = 1;
    assert_ok(tnr_pool_create(&pool, 0, &options));
    return pool;
}

tnr_status publish(tnr_pool pool, size_t bytes, unsigned word, const tnr_publish_options *options)
{
    void *ptr;
    assert_ok(tnr_pool_malloc(&ptr, pool, bytes, 0, NULL));
    mark(ptr, word);
    tnr_status status = tnr_publish(NULL, "w", ptr, options);
    assert_ok(tnr_free(ptr));
    return status;
}

void all_is_free_at_last(void)
{
    await_true(tnr_trim(NULL, 0, 0) == TNR_OK && unit_stats().reserved_bytes.current == 0);
}
