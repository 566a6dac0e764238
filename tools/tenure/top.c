/* SPDX-License-Identifier: Apache-2.0 */
/*
 * `tenure top`: watches a running process. It asks for `status` once in an interval, over the
 * socket of `tenure ctl`, and draws the answer. There is one request under way at a time. Keys are
 * read meanwhile.
 */
#include "top.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "cli.h"
#include "commands.h"
#include "shown.h"
#include "table.h"

static const char *dir_option, *interval_option, *by_option;
static int is_once, is_json;

static const cli_option options[] = {
    {"by", "WORD",
     "show a row for each pool (default), tag, stream, device, or use of\nthe device (account)",
     &by_option, NULL},
    {"interval", "S", "seconds between two looks, 0.1 to 3600 (default 1)", &interval_option, NULL},
    {"once", NULL, "look once, and end", NULL, &is_once},
    {"json", NULL, "the answers as they come, a line for each look", NULL, &is_json},
    {"dir", "FOLDER",
     "where the processes' sockets are (default: of this user, in\nXDG_RUNTIME_DIR and /tmp)",
     &dir_option, NULL},
    {NULL, NULL, NULL, NULL, NULL},
};

static const cli_syntax syntax = {
    "top",
    "watch what a running process holds",
    "[PID|NAME] [options]",
    "PID is the number of the process, NAME a part of its program's name. Without either, top\n"
    "takes the only process there is. If several fit, it shows a table to choose from. A process\n"
    "can be watched if it was started by `tenure run`, or with TENURE_CONF=control:on.\n"
    "docs/control.md has more.\n"
    "\n"
    "reserved is the physical memory that Tenure has from the driver; live what blocks have of "
    "it;\n"
    "waiting what was freed before its last use was over; moving how many old mappings of moved\n"
    "chunks wait for that; asleep what is given back until the wake. The largest come first. In "
    "the\n"
    "bar # is live, = reserved beyond that. Narrow terminals have fewer columns.\n"
    "\n"
    "account splits what the driver says is used on the device: contexts, code, graphs, Tenure's\n"
    "blocks and the rest. It needs a program that was started by `tenure run --account`.\n"
    "\n"
    "Keys: p, t, s, d, a by pool, tag, stream, device, account; S writes a snapshot into this\n"
    "folder; T gives idle memory back, after a question; l goes back to the list of processes; "
    "?\n"
    "explains the columns; q ends. Without a terminal the same comes as lines, once in an "
    "interval.\n"
    "\n"
    "Examples:\n"
    "  tenure top\n"
    "  tenure top 4711 --by stream\n"
    "\n"
    "Exit codes: 0 done; 2 bad usage; 20 no such process, or it ended while it was watched; 21\n"
    "several processes fit; 22 it speaks another protocol; 23 it did not answer in time.\n",
    options,
    0,
    1,
};

enum { GREETING_PATIENCE_MS = 5000, ANSWER_PATIENCE_MS = 30000 };

/* What the process has been asked for. */
typedef enum asked { ASKED_NOTHING, ASKED_STATUS, ASKED_TRIM, ASKED_SNAPSHOT } asked;

typedef struct watch {
    ctl_peer peer;
    const ctl_line *greeting;
    ctl_line answer; /* the latest to status; its text is null: none yet */
    top_view view;
    int interval_ms;
    int has_screen;
    asked now, next;       /* under way, and what a key wants after it */
    int64_t asked_at, due; /* of the request under way, and when the next status is */
    int is_over;           /* 1: nothing more is to be seen */
    int has_list;          /* several processes fitted */
    int wants_list;        /* the user wants to see them */
    int has_help;          /* the help is shown in place of memory */
    int is_sure_wanted;    /* a key asked for a trim, and the question is not answered */
    char message[CTL_ERROR_BYTES];
} watch;

/* ---- showing -------------------------------------------------------------------------------- */

static const char *program(const watch *self)
{
    const char *name = ctl_text(self->greeting, self->greeting->parsed, "program");
    return name ? name : "-";
}

static long pid(const watch *self)
{
    return self->peer.pid_here > 0 ? self->peer.pid_here : self->peer.pid;
}

static void frame_fill(top_frame *frame, const watch *self, size_t rows)
{
    char clock[32] = "";
    time_t now = time(NULL);
    struct tm parts;
    if (localtime_r(&now, &parts))
        strftime(clock, sizeof(clock), "%H:%M:%S", &parts);
    top_line(frame, "%s  %.60s %ld", clock, program(self), pid(self));
    if (self->has_help)
        top_help_fill(frame);
    else if (self->answer.text)
        top_frame_fill(frame, &self->answer, self->view, rows > 2 ? rows - 2 : rows);
    if (!self->has_screen)
        return;
    top_line(frame, "%s", "");
    if (self->message[0] != '\0')
        top_line(frame, "%s", self->message);
    else
        top_line(frame, "q quit  p t s d a by  S snapshot  T trim  ? help%s",
                 self->has_list ? "  l list" : "");
}

static void show(const watch *self)
{
    top_frame frame;
    size_t columns = 80, rows = 0;
    if (is_json) {
        ctl_show_json(&self->peer, self->greeting, &self->answer);
        fflush(stdout);
        return;
    }
    if (self->has_screen || isatty(STDOUT_FILENO))
        top_screen_size(&columns, &rows);
    top_frame_start(&frame, columns);
    frame_fill(&frame, self, self->has_screen ? rows : 0);
    if (self->has_screen) {
        frame.count = frame.count < rows ? frame.count : rows;
        top_screen_draw(&frame);
    } else {
        for (size_t i = 0; i < frame.count; i++)
            puts(frame.lines[i]);
        if (!is_once)
            putchar('\n');
        fflush(stdout);
    }
    top_frame_release(&frame);
}

/* ---- asking --------------------------------------------------------------------------------- */

static exit_code ask(watch *self, asked what, char *error)
{
    static const char *const requests[] = {
        [ASKED_STATUS] = "{\"protocol\":1,\"command\":\"status\"}\n",
        [ASKED_TRIM] = "{\"protocol\":1,\"command\":\"trim\"}\n",
        [ASKED_SNAPSHOT] = "{\"protocol\":1,\"command\":\"snapshot\",\"format\":\"json.gz\"}\n",
    };
    const char *request = requests[what];
    /* Streams may be many: they are asked for where somebody sees them. */
    if (what == ASKED_STATUS && self->view == TOP_ACCOUNT)
        request = "{\"protocol\":1,\"command\":\"status\",\"account\":true}\n";
    else if (what == ASKED_STATUS && (self->view == TOP_STREAMS || is_json))
        request = "{\"protocol\":1,\"command\":\"status\",\"streams\":true}\n";
    self->now = what;
    self->asked_at = ctl_now_ms();
    return ctl_send(&self->peer, request, ANSWER_PATIENCE_MS, error);
}

static void trim_tell(watch *self, const ctl_line *answer)
{
    const value_list *devices = ctl_list(answer, answer->parsed, "devices");
    uint64_t released = 0;
    for (uint32_t i = 0; devices && i < devices->count; i++)
        released += ctl_number(answer, devices->items[i], "released_bytes");
    char text[32];
    snprintf(self->message, sizeof(self->message), "%s given back",
             format_bytes_binary(released, text));
}

/* The first name that is free: no snapshot takes another's place. */
static void snapshot_tell(watch *self, const ctl_line *answer)
{
    char path[96], error[CTL_ERROR_BYTES];
    int number = 1;
    do
        snprintf(path, sizeof(path), "tenure-%ld-%d.json.gz", pid(self), number);
    while (access(path, F_OK) == 0 && number++ < 10000);
    if (ctl_snapshot_fetch(&self->peer, answer, path, ANSWER_PATIENCE_MS, error) == EXIT_CODE_OK)
        snprintf(self->message, sizeof(self->message), "snapshot: %s", path);
    else
        snprintf(self->message, sizeof(self->message), "%s", error);
}

/* What was asked for has come. */
static exit_code answer_take(watch *self, char *error)
{
    ctl_line came;
    asked what = self->now;
    exit_code code = ctl_receive(&came, &self->peer, ANSWER_PATIENCE_MS, error);
    self->now = ASKED_NOTHING;
    if (code != EXIT_CODE_OK)
        return code;
    if (!ctl_is_true(&came, came.parsed, "ok")) {
        code = ctl_refusal(&came, self->message);
        snprintf(error, CTL_ERROR_BYTES, "%s", self->message);
        code = what == ASKED_STATUS ? code : EXIT_CODE_OK;
    } else if (what == ASKED_TRIM) {
        trim_tell(self, &came);
    } else if (what == ASKED_SNAPSHOT) {
        snapshot_tell(self, &came);
    } else {
        ctl_line_release(&self->answer);
        code = ctl_line_copy(&self->answer, &came, &self->peer, error);
    }
    ctl_line_release(&came);
    if (code == EXIT_CODE_OK && (what == ASKED_STATUS || self->has_screen))
        show(self);
    self->is_over |= is_once && what == ASKED_STATUS;
    return code;
}

static const char asked_for[] = "asked for; it does one thing at a time";

/* ---- keys ----------------------------------------------------------------------------------- */

/* What a key wants, where no question is open. */
static void key_obey(watch *self, char key)
{
    static const char views[] = "ptsda";
    const char *view = key ? strchr(views, key) : NULL;
    if (view) {
        self->view = (top_view)(view - views);
        self->due = ctl_now_ms(); /* streams are in no answer yet */
    } else if (key == 'q') {
        self->is_over = 1;
    } else if (key == 'l' && self->has_list) {
        self->wants_list = self->is_over = self->now <= ASKED_STATUS;
    } else if (key == '?') {
        self->has_help = 1;
    } else if (key == 'T') {
        self->is_sure_wanted = 1;
        snprintf(self->message, sizeof(self->message),
                 "give all idle memory back to the driver? The next requests map it again. y n");
    } else if (key == 'S') {
        self->next = ASKED_SNAPSHOT;
        snprintf(self->message, sizeof(self->message), "%s", asked_for);
    }
}

static void key_take(watch *self)
{
    char key;
    if (read(STDIN_FILENO, &key, 1) != 1) {
        self->is_over = errno != EINTR && errno != EAGAIN; /* the terminal is gone */
        return;
    }
    int was_asked = self->is_sure_wanted, had_help = self->has_help;
    self->message[0] = '\0';
    self->is_sure_wanted = self->has_help = 0;
    if (was_asked && key == 'y') {
        self->next = ASKED_TRIM;
        snprintf(self->message, sizeof(self->message), "%s", asked_for);
    } else if (!was_asked && (!had_help || key == 'q')) {
        key_obey(self, key);
    }
    show(self);
}

/* ---- watching ------------------------------------------------------------------------------- */

/* What is to be asked now. */
static exit_code next_ask(watch *self, char *error)
{
    if (self->now != ASKED_NOTHING)
        return EXIT_CODE_OK;
    if (self->next != ASKED_NOTHING) {
        asked what = self->next;
        self->next = ASKED_NOTHING;
        self->due = ctl_now_ms(); /* to be seen at once, afterwards */
        return ask(self, what, error);
    }
    int64_t now = ctl_now_ms();
    if (now < self->due)
        return EXIT_CODE_OK;
    self->due = now + self->interval_ms;
    return ask(self, ASKED_STATUS, error);
}

/* Waits for the process, a key, or the time; also hears at once that the process has ended. */
static exit_code step(watch *self, char *error)
{
    struct pollfd waits[2] = {{.fd = self->peer.socket, .events = POLLIN},
                              {.fd = self->has_screen ? STDIN_FILENO : -1, .events = POLLIN}};
    int64_t left = self->now == ASKED_NOTHING ? self->due - ctl_now_ms() : self->interval_ms;
    int ready = poll(waits, 2, left > 0 ? (int)left : 0);
    if (ready < 0 && errno != EINTR) {
        snprintf(error, CTL_ERROR_BYTES, "%s", strerror(errno));
        return EXIT_CODE_CHECK_FAILED;
    }
    if (ready < 0 && self->has_screen)
        show(self); /* its size may be another */
    if (ready > 0 && waits[1].revents != 0)
        key_take(self);
    if (ready > 0 && waits[0].revents != 0)
        return answer_take(self, error);
    int64_t waited = ctl_now_ms() - self->asked_at;
    if (self->now == ASKED_NOTHING || waited < ANSWER_PATIENCE_MS)
        return EXIT_CODE_OK;
    if (!self->has_screen) {
        snprintf(error, CTL_ERROR_BYTES, "%s %ld has not answered for %lld s", program(self),
                 pid(self), (long long)waited / 1000);
        return EXIT_CODE_NO_ANSWER;
    }
    snprintf(self->message, sizeof(self->message), "no answer for %lld s",
             (long long)waited / 1000);
    show(self);
    return EXIT_CODE_OK;
}

static top_screen screen;

static exit_code watch_run(watch *self)
{
    char error[CTL_ERROR_BYTES] = "";
    exit_code code = EXIT_CODE_OK;
    while (code == EXIT_CODE_OK && !self->is_over && top_signals_number() == 0 && !ferror(stdout)) {
        code = next_ask(self, error);
        if (code == EXIT_CODE_OK)
            code = step(self, error);
    }
    if (!self->wants_list)
        top_screen_end(&screen);
    if (code == EXIT_CODE_NO_PROCESS)
        say(stderr, "tenure top: %s %ld has ended, or listens no more\n", program(self), pid(self));
    else if (code != EXIT_CODE_OK)
        say(stderr, "tenure top: %s\n", error);
    return code;
}

/* ---- finding -------------------------------------------------------------------------------- */

static ctl_folders folders;
static ctl_peers peers;
/* Of each process that was found. On the heap: room for as many as there may be is 19 MB, which
 * every command would have, and a leak checker reads. */
static ctl_line *greetings; /* of those that are meant; they stay where they are */
static top_process *processes;

/* What they say first. Leaves out those whose program has not this in its name; null: any. Returns
 * how many are left, and one of them. */
static int peers_greet(const char *name, int *one)
{
    int count = 0;
    for (int i = 0; i < peers.count; i++) {
        char error[CTL_ERROR_BYTES];
        ctl_peer *peer = &peers.items[i];
        exit_code code = peer->socket < 0
                             ? EXIT_CODE_NO_ANSWER
                             : ctl_greeting(&greetings[i], peer, GREETING_PATIENCE_MS, error);
        const ctl_line *greeting = &greetings[i];
        const char *called =
            code == EXIT_CODE_OK ? ctl_text(greeting, greeting->parsed, "program") : NULL;
        if (code == EXIT_CODE_NO_PROCESS || (name && (!called || !strstr(called, name)))) {
            ctl_line_release(&greetings[i]);
            continue;
        }
        if (code == EXIT_CODE_OTHER_PROTOCOL)
            say(stderr, "tenure top: %s\n", error);
        if (code == EXIT_CODE_OK && count++ == 0)
            *one = i;
    }
    return count;
}

/* Those that were greeted, as rows of the table of processes. */
static size_t processes_list(void)
{
    size_t count = 0;
    for (int i = 0; i < peers.count; i++)
        if (greetings[i].text) {
            const ctl_peer *peer = &peers.items[i];
            const char *called = ctl_text(&greetings[i], greetings[i].parsed, "program");
            processes[count++] =
                (top_process){.peer = peer,
                              .pid = peer->pid_here > 0 ? peer->pid_here : peer->pid,
                              .program = called ? called : "-"};
        }
    return count;
}

static void watch_begin(watch *self, const ctl_peer *peer)
{
    self->peer = *peer;
    self->greeting = &greetings[peer - peers.items];
    self->now = self->next = ASKED_NOTHING;
    self->due = 0;
    self->is_over = self->wants_list = 0;
    self->message[0] = '\0';
    ctl_line_release(&self->answer);
}

/* Several fit: a table to choose from, or, where nobody can choose, to read. */
static exit_code several_watch(watch *self)
{
    top_process *all = processes;
    size_t count = processes_list(), at = 0;
    exit_code code = EXIT_CODE_OK;
    self->has_list = 1;
    if (!self->has_screen) {
        top_frame frame;
        top_processes_wait(all, count);
        top_frame_start(&frame, TOP_COLUMNS_MAX);
        top_processes_fill(&frame, all, count, count, 0);
        fputs("tenure top: several processes fit. Choose one by its number:\n", stderr);
        for (size_t i = 0; i < frame.count; i++)
            say(stderr, "%s\n", frame.lines[i]);
        top_frame_release(&frame);
        code = EXIT_CODE_SEVERAL;
    }
    while (code == EXIT_CODE_OK && top_choose(all, count, &at, self->interval_ms)) {
        watch_begin(self, all[at].peer);
        self->now = all[at].is_asked ? ASKED_STATUS : ASKED_NOTHING;
        self->asked_at = ctl_now_ms();
        code = watch_run(self);
        all[at].is_asked = self->now == ASKED_STATUS;
        if (!self->wants_list)
            break;
    }
    for (size_t i = 0; i < count; i++)
        ctl_line_release(&all[i].answer);
    return code;
}

static exit_code peers_watch(watch *self, const char *name)
{
    size_t room = peers.count > 0 ? (size_t)peers.count : 1;
    greetings = calloc(room, sizeof(*greetings));
    processes = calloc(room, sizeof(*processes));
    if (!greetings || !processes) {
        free(greetings);
        free(processes);
        fputs("tenure top: no host memory for what the processes say\n", stderr);
        return EXIT_CODE_NO_MEMORY;
    }
    int one = 0, count = peers_greet(name, &one);
    exit_code code = EXIT_CODE_OK;
    self->has_screen = count > 0 && !is_once && !is_json && top_screen_is_there();
    if (self->has_screen) {
        top_signals_watch();
        self->has_screen = top_screen_begin(&screen) == 0;
    }
    if (count == 0) {
        fprintf(stderr,
                "tenure top: no process in %s fits. top sees processes that use a GPU and were "
                "started by `tenure run`, or with TENURE_CONF=control:on\n",
                folders.text);
        code = EXIT_CODE_NO_PROCESS;
    } else if (count > 1) {
        code = several_watch(self);
    } else {
        watch_begin(self, &peers.items[one]);
        code = watch_run(self);
    }
    top_screen_end(&screen);
    for (int i = 0; i < peers.count; i++)
        ctl_line_release(&greetings[i]);
    free(greetings);
    free(processes);
    return code;
}

/* ---- the command ---------------------------------------------------------------------------- */

static int options_read(watch *self)
{
    char *end = NULL;
    double seconds = interval_option ? strtod(interval_option, &end) : 1;
    int view = 0;
    if (interval_option && (end == interval_option || *end || !(seconds >= 0.1 && seconds <= 3600)))
        return cli_usage_error(&syntax, "--interval must be 0.1 to 3600 seconds, not \"%s\"",
                               interval_option);
    while (by_option && view < TOP_VIEWS && strcmp(by_option, top_view_names[view]) != 0)
        view++;
    if (view == TOP_VIEWS)
        return cli_usage_error(
            &syntax, "--by must be pool, tag, stream, device or account, not \"%s\"", by_option);
    self->interval_ms = (int)(seconds * 1000);
    self->view = (top_view)view;
    return 0;
}

int command_top(int argc, char **argv)
{
    static watch self;
    cli_result parsed;
    char error[CTL_ERROR_BYTES];
    if (cli_parse(&syntax, argc, argv, &parsed) != 0)
        return EXIT_CODE_BAD_INPUT;
    if (parsed.help_wanted)
        return EXIT_CODE_OK;
    if (options_read(&self) != 0)
        return EXIT_CODE_BAD_INPUT;
    const char *whom = parsed.positionals_count > 0 ? parsed.positionals[0] : NULL;
    int is_number = whom && *whom && whom[strspn(whom, "0123456789")] == '\0';
    exit_code code = ctl_folders_open(&folders, dir_option, error);
    if (code != EXIT_CODE_OK) {
        say(stderr, "tenure top: %s\n", error);
        return code;
    }
    ctl_peers_find(&peers, &folders);
    if (is_number)
        ctl_peers_choose(&peers, strtol(whom, NULL, 10), NULL);
    code = peers_watch(&self, is_number ? NULL : whom);
    ctl_line_release(&self.answer);
    ctl_peers_release(&peers);
    ctl_folders_close(&folders);
    return code;
}
