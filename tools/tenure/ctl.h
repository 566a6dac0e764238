/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `tenure ctl` is made of: finding processes in a folder, talking to one, and showing what it
 * said. docs/control.md has the protocol.
 */
#ifndef TENURE_TOOLS_CTL_H
#define TENURE_TOOLS_CTL_H

#include <limits.h>
#include <stdint.h>
#include <stdio.h>

#include "exit_code.h"
#include "value.h"

enum {
    CTL_PROTOCOL = 1,
    CTL_NAME_BYTES = 96,
    CTL_PEERS_MAX = 1024,
    CTL_ERROR_BYTES = 512,
    CTL_FOLDERS_MAX = 2
};

/* A folder of sockets, open. */
typedef struct ctl_folder {
    char path[PATH_MAX];
    int file;
    uint32_t owner; /* its user, whose the processes must be */
} ctl_folder;

/* The places where a user's processes may be. */
typedef struct ctl_folders {
    ctl_folder items[CTL_FOLDERS_MAX];
    int count;
    char text[2 * PATH_MAX + 8]; /* "FOLDER" or "FOLDER and FOLDER" */
} ctl_folders;

/* A process that can be asked. */
typedef struct ctl_peer {
    const ctl_folder *folder;
    char name[CTL_NAME_BYTES]; /* of its socket in the folder */
    long pid;                  /* as it sees itself */
    long pid_here;             /* as this command does; 0: not at all */
    int socket;                /* connected, and not yet greeted; -1: it is busy */
} ctl_peer;

typedef struct ctl_peers {
    ctl_peer items[CTL_PEERS_MAX];
    int count;
} ctl_peers;

/* A line that came, as text and as a value. */
typedef struct ctl_line {
    char *text;
    value_heap heap;
    budget limits;
    value parsed; /* a dictionary */
} ctl_line;

/* ---- finding (ctl_find.c) ------------------------------------------------------------------- */

/* Opens the folder. Without a path, the calling user's: in the runtime folder (XDG_RUNTIME_DIR,
 * else /run/user/UID) and in /tmp; with a path of /tmp/tenure-UID, that user's in both. What is not
 * there, or others may enter, is left out. If nothing is left, returns the exit code with a
 * sentence in `error`, which has room for CTL_ERROR_BYTES. */
exit_code ctl_folders_open(ctl_folders *folders, const char *path, char *error);
void ctl_folders_close(ctl_folders *folders);

/* Connects to all processes that are there, in the order of their names. Removes sockets on which
 * no process listens or ever will again, and the files that belong to them. */
void ctl_peers_find(ctl_peers *peers, const ctl_folders *folders);
void ctl_peers_release(ctl_peers *peers);

/* Keeps only the processes that are meant; `pid` and `name` may be 0 and null. */
void ctl_peers_choose(ctl_peers *peers, long pid, const char *name);

/* ---- talking (ctl_talk.c) ------------------------------------------------------------------- */

/* Receives a line. `patience_ms`: how long it may take in all; -1: for ever. */
exit_code ctl_receive(ctl_line *line, const ctl_peer *peer, int patience_ms, char *error);
void ctl_line_release(ctl_line *line);
/* Another of the same text. */
exit_code ctl_line_copy(ctl_line *copy, const ctl_line *line, const ctl_peer *peer, char *error);

/* Receives the first line: it says who the process is. Another version of the protocol is
 * refused. */
exit_code ctl_greeting(ctl_line *line, const ctl_peer *peer, int patience_ms, char *error);

/* Sends a request, which ends in a newline. */
exit_code ctl_send(const ctl_peer *peer, const char *request, int patience_ms, char *error);

/* The same, and receives the answer. */
exit_code ctl_ask(ctl_line *answer, const ctl_peer *peer, const char *request, int patience_ms,
                  char *error);

/* For an answer whose "ok" is false: its sentence in `error`, and the exit code for it. */
exit_code ctl_refusal(const ctl_line *answer, char *error);

/* Brings the file that an answer to `snapshot` names to `path` (ctl_fetch.c). `patience_ms`: how
 * long that may take; -1: for ever. */
exit_code ctl_snapshot_fetch(const ctl_peer *peer, const ctl_line *answer, const char *path,
                             int patience_ms, char *error);

/* The time of a clock that only goes forward. */
int64_t ctl_now_ms(void);

/* Fields of a dictionary: 0 or null if there is none of this kind. */
uint64_t ctl_number(const ctl_line *line, value dict, const char *key);
int ctl_has_number(const ctl_line *line, value dict, const char *key, uint64_t *number);
const char *ctl_text(const ctl_line *line, value dict, const char *key);
const value_list *ctl_list(const ctl_line *line, value dict, const char *key);
int ctl_has_dict(const ctl_line *line, value dict, const char *key, value *found);
int ctl_is_true(const ctl_line *line, value dict, const char *key);

/* ---- showing (ctl_show.c) ------------------------------------------------------------------- */

/* Gives the page that shows this answer its unit: that of the most that a device has. */
void ctl_page(const ctl_line *answer);

/* What a group and control groups let the process have of a device; with `has_files` also which
 * files say so. 0: nothing limits it so. */
int ctl_limits(const ctl_line *answer, value device, int has_files, char *text, size_t bytes);

void ctl_show_peer(const ctl_peer *peer, const ctl_line *greeting);
void ctl_show_answer(const ctl_line *answer);
/* A line of JSON: {"process": ..., "answer": ...}. Both may be null. */
void ctl_show_json(const ctl_peer *peer, const ctl_line *greeting, const ctl_line *answer);

/* A text without the sequences that a terminal would obey; "-" for none. */
const char *ctl_shown(const char *text, char *buffer, size_t bytes);

/* ---- metrics (ctl_metrics.c) ---------------------------------------------------------------- */

/* Adds what a process said to `status`. The peer lives until all are printed. */
exit_code ctl_metrics_add(const ctl_peer *peer, const ctl_line *greeting, const ctl_line *answer,
                          char *error);
/* All that were added, as one OpenMetrics text. */
void ctl_metrics_print(FILE *file);

#endif
