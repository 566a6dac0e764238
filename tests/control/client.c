/* SPDX-License-Identifier: Apache-2.0 */
/* See client.h. */
#include "client.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <unistd.h>

#include <tenure/control.h>

#include "own_folder.h"

static char folder[64];

static void folder_end(void)
{
    (void)folder_remove(folder);
}

const char *client_folder(void)
{
    const char *given = getenv("CONTROL_TEST_FOLDER");
    if (folder[0] == '\0' && given != NULL) {
        snprintf(folder, sizeof(folder), "%s", given);
    } else if (folder[0] == '\0') {
        snprintf(folder, sizeof(folder), "/tmp/tenure-control-XXXXXX");
        if (mkdtemp(folder) == NULL)
            abort();
        (void)atexit(folder_end);
    }
    return folder;
}

int client_folder_count(void)
{
    int count = 0;
    DIR *entries = opendir(client_folder());
    for (struct dirent *entry; entries != NULL && (entry = readdir(entries)) != NULL;)
        count += strcmp(entry->d_name, ".") != 0 && strcmp(entry->d_name, "..") != 0;
    if (entries != NULL)
        closedir(entries);
    return count;
}

const char *client_conf(const char *more)
{
    static char conf[512];
    snprintf(conf, sizeof(conf), "control:on,control_dir:%s%s%s", client_folder(),
             more == NULL ? "" : ",", more == NULL ? "" : more);
    return conf;
}

/* By system calls: where the library's are made to fail, these are not. */
int client_connect(client *one, const char *path)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    *one = (client){.socket = -1};
    if ((size_t)snprintf(address.sun_path, sizeof(address.sun_path), "%s", path) >=
        sizeof(address.sun_path))
        return 0;
    one->socket = (int)syscall(SYS_socket, AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    one->line = malloc(CLIENT_LINE_BYTES + 1);
    one->ahead = malloc(CLIENT_LINE_BYTES + 1);
    if (one->socket >= 0 && one->line != NULL && one->ahead != NULL &&
        connect(one->socket, (const struct sockaddr *)&address, sizeof(address)) == 0)
        return 1;
    client_close(one);
    return 0;
}

int client_open(client *one)
{
    char path[512];
    *one = (client){.socket = -1};
    if (tnr_control_path(path, sizeof(path)) == 0 || !client_connect(one, path))
        return 0;
    if (client_receive(one))
        return 1;
    client_close(one);
    return 0;
}

void client_close(client *one)
{
    if (one->socket >= 0)
        close(one->socket);
    free(one->line);
    free(one->ahead);
    *one = (client){.socket = -1};
}

int client_send(client *one, const char *bytes, size_t count)
{
    while (count > 0) {
        ssize_t sent = syscall(SYS_sendto, one->socket, bytes, count, MSG_NOSIGNAL, NULL, 0);
        if (sent < 0 && errno == EINTR)
            continue;
        if (sent <= 0)
            return 0;
        bytes += sent;
        count -= (size_t)sent;
    }
    return 1;
}

int client_receive(client *one)
{
    for (;;) {
        char *end = memchr(one->ahead, '\n', one->ahead_length);
        if (end != NULL) {
            size_t length = (size_t)(end - one->ahead);
            memcpy(one->line, one->ahead, length);
            one->line[length] = '\0';
            one->ahead_length -= length + 1;
            memmove(one->ahead, end + 1, one->ahead_length);
            return 1;
        }
        ssize_t got = syscall(SYS_recvfrom, one->socket, one->ahead + one->ahead_length,
                              CLIENT_LINE_BYTES - one->ahead_length, 0, NULL, NULL);
        if (got < 0 && errno == EINTR)
            continue;
        if (got <= 0)
            return 0;
        one->ahead_length += (size_t)got;
    }
}

const char *client_ask(client *one, const char *request)
{
    if (!client_send(one, request, strlen(request)) || !client_send(one, "\n", 1))
        return NULL;
    return client_receive(one) ? one->line : NULL;
}

const char *client_ask_once(const char *request)
{
    static char answer[CLIENT_LINE_BYTES + 1];
    client one;
    const char *line = NULL;
    if (client_open(&one))
        line = client_ask(&one, request);
    snprintf(answer, sizeof(answer), "%s", line == NULL ? "" : line);
    client_close(&one);
    return line == NULL ? NULL : answer;
}
