/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What `tenure fuzz` prints.
 */
#ifndef TENURE_TOOLS_FUZZ_REPORT_H
#define TENURE_TOOLS_FUZZ_REPORT_H

#include "campaign.h"
#include "json.h"

/* What was run, for the reader who wants to run it again. */
typedef struct fuzz_report {
    const fuzz_campaign_options *options;
    const fuzz_totals *totals;
    const char *command;            /* as typed */
    const char *file;               /* the shrunk program; null: none was written */
    size_t before, after;           /* operations, before and after shrinking */
    uint64_t tries;                 /* of the shrinker */
    const gate_device_facts *facts; /* of gated programs; null: of the simulated device's */
    const char *replay_options;     /* what --replay needs besides, with a space at its end */
} fuzz_report;

/* The first lines: seed, commit and options, before anything runs. */
void fuzz_report_begin(const fuzz_report *report);
void fuzz_report_text(const fuzz_report *report);
void fuzz_report_json(const fuzz_report *report);
/* The comment at the top of a program that failed. Returns `text`. */
const char *fuzz_report_comment(const fuzz_result *result, char *text, size_t bytes);

/* Of gated programs: see fuzz_report_gates.c. */
void fuzz_report_device(const fuzz_report *report);
void fuzz_report_gates_text(const fuzz_report *report);
void fuzz_report_gates_json(json_writer *json, const fuzz_report *report);

#endif
