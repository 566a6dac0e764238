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

static const char *dir_option, *interval_option, *by_option;
static int is_once, is_json;

static const cli_option options[] = {
    {"by", "WORD", "pool (default), tag, stream, device or account: what memory is\ntold apart by",
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
    "The process with this number, or with this in its program's name; without either the one "
    "that\n"
    "is there. If several fit, they are listed. A process can be watched if it was started by\n"
    "`tenure run`, or with TENURE_CONF=control:on. docs/control.md has more.\n"
    "\n"
    "held is what is mapped now; live what blocks have; waiting what was freed before its last "
    "use\n"
    "is over; moving how many old mappings of moved chunks wait for that; asleep what is given "
    "back\n"
    "until the wake. The largest holders come first. Narrow terminals have fewer columns.\n"
    "\n"
    "account is all that the device's driver says is used, by what it is: of a program that runs\n"
    "under `tenure run --account`.\n"
    "\n"
    "Keys: p, t, s, d, a by pool, tag, stream, device, account; S writes a snapshot into this "
    "folder; T gives\n"
    "idle memory back; q ends. Without a terminal the same comes as lines, once in an interval.\n"
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
    if (self->answer.text)
        top_frame_fill(frame, &self->answer, self->view, rows > 2 ? rows - 2 : rows);
    if (!self->has_screen)
        return;
    top_line(frame, "%s", "");
    if (self->message[0] != '\0')
        top_line(frame, "%s", self->message);
    else
        top_line(frame, "q quit  p t s d a by  S snapshot  T trim");
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
    snprintf(self->message, sizeof(self->message), "%llu MiB given back",
             (unsigned long long)(released >> 20));
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

/* ---- keys ----------------------------------------------------------------------------------- */

static void key_take(watch *self)
{
    static const char views[] = "ptsda";
    char key;
    if (read(STDIN_FILENO, &key, 1) != 1) {
        self->is_over = errno != EINTR && errno != EAGAIN; /* the terminal is gone */
        return;
    }
    const char *view = key ? strchr(views, key) : NULL;
    self->message[0] = '\0';
    if (view) {
        self->view = (top_view)(view - views);
        self->due = ctl_now_ms(); /* streams are in no answer yet */
    } else if (key == 'q') {
        self->is_over = 1;
    } else if (key == 'S' || key == 'T') {
        self->next = key == 'S' ? ASKED_SNAPSHOT : ASKED_TRIM;
        snprintf(self->message, sizeof(self->message), "asked for; it does one thing at a time");
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

static exit_code watch_run(watch *self)
{
    char error[CTL_ERROR_BYTES] = "";
    top_screen screen = {0};
    exit_code code = EXIT_CODE_OK;
    self->has_screen = !is_once && !is_json && top_screen_is_there();
    if (self->has_screen) {
        top_signals_watch();
        self->has_screen = top_screen_begin(&screen) == 0;
    }
    while (code == EXIT_CODE_OK && !self->is_over && top_signals_number() == 0 && !ferror(stdout)) {
        code = next_ask(self, error);
        if (code == EXIT_CODE_OK)
            code = step(self, error);
    }
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
static ctl_line greetings[CTL_PEERS_MAX]; /* of those that are meant; they stay where they are */

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

static exit_code peers_watch(watch *self, const char *name)
{
    int one = 0, count = peers_greet(name, &one);
    exit_code code = EXIT_CODE_OK;
    if (count == 0) {
        fprintf(stderr,
                "tenure top: no process in %s fits. One can be watched if it was started by "
                "`tenure run`, or with TENURE_CONF=control:on, and has used a GPU\n",
                folders.text);
        code = EXIT_CODE_NO_PROCESS;
    } else if (count > 1) {
        fputs("tenure top: several processes fit. Choose one by its number:\n", stderr);
        for (int i = 0; i < peers.count; i++)
            if (greetings[i].text)
                say(stderr, "  %-8ld %s\n",
                    peers.items[i].pid_here > 0 ? peers.items[i].pid_here : peers.items[i].pid,
                    ctl_text(&greetings[i], greetings[i].parsed, "program"));
        code = EXIT_CODE_SEVERAL;
    } else {
        self->peer = peers.items[one];
        self->greeting = &greetings[one];
        code = watch_run(self);
    }
    for (int i = 0; i < peers.count; i++)
        ctl_line_release(&greetings[i]);
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
