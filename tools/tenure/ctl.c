/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `tenure ctl`: controls processes that use Tenure, from outside. It finds their sockets in a
 * folder, sends one request to each process that is meant, and shows the answers.
 */
#include "ctl.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cli.h"
#include "commands.h"
#include "json.h"
#include "shown.h"

static const char *dir_option, *pid_option, *name_option, *timeout_option, *tag_option,
    *device_option, *content_option, *pinned_option;
static int is_all, is_json, keeps_backing, has_streams;

static const cli_option options[] = {
    {"dir", "FOLDER",
     "where the processes' sockets are (default: of this user, in\nXDG_RUNTIME_DIR and /tmp)",
     &dir_option, NULL},
    {"pid", "N",
     "the process with this number; in another container, with\n"
     "the number that it has there",
     &pid_option, NULL},
    {"name", "TEXT", "the process whose socket has this in its name", &name_option, NULL},
    {"all", NULL, "all processes, one after the other", NULL, &is_all},
    {"device", "N", "this device (default: all that the process uses)", &device_option, NULL},
    {"tag", "A,B", "memory with these tags, in this order (default: all of it)", &tag_option, NULL},
    {"content", "WORD",
     "with sleep: keep contents in host memory, or on a disk\n"
     "(disk: the setting contents_dir), or discard them,\n"
     "whatever the program chose for a tag",
     &content_option, NULL},
    {"pinned", "SIZE", "with sleep: the most pinned host memory for contents", &pinned_option,
     NULL},
    {"keep-backing", NULL, "with sleep: keep that host memory for the next sleep", NULL,
     &keeps_backing},
    {"streams", NULL, "with metrics: also each stream's part of each pool, by name", NULL,
     &has_streams},
    {"timeout", "S", "give up after S seconds (default: no limit)", &timeout_option, NULL},
    {"json", NULL, "the answers as they come, a line for each process", NULL, &is_json},
    {NULL, NULL, NULL, NULL, NULL},
};

static const cli_syntax syntax = {
    "ctl",
    "control running processes: status, metrics, sleep, wake, limit",
    "COMMAND [ARGUMENT] [options]",
    "Commands:\n"
    "  list               the processes that listen\n"
    "  status             what a process has: devices, pools, tags\n"
    "  metrics            the same as OpenMetrics text, for Prometheus\n"
    "  sleep              give memory back and keep its addresses; all or none on a device\n"
    "  wake               get the memory back, at the same addresses\n"
    "  trim [SIZE]        give idle memory back until SIZE is reserved (default 0)\n"
    "  compact            give back what is free in chunks in use; no GPU work meanwhile\n"
    "  limit SIZE|none    limit what may be reserved; live memory stays\n"
    "  snapshot FILE      write a snapshot of all memory: .json, .json.gz, .pickle, .pickle.gz\n"
    "  settings [K:V,..]  show its settings, or change them\n"
    "SIZE is in bytes, or with K, M, G or T after it. A process listens if it was started by\n"
    "`tenure run`, or with TENURE_CONF=control:on. docs/control.md has more, and the protocol.\n"
    "\n"
    "Examples:\n"
    "  tenure ctl list\n"
    "  tenure ctl status --pid 4711 --json\n"
    "  tenure ctl limit 8G --pid 4711\n"
    "\n"
    "Exit codes: 0 done; 1 the process refused, and says why; 2 bad usage, or something that does\n"
    "not exist there; 4 out of memory, or a limit was reached; 20 no such process, or it hung up;\n"
    "21 several processes fit, and --all was not given; 22 it speaks another protocol; 23 no "
    "answer\n"
    "in time. With --all, the first that is not 0.\n",
    options,
    1,
    2,
};

/* What one run asks for. */
typedef struct asking {
    const char *command;
    const char *argument; /* null: none */
    char *request;        /* a line of JSON */
    size_t request_bytes;
    int patience_ms;
    long pid;
    const char *extension; /* of a snapshot */
} asking;

static int is_metrics(const asking *self)
{
    return strcmp(self->command, "metrics") == 0;
}

/* ---- the request ---------------------------------------------------------------------------- */

static int size_write(json_writer *json, const char *key, const char *what, const char *text)
{
    uint64_t bytes;
    if (cli_bytes(text, &bytes) != 0) {
        cli_usage_error(&syntax, "%s must be a size such as 512M, not \"%s\"", what, text);
        return -1;
    }
    json_unsigned(json, key, bytes);
    return 0;
}

static void tags_write(json_writer *json)
{
    const char *at = tag_option;
    json_array_begin(json, "tags");
    while (at) {
        char one[256];
        size_t length = strcspn(at, ",");
        snprintf(one, sizeof(one), "%.*s", (int)(length < 255 ? length : 255), at);
        json_text(json, NULL, one);
        at = at[length] ? at + length + 1 : NULL;
    }
    json_array_end(json);
}

static const char *snapshot_extension(const char *path)
{
    static const char *const known[] = {"json.gz", "pickle.gz", "json", "pickle"};
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++) {
        size_t length = strlen(known[i]), bytes = strlen(path);
        if (bytes > length + 1 && path[bytes - length - 1] == '.' &&
            strcmp(path + bytes - length, known[i]) == 0)
            return known[i];
    }
    return NULL;
}

static int argument_write(json_writer *json, asking *self)
{
    const char *text = self->argument;
    if (strcmp(self->command, "trim") == 0)
        return text ? size_write(json, "bytes", "the size of trim", text) : 0;
    if (strcmp(self->command, "settings") == 0) {
        if (text)
            json_text(json, "set", text);
        return 0;
    }
    if (strcmp(self->command, "snapshot") == 0) {
        self->extension = text ? snapshot_extension(text) : NULL;
        if (!self->extension)
            return cli_usage_error(&syntax, "snapshot needs a file that ends in .json, .json.gz, "
                                            ".pickle or .pickle.gz");
        json_text(json, "format", self->extension);
        return 0;
    }
    if (strcmp(self->command, "limit") != 0)
        return text ? cli_usage_error(&syntax, "%s takes no argument: %s", self->command, text) : 0;
    if (!text)
        return cli_usage_error(&syntax, "limit needs a size, or none");
    if (strcmp(text, "none") != 0)
        return size_write(json, "bytes", "the size of limit", text);
    json_text(json, "bytes", NULL);
    return 0;
}

static int options_write(json_writer *json)
{
    long device;
    if (device_option) {
        if (cli_number(&syntax, "device", device_option, 0, 1000, &device) != 0)
            return -1;
        json_unsigned(json, "device", (uint64_t)device);
    }
    if (tag_option)
        tags_write(json);
    if (content_option && strcmp(content_option, "keep") != 0 &&
        strcmp(content_option, "disk") != 0 && strcmp(content_option, "discard") != 0)
        return cli_usage_error(&syntax, "--content must be keep, disk or discard, not \"%s\"",
                               content_option);
    if (content_option)
        json_text(json, "content", content_option);
    if (keeps_backing)
        json_boolean(json, "keep_backing", 1);
    return pinned_option ? size_write(json, "pinned_bytes", "--pinned", pinned_option) : 0;
}

/* Which options a command has is checked here: the message then names them as they were typed. */
static int options_check(const char *command)
{
    static const struct {
        const char *name;
        int has_target, is_sleep;
    } known[] = {{"list", 0, 0},     {"status", 0, 0}, {"metrics", 0, 0}, {"sleep", 1, 1},
                 {"wake", 1, 0},     {"trim", 1, 0},   {"limit", 1, 0},   {"snapshot", 0, 0},
                 {"settings", 0, 0}, {"compact", 1, 0}};
    size_t i = 0, count = sizeof(known) / sizeof(known[0]);
    while (i < count && strcmp(command, known[i].name) != 0)
        i++;
    if (i == count)
        return cli_usage_error(&syntax, "there is no command \"%s\"", command);
    if ((tag_option || device_option) && !known[i].has_target)
        return cli_usage_error(&syntax, "%s knows neither --tag nor --device", command);
    if ((content_option || pinned_option || keeps_backing) && !known[i].is_sleep)
        return cli_usage_error(&syntax, "--content, --pinned and --keep-backing are for sleep");
    if (has_streams && strcmp(command, "metrics") != 0)
        return cli_usage_error(&syntax, "--streams is for metrics; tenure top --by stream shows "
                                        "them, and with --json prints them");
    if (strcmp(command, "metrics") == 0 && is_json)
        return cli_usage_error(&syntax, "metrics has a form of its own: leave --json out");
    if (strcmp(command, "snapshot") == 0 && is_all)
        return cli_usage_error(&syntax, "one file cannot take several snapshots: choose a process");
    return 0;
}

static int request_make(asking *self)
{
    json_writer json;
    long seconds = 0;
    self->patience_ms = -1;
    if (options_check(self->command) != 0 ||
        (pid_option && cli_number(&syntax, "pid", pid_option, 1, INT_MAX, &self->pid) != 0) ||
        (timeout_option &&
         cli_number(&syntax, "timeout", timeout_option, 1, 1000000, &seconds) != 0))
        return -1;
    if (seconds > 0)
        self->patience_ms = (int)seconds * 1000;
    FILE *file = open_memstream(&self->request, &self->request_bytes);
    if (!file)
        return -1;
    json_start(&json, file);
    json_object_begin(&json, NULL);
    json_unsigned(&json, "protocol", CTL_PROTOCOL);
    json_text(&json, "command", is_metrics(self) ? "status" : self->command);
    if (has_streams)
        json_boolean(&json, "streams", 1);
    int status = argument_write(&json, self);
    if (status == 0)
        status = options_write(&json);
    json_object_end(&json);
    json_end(&json);
    fclose(file);
    return status;
}

/* ---- answers -------------------------------------------------------------------------------- */

static exit_code answer_show(const asking *self, const ctl_peer *peer, const ctl_line *greeting,
                             const ctl_line *answer, char *error)
{
    exit_code code = EXIT_CODE_OK;
    if (!ctl_is_true(answer, answer->parsed, "ok"))
        code = ctl_refusal(answer, error);
    else if (strcmp(self->command, "snapshot") == 0)
        code = ctl_snapshot_fetch(peer, answer, self->argument, self->patience_ms, error);
    if (is_json)
        ctl_show_json(peer, greeting, answer);
    else if (code == EXIT_CODE_OK && is_metrics(self))
        code = ctl_metrics_add(peer, greeting, answer, error);
    else if (code == EXIT_CODE_OK && self->extension)
        printf("the snapshot is in %s\n", self->argument);
    else if (code == EXIT_CODE_OK)
        ctl_show_answer(answer);
    return code;
}

/* Asks one process, and shows what it says. */
static exit_code peer_ask(const asking *self, const ctl_peer *peer)
{
    char error[CTL_ERROR_BYTES] = "";
    ctl_line greeting = {0}, answer = {0};
    exit_code code = EXIT_CODE_OK;
    if (peer->socket < 0) {
        snprintf(error, sizeof(error), "%s has too many waiting already", peer->name);
        code = EXIT_CODE_NO_ANSWER;
    } else {
        code = ctl_greeting(&greeting, peer, self->patience_ms, error);
    }
    if (code == EXIT_CODE_OK)
        code = ctl_ask(&answer, peer, self->request, self->patience_ms, error);
    if (code == EXIT_CODE_OK) {
        if (is_all && !is_json && !is_metrics(self))
            ctl_show_peer(peer, &greeting);
        code = answer_show(self, peer, &greeting, &answer, error);
    }
    if (code != EXIT_CODE_OK)
        say(stderr, "tenure ctl: %s\n", error);
    ctl_line_release(&greeting);
    ctl_line_release(&answer);
    return code;
}

/* ---- the command ---------------------------------------------------------------------------- */

enum { LIST_PATIENCE_MS = 5000 };

static exit_code peers_list(const ctl_peers *peers, const asking *self)
{
    exit_code first = EXIT_CODE_OK;
    if (!is_json && peers->count > 0)
        printf("%-8s %-8s %-20s %-8s %s\n", "pid", "its pid", "program", "tenure", "socket");
    for (int i = 0; i < peers->count; i++) {
        char error[CTL_ERROR_BYTES];
        ctl_line greeting = {0};
        const ctl_peer *peer = &peers->items[i];
        int patience = self->patience_ms < 0 ? LIST_PATIENCE_MS : self->patience_ms;
        exit_code code =
            peer->socket < 0 ? EXIT_CODE_NO_ANSWER : ctl_greeting(&greeting, peer, patience, error);
        const ctl_line *known = code == EXIT_CODE_OK ? &greeting : NULL;
        if (code == EXIT_CODE_NO_PROCESS)
            continue; /* it has just ended */
        if (is_json)
            ctl_show_json(peer, known, NULL);
        else
            ctl_show_peer(peer, known);
        if (code == EXIT_CODE_OTHER_PROTOCOL && first == EXIT_CODE_OK) {
            say(stderr, "tenure ctl: %s\n", error);
            first = code;
        }
        ctl_line_release(&greeting);
    }
    return first;
}

static exit_code peers_ask(const ctl_peers *peers, const ctl_folders *folders, const asking *self)
{
    exit_code first = EXIT_CODE_OK;
    if (peers->count == 0) {
        fprintf(stderr,
                "tenure ctl: no process in %s%s. One listens if it was started by `tenure run`, or "
                "with TENURE_CONF=control:on, and with control_dir if the folder is another\n",
                folders->text, self->pid || name_option ? " fits" : "");
        return EXIT_CODE_NO_PROCESS;
    }
    if (peers->count > 1 && !is_all) {
        fputs("tenure ctl: several processes fit. Choose one with --pid or --name, or all with "
              "--all:\n",
              stderr);
        for (int i = 0; i < peers->count; i++)
            fprintf(stderr, "  %s\n", peers->items[i].name);
        return EXIT_CODE_SEVERAL;
    }
    for (int i = 0; i < peers->count; i++) {
        exit_code code = peer_ask(self, &peers->items[i]);
        if (first == EXIT_CODE_OK)
            first = code;
    }
    if (is_metrics(self))
        ctl_metrics_print(stdout);
    return first;
}

int command_ctl(int argc, char **argv)
{
    static ctl_folders folders;
    static ctl_peers peers;
    cli_result parsed;
    asking self = {0};
    if (cli_parse(&syntax, argc, argv, &parsed) != 0)
        return EXIT_CODE_BAD_INPUT;
    if (parsed.help_wanted)
        return EXIT_CODE_OK;
    self.command = parsed.positionals[0];
    self.argument = parsed.positionals_count > 1 ? parsed.positionals[1] : NULL;
    if (request_make(&self) != 0) {
        free(self.request);
        return EXIT_CODE_BAD_INPUT;
    }
    char error[CTL_ERROR_BYTES];
    exit_code code = ctl_folders_open(&folders, dir_option, error);
    if (code != EXIT_CODE_OK) {
        say(stderr, "tenure ctl: %s\n", error);
    } else {
        ctl_peers_find(&peers, &folders);
        ctl_peers_choose(&peers, self.pid, name_option);
        code = strcmp(self.command, "list") == 0 ? peers_list(&peers, &self)
                                                 : peers_ask(&peers, &folders, &self);
        ctl_peers_release(&peers);
        ctl_folders_close(&folders);
    }
    free(self.request);
    return code;
}
