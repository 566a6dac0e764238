/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Talking to one process: see ctl.h. Its answer may be anything. So the answer's size is bounded,
 * and it is read as snapshots are.
 */
#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>

#include <tenure/alloc.h>

#include "ctl.h"
#include "input.h"
#include "json_read.h"

enum { LINE_BYTES_FIRST = 1 << 14, LINE_BYTES_MAX = 8 << 20, HEAP_BYTES_MAX = 256 << 20 };

/* ---- fields --------------------------------------------------------------------------------- */

int ctl_has_number(const ctl_line *line, value dict, const char *key, uint64_t *number)
{
    value found;
    return value_kind_of(dict) == VALUE_DICT && value_get(&line->heap, dict, key, &found) &&
           value_as_unsigned(found, number);
}

uint64_t ctl_number(const ctl_line *line, value dict, const char *key)
{
    uint64_t number = 0;
    return ctl_has_number(line, dict, key, &number) ? number : 0;
}

const char *ctl_text(const ctl_line *line, value dict, const char *key)
{
    value found;
    return value_kind_of(dict) == VALUE_DICT && value_get(&line->heap, dict, key, &found) &&
                   value_kind_of(found) == VALUE_TEXT
               ? value_as_text(found)->bytes
               : NULL;
}

const value_list *ctl_list(const ctl_line *line, value dict, const char *key)
{
    value found;
    return value_kind_of(dict) == VALUE_DICT && value_get(&line->heap, dict, key, &found) &&
                   value_kind_of(found) == VALUE_LIST
               ? value_as_list(found)
               : NULL;
}

int ctl_has_dict(const ctl_line *line, value dict, const char *key, value *found)
{
    return value_kind_of(dict) == VALUE_DICT && value_get(&line->heap, dict, key, found) &&
           value_kind_of(*found) == VALUE_DICT;
}

int ctl_is_true(const ctl_line *line, value dict, const char *key)
{
    value found;
    return value_kind_of(dict) == VALUE_DICT && value_get(&line->heap, dict, key, &found) &&
           value_kind_of(found) == VALUE_TRUE;
}

/* ---- lines ---------------------------------------------------------------------------------- */

int64_t ctl_now_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* Waits until the socket is ready. */
static exit_code ready_wait(const ctl_peer *peer, short events, int64_t until, char *error)
{
    struct pollfd wait = {.fd = peer->socket, .events = events};
    for (;;) {
        int64_t left = until < 0 ? -1 : until - ctl_now_ms();
        int ready = until >= 0 && left <= 0 ? 0 : poll(&wait, 1, (int)left);
        if (ready > 0)
            return EXIT_CODE_OK;
        if (ready == 0) {
            snprintf(error, CTL_ERROR_BYTES,
                     "%s does not answer in time. What it was asked for may still come about; it "
                     "does one thing at a time",
                     peer->name);
            return EXIT_CODE_NO_ANSWER;
        }
        if (errno != EINTR) {
            snprintf(error, CTL_ERROR_BYTES, "%s: %s", peer->name, strerror(errno));
            return EXIT_CODE_NO_PROCESS;
        }
    }
}

static exit_code gone(const ctl_peer *peer, char *error)
{
    snprintf(error, CTL_ERROR_BYTES,
             "%s hung up: it has ended, or was switched off, or has closed this connection for "
             "newer ones",
             peer->name);
    return EXIT_CODE_NO_PROCESS;
}

/* Takes bytes up to a newline, one read after the other; there is one line at a time. */
static exit_code text_receive(char **text, const ctl_peer *peer, int64_t until, char *error)
{
    size_t length = 0, room = LINE_BYTES_FIRST;
    char *line = malloc(room + 1);
    exit_code code = EXIT_CODE_OK;
    while (line && code == EXIT_CODE_OK && (length == 0 || line[length - 1] != '\n')) {
        if (length == room) {
            char *grown = room < LINE_BYTES_MAX ? realloc(line, room * 2 + 1) : NULL;
            if (!grown)
                break;
            line = grown;
            room *= 2;
        }
        code = ready_wait(peer, POLLIN, until, error);
        ssize_t got =
            code == EXIT_CODE_OK ? recv(peer->socket, line + length, room - length, 0) : 1;
        if (code == EXIT_CODE_OK && got <= 0 && !(got < 0 && (errno == EAGAIN || errno == EINTR)))
            code = gone(peer, error);
        else if (code == EXIT_CODE_OK && got > 0)
            length += (size_t)got;
    }
    if (code == EXIT_CODE_OK && (!line || length == room)) {
        snprintf(error, CTL_ERROR_BYTES, "%s says more than 8 MiB in a line, or there is no memory",
                 peer->name);
        code = EXIT_CODE_OTHER_PROTOCOL;
    }
    if (code != EXIT_CODE_OK) {
        free(line);
        return code;
    }
    line[length] = '\0';
    *text = line;
    return EXIT_CODE_OK;
}

static exit_code text_parse(ctl_line *line, const ctl_peer *peer, char *error)
{
    input in;
    budget_start(&line->limits, HEAP_BYTES_MAX);
    int status = value_heap_start(&line->heap, &line->limits);
    input_open_memory(&in, peer->name, line->text, strlen(line->text));
    if (status == 0)
        status = json_read(&in, &line->heap, NULL, &line->parsed);
    if (status == 0 && value_kind_of(line->parsed) != VALUE_DICT)
        status = input_fail(&in, 0, "this is not an object");
    if (status != 0)
        snprintf(error, CTL_ERROR_BYTES, "what came is not JSON: %.300s", in.error);
    input_close(&in);
    return status == 0 ? EXIT_CODE_OK : EXIT_CODE_OTHER_PROTOCOL;
}

exit_code ctl_receive(ctl_line *line, const ctl_peer *peer, int patience_ms, char *error)
{
    int64_t until = patience_ms < 0 ? -1 : ctl_now_ms() + patience_ms;
    memset(line, 0, sizeof(*line));
    exit_code code = text_receive(&line->text, peer, until, error);
    if (code != EXIT_CODE_OK)
        return code;
    code = text_parse(line, peer, error);
    if (code != EXIT_CODE_OK)
        ctl_line_release(line);
    return code;
}

exit_code ctl_line_copy(ctl_line *copy, const ctl_line *line, const ctl_peer *peer, char *error)
{
    memset(copy, 0, sizeof(*copy));
    copy->text = strdup(line->text);
    if (!copy->text) {
        snprintf(error, CTL_ERROR_BYTES, "no host memory");
        return EXIT_CODE_NO_MEMORY;
    }
    exit_code code = text_parse(copy, peer, error);
    if (code != EXIT_CODE_OK)
        ctl_line_release(copy);
    return code;
}

void ctl_line_release(ctl_line *line)
{
    if (line->text)
        value_heap_release(&line->heap);
    free(line->text);
    line->text = NULL;
}

exit_code ctl_greeting(ctl_line *line, const ctl_peer *peer, int patience_ms, char *error)
{
    uint64_t version = 0;
    exit_code code = ctl_receive(line, peer, patience_ms, error);
    if (code != EXIT_CODE_OK)
        return code;
    const char *message = ctl_text(line, line->parsed, "message");
    ctl_has_number(line, line->parsed, "protocol", &version);
    if (version == CTL_PROTOCOL)
        return EXIT_CODE_OK;
    if (message)
        snprintf(error, CTL_ERROR_BYTES, "%s: %.400s", peer->name, message);
    else
        snprintf(error, CTL_ERROR_BYTES,
                 "%s speaks version %llu of the protocol, this command version %d. Use the tenure "
                 "command that came with its libtenure.so",
                 peer->name, (unsigned long long)version, CTL_PROTOCOL);
    ctl_line_release(line);
    return message ? EXIT_CODE_CHECK_FAILED : EXIT_CODE_OTHER_PROTOCOL;
}

exit_code ctl_send(const ctl_peer *peer, const char *request, int patience_ms, char *error)
{
    int64_t until = patience_ms < 0 ? -1 : ctl_now_ms() + patience_ms;
    size_t length = strlen(request);
    for (size_t sent = 0; sent < length;) {
        exit_code code = ready_wait(peer, POLLOUT, until, error);
        if (code != EXIT_CODE_OK)
            return code;
        ssize_t part = send(peer->socket, request + sent, length - sent, MSG_NOSIGNAL);
        if (part < 0 && errno != EAGAIN && errno != EINTR)
            return gone(peer, error);
        sent += part > 0 ? (size_t)part : 0;
    }
    return EXIT_CODE_OK;
}

exit_code ctl_ask(ctl_line *answer, const ctl_peer *peer, const char *request, int patience_ms,
                  char *error)
{
    exit_code code = ctl_send(peer, request, patience_ms, error);
    return code == EXIT_CODE_OK ? ctl_receive(answer, peer, patience_ms, error) : code;
}

/* The exit code for a refusal, by the name of its status. */
static exit_code refusal_code(const char *name)
{
    if (name)
        for (int status = 0; strcmp(tnr_status_name((tnr_status)status), "TNR_ERR_?") != 0;
             status++)
            if (strcmp(tnr_status_name((tnr_status)status), name) == 0)
                return exit_code_of((tnr_status)status);
    return EXIT_CODE_CHECK_FAILED;
}

exit_code ctl_refusal(const ctl_line *answer, char *error)
{
    const char *message = ctl_text(answer, answer->parsed, "message");
    snprintf(error, CTL_ERROR_BYTES, "%.400s", message ? message : "it refused, and says no more");
    return refusal_code(ctl_text(answer, answer->parsed, "status"));
}
