/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Putting snapshots into the report: one HTML file that needs nothing else.
 */
#ifndef TENURE_TOOLS_ENCODE_HTML_H
#define TENURE_TOOLS_ENCODE_HTML_H

#include "findings.h"
#include "model.h"
#include "output.h"
#include "thin.h"

typedef struct html_part {
    const model *snapshot;
    const char *name; /* of its file, to be shown */
    const thin *plan; /* what is left out of its history; null: nothing */
} html_part;

/* Fills the template (tools/report) with one or two snapshots, and with what the checker found
 * (null: not known). Returns 0, or -1 with a sentence in `error`. Errors of `out` are kept in
 * `out`. */
int encode_html(const char *template_path, const html_part *parts, size_t parts_count,
                const findings *found, output *out, char *error, size_t error_bytes);

#endif
