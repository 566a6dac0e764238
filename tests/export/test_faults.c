/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Guarantee 3 for exports and imports: any driver call, and any allocation of host memory, may fail
 * on the way. Nothing stays mapped or held without an owner, and released memory serves again.
 *
 * Lines of the library changed to see it fail:
 *   addresses_give_back without handle_release's status: export and import, freed while it is open
 *   what could not be taken back of a failed import freed, not kept: the same
 */
#include "fault/fault.h"

#include <stdio.h>
#include <sys/socket.h>
#include <unistd.h>

#include <tenure/tenure.h>

static int sockets[2];
static tnr_export exported;
static void *import;

static void sockets_renew(void)
{
    for (int i = 0; i < 2; i++)
        if (sockets[i] > 0)
            (void)close(sockets[i]);
    assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets), 0);
}

static void step_export(fault_run *run, int slot)
{
    if (run->slots[slot].ptr != NULL)
        (void)step_status(run, tnr_export_create(&exported, run->slots[slot].ptr),
                          "tnr_export_create");
}

static void step_pass_on(fault_run *run)
{
    tnr_import_info info = {.struct_bytes = sizeof(info)};
    sockets_renew();
    if (exported == 0 ||
        step_status(run, tnr_export_send(exported, sockets[0]), "tnr_export_send") != TNR_OK)
        return;
    if (step_status(run, tnr_import_receive(&info, sockets[1], 0, NULL), "tnr_import_receive") ==
        TNR_OK)
        import = info.ptr;
    else
        assert_null(info.ptr);
}

static void step_import_close(fault_run *run)
{
    if (import != NULL && step_status(run, tnr_import_close(import), "tnr_import_close") == TNR_OK)
        import = NULL;
}

static void step_export_close(fault_run *run)
{
    if (exported != 0 && step_status(run, tnr_export_close(exported), "tnr_export_close") == TNR_OK)
        exported = 0;
}

/* Faults are off: what is open is closed, and then nobody has anything. */
static void settle(fault_run *run)
{
    tnr_export_info info = {.struct_bytes = sizeof(info)};
    sockets_renew(); /* what lies in them could still be imported */
    step_import_close(run);
    assert_int_equal(tnr_import_close(NULL), TNR_ERR_FOREIGN_POINTER); /* takes back what is left */
    if (exported != 0) {
        assert_int_equal(tnr_export_get(&info, exported), TNR_OK);
        assert_int_equal(info.importers, 0);
    }
    step_export_close(run);
    step_trim(run, 0);
    tnr_stats stats = {.struct_bytes = sizeof(stats)};
    assert_int_equal(tnr_stats_get(&stats, NULL, 0), TNR_OK);
    assert_int_equal(stats.blocks_retired, 0);
}

static void prepare(fault_run *run)
{
    run->settle = settle;
    exported = 0;
    import = NULL;
    step_malloc(run, 0, 5 * MIB, 0, -1, 0);
    prepare_fill(run, 0);
    step_malloc(run, 1, 1 * MIB, 0, -1, 1);
    prepare_fill(run, 1);
}

static void exchange_body(fault_run *run)
{
    step_export(run, 0);
    step_pass_on(run);
    step_malloc(run, 2, 3 * MIB, 0, -1, 0);
    step_import_close(run);
    step_export_close(run);
}

static void freed_body(fault_run *run)
{
    step_export(run, 0);
    step_pass_on(run);
    step_free(run, 0);
    step_export_close(run);
    step_import_close(run);
    step_malloc(run, 2, 40 * MIB, 0, -1, 1);
    step_trim(run, 0);
}

static void offer_body(fault_run *run)
{
    tnr_export_name name;
    for (int i = 0; i < 2; i++)
        (void)step_status(run, tnr_export_offer(&name, run->slots[0].ptr), "tnr_export_offer");
    step_malloc(run, 2, 3 * MIB, 0, -1, 0);
    step_free(run, 0);
    step_malloc(run, 3, 40 * MIB, 0, -1, 1);
    step_trim(run, 0);
}

static void open_prepare(fault_run *run)
{
    prepare(run);
    step_export(run, 0);
    step_pass_on(run);
}

static void sleep_body(fault_run *run)
{
    tnr_status status = tnr_pool_sleep(NULL, 0, NULL);
    assert_int_not_equal(status, TNR_OK); /* somebody has a block of it open */
    (void)step_status(run, status, "tnr_pool_sleep");
    step_import_close(run);
}

static void force_settle(fault_run *run)
{
    (void)run;
    sockets_renew();
    if (tnr_import_close(import) == TNR_OK) /* the end did not come to that */
        import = NULL;
    if (tnr_export_close(exported) == TNR_OK)
        exported = 0;
}

static void force_body(fault_run *run)
{
    run->settle = force_settle;
    step_free(run, 0);
    step_shutdown(run, 1);
}

static const fault_scenario scenarios[] = {
    {"export and import", NULL, "256M", prepare, exchange_body},
    {"freed while it is open", NULL, "64M", prepare, freed_body},
    {"offered and freed", NULL, "64M", prepare, offer_body},
    {"a sleep under an importer", NULL, "256M", open_prepare, sleep_body},
    {"forced end while it is open", NULL, "256M", open_prepare, force_body},
};

/* Arguments: see fault_main. */
int main(int argc, char **argv)
{
    return fault_main(scenarios, sizeof(scenarios) / sizeof(scenarios[0]), argc, argv);
}
