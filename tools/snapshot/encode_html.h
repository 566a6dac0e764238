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

/* An amount that the page compares with others of its kind. */
typedef struct html_figure {
    const char *name;
    uint64_t bytes;
} html_figure;

enum { HTML_FIGURES_MAX = 12 };

/* What the page shows beside the snapshots. Texts are valid UTF-8. */
typedef struct html_beside {
    const findings *found; /* what the checker found; null: it did not look */
    const char *title;     /* null: the program's name */
    html_figure figures[HTML_FIGURES_MAX];
    size_t figures_count;
    size_t contradictions; /* records of the first that do not fit what is there at the end */
} html_beside;

/* Fills the template (tools/report) with one or two snapshots, and with what is shown beside them.
 * Returns 0, or -1 with a sentence in `error`. Errors of `out` are kept in `out`. */
int encode_html(const char *template_path, const html_part *parts, size_t parts_count,
                const html_beside *beside, output *out, char *error, size_t error_bytes);

#endif
