/* SPDX-License-Identifier: Apache-2.0 */
/* See here.h. */
#include "here.h"

#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

int sockets[SIDES];

void start(const char *conf, const char *setting)
{
    unit_start(conf, setting, NULL);
    assert_int_equal(syscall(SYS_socketpair, AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, sockets),
                     0);
}

int stop(void **state)
{
    calls_fail_at(0, 0);
    for (int i = 0; i < SIDES; i++)
        if (sockets[i] > 0)
            (void)close(sockets[i]);
    memset(sockets, 0, sizeof(sockets));
    return unit_stop(state);
}

tnr_import_info pass_on(tnr_export exported)
{
    tnr_import_info info = {.struct_bytes = sizeof(info)};
    assert_ok(tnr_export_send(exported, sockets[EXPORTER]));
    assert_ok(tnr_import_receive(&info, sockets[IMPORTER], 0, NULL));
    return info;
}

tnr_export export_of(const void *ptr)
{
    tnr_export exported = 0;
    assert_ok(tnr_export_create(&exported, ptr));
    assert_int_not_equal(exported, 0);
    return exported;
}

tnr_export_info info_of(tnr_export exported)
{
    tnr_export_info info = {.struct_bytes = sizeof(info)};
    assert_ok(tnr_export_get(&info, exported));
    return info;
}
