/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guarantee 3 for what is published: any driver call, and any allocation of host memory, may fail
 * while this process publishes, takes over and attaches. Another process, which no fault concerns,
 * is the other side.
 */
#include "fault/fault.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <tenure/tenure.h>

#include "await.h"

static char conf[96], folder[] = "/tmp/tenure-faults-XXXXXX";

/* The other process: holds "theirs" until its parent ends. */
static int other_run(int ready)
{
    void *ptr;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (tnr_malloc(&ptr, 3 * MIB, 0, NULL) != TNR_OK ||
        tnr_publish(NULL, "theirs", ptr, NULL) != TNR_OK || write(ready, "", 1) != 1) {
        fprintf(stderr, "the other process: %s\n", tnr_last_error());
        return 1;
    }
    for (;;)
        (void)pause();
}

static int other_start(void)
{
    int ready[2];
    char byte;
    if (pipe(ready) != 0)
        return 0;
    pid_t process = fork();
    if (process == 0) {
        char text[16], program[] = "/proc/self/exe";
        char *arguments[] = {program, text, NULL};
        (void)snprintf(text, sizeof(text), "%d", ready[1]);
        (void)execv(program, arguments);
        _exit(127);
    }
    (void)close(ready[1]);
    int is_there = process > 0 && read(ready[0], &byte, 1) == 1;
    (void)close(ready[0]);
    return is_there;
}

/* ---- scenarios ------------------------------------------------------------------------------ */

static void *import;

static void settle(fault_run *run)
{
    if (import != NULL)
        (void)step_status(run, tnr_import_close(import), "tnr_import_close");
    import = NULL;
    assert_int_equal(tnr_import_close(NULL), TNR_ERR_FOREIGN_POINTER); /* takes back what is left */
    tnr_status ours = tnr_unpublish("ours"), theirs = tnr_unpublish("theirs");
    assert_true(ours == TNR_OK || ours == TNR_ERR_INVALID_EXPORT);
    assert_true(theirs == TNR_OK || theirs == TNR_ERR_INVALID_EXPORT);
    tnr_publication_info info = {.struct_bytes = sizeof(info)};
    await_true(tnr_publication_at(&info, 0) != TNR_OK);
    step_trim(run, 0);
    tnr_stats stats = {.struct_bytes = sizeof(stats)};
    assert_int_equal(tnr_stats_get(&stats, NULL, 0), TNR_OK);
    assert_int_equal(stats.blocks_retired, 0);
}

static void prepare(fault_run *run)
{
    run->settle = settle;
    step_malloc(run, 0, 5 * MIB, 0, -1, 0);
    prepare_fill(run, 0);
    step_malloc(run, 1, 3 * MIB, 0, -1, 1);
    prepare_fill(run, 1);
}

/* Freed while it is published, it stays retired until there is a next one. */
static void publish_body(fault_run *run)
{
    uint64_t generation;
    (void)step_status(run, tnr_publish(&generation, "ours", run->slots[0].ptr, NULL),
                      "tnr_publish");
    step_free(run, 0);
    (void)step_status(run, tnr_publish(&generation, "ours", run->slots[1].ptr, NULL),
                      "tnr_publish");
    step_malloc(run, 2, 40 * MIB, 0, -1, 0);
    step_trim(run, 0);
}

static void attach_body(fault_run *run)
{
    for (int i = 0; i < 2; i++) {
        tnr_import_info info = {.struct_bytes = sizeof(info)};
        if (import == NULL &&
            step_status(run, tnr_attach(&info, "theirs", 0, NULL), "tnr_attach") == TNR_OK)
            import = info.ptr;
        if (import != NULL &&
            step_status(run, tnr_import_close(import), "tnr_import_close") == TNR_OK)
            import = NULL;
    }
    step_malloc(run, 2, 3 * MIB, 0, -1, 0);
}

static void hold_body(fault_run *run)
{
    (void)step_status(run, tnr_hold(NULL, "theirs", NULL), "tnr_hold");
    step_malloc(run, 2, 3 * MIB, 0, -1, 0);
}

/* A pool far away, whose addresses and chunks may be refused. */
static void shared_body(fault_run *run)
{
    tnr_pool_options options = TNR_POOL_OPTIONS_INIT;
    options.is_shared = 1;
    if (step_status(run, tnr_pool_create(&run->pools[0], 0, &options), "tnr_pool_create") != TNR_OK)
        return;
    step_malloc(run, 2, 6 * MIB, 0, 0, 0);
    if (run->slots[2].ptr != NULL)
        (void)step_status(run, tnr_publish(NULL, "ours", run->slots[2].ptr, NULL), "tnr_publish");
    step_free(run, 2);
}

int main(int argc, char **argv)
{
    if (argc == 2 && strspn(argv[1], "0123456789") == strlen(argv[1]))
        return other_run((int)strtol(argv[1], NULL, 10));
    if (mkdtemp(folder) == NULL)
        return 1;
    (void)snprintf(conf, sizeof(conf), "control_dir:%s", folder);
    (void)setenv("TENURE_CONF", conf, 1);
    if (!other_start())
        return 1;
    const fault_scenario scenarios[] = {
        {"published, freed, and again", conf, "64M", prepare, publish_body},
        {"attached", conf, "256M", prepare, attach_body},
        {"taken over", conf, "256M", prepare, hold_body},
        {"from a pool that is shared", conf, "256M", prepare, shared_body},
    };
    int result = fault_main(scenarios, sizeof(scenarios) / sizeof(scenarios[0]), argc, argv);
    static const char *const files[] = {"ours.published", "theirs.published"};
    for (size_t i = 0; i < 2; i++) {
        char path[128];
        (void)snprintf(path, sizeof(path), "%s/%s", folder, files[i]);
        (void)unlink(path);
    }
    (void)rmdir(folder);
    return result;
}
