/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Manual pages and completions, made from the tables that --help prints. So nothing is written
 * twice, and a new command or option appears by itself.
 */
#ifndef TENURE_TOOLS_MANUAL_H
#define TENURE_TOOLS_MANUAL_H

#include <stdio.h>

#include "cli.h"

enum { MANUAL_ENTRIES_MAX = 64 };

/* A group, or a command with options: exactly one is not null. */
typedef struct manual_entry {
    const char *path; /* "tenure snapshot convert" */
    const cli_group *group;
    const cli_syntax *syntax;
} manual_entry;

/* All of them, in the order of the help: each group comes before what is in it. */
typedef struct manual_tables {
    manual_entry entries[MANUAL_ENTRIES_MAX];
    char paths[MANUAL_ENTRIES_MAX][64];
    int count;
} manual_tables;

/* 1 if the option's value is a file or a folder. */
int manual_takes_file(const cli_option *option);

/* The page of one entry, for man. */
void manual_page_print(const manual_tables *tables, const manual_entry *entry, FILE *file);

/* What each shell reads. */
void manual_bash_print(const manual_tables *tables, FILE *file);
void manual_zsh_print(const manual_tables *tables, FILE *file);
void manual_fish_print(const manual_tables *tables, FILE *file);

#endif
