/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Filling the report: see encode_html.h. The template has one empty element for the data; it is
 * replaced by one element for each snapshot. Small snapshots are put in as JSON, readable in the
 * file. Large ones are put in as gzip in base64, a sixth of the size. In both, no text of a
 * snapshot can end the element: output_json_text writes '<' as an escape, and base64 has none.
 */
#include "encode_html.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "encode.h"

/* A snapshot with fewer rows than this is put in as JSON. */
enum { PLAIN_ROWS_MAX = 2000, TEMPLATE_BYTES_MAX = 64 << 20 };

static const char hole[] = "<script type=\"application/json\" id=\"tenure-data\"></script>";

/* The whole template, ended by a zero byte; null with a sentence in `error`. */
static char *template_read(const char *path, char *error, size_t error_bytes)
{
    FILE *file = fopen(path, "rbe");
    char *text = NULL;
    size_t length = 0, capacity = 0, got = 1;
    if (!file) {
        snprintf(error, error_bytes, "%.200s: cannot be opened: %s", path, strerror(errno));
        return NULL;
    }
    while (got > 0 && length < TEMPLATE_BYTES_MAX) {
        if (capacity - length < 65536) {
            capacity = capacity * 2 + 131072;
            char *grown = realloc(text, capacity);
            if (!grown)
                break;
            text = grown;
        }
        got = fread(text + length, 1, capacity - length - 1, file);
        length += got;
    }
    int whole = text && got == 0 && !ferror(file) && memchr(text, '\0', length) == NULL;
    fclose(file);
    if (whole)
        text[length] = '\0';
    if (whole && strstr(text, hole))
        return text;
    snprintf(error, error_bytes, "%.200s: is not the report's template: it has no %s", path, hole);
    free(text);
    return NULL;
}

static void base64_write(output *out, const unsigned char *bytes, size_t count)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    for (size_t i = 0; i < count; i += 3) {
        unsigned group = (unsigned)bytes[i] << 16;
        group |= i + 1 < count ? (unsigned)bytes[i + 1] << 8 : 0;
        group |= i + 2 < count ? bytes[i + 2] : 0;
        char four[4] = {digits[group >> 18], digits[group >> 12 & 63],
                        i + 1 < count ? digits[group >> 6 & 63] : '=',
                        i + 2 < count ? digits[group & 63] : '='};
        output_bytes(out, four, 4);
    }
}

/* Copies a file in base64. */
static int file_base64(FILE *file, output *out)
{
    unsigned char bytes[3 * 8192];
    size_t got;
    rewind(file);
    while ((got = fread(bytes, 1, sizeof(bytes), file)) > 0)
        base64_write(out, bytes, got);
    return ferror(file) ? -1 : 0;
}

/* The snapshot as gzip, through a nameless temporary file. */
static int packed_write(const html_part *part, output *out, char *error, size_t error_bytes)
{
    FILE *file = tmpfile();
    output *packed = malloc(sizeof(*packed));
    int code = -1;
    if (file && packed && output_open_fd(packed, dup(fileno(file)), 1) == 0) {
        code = part->plan ? encode_tenure_thin(part->snapshot, part->plan, packed) : 0;
        if (!part->plan)
            encode_tenure(part->snapshot, packed);
        code = output_close(packed, 1) == 0 && code == 0 ? file_base64(file, out) : -1;
    }
    if (code != 0)
        snprintf(error, error_bytes, "a temporary file: %s",
                 errno ? strerror(errno) : "cannot be written");
    free(packed);
    if (file)
        fclose(file);
    return code;
}

/* A text inside an attribute in double quotes. */
static void attribute_write(output *out, const char *text)
{
    for (; *text; text++)
        if (*text == '"')
            output_text(out, "&quot;");
        else if (*text == '&')
            output_text(out, "&amp;");
        else if (*text == '<')
            output_text(out, "&lt;");
        else
            output_bytes(out, text, 1);
}

static int part_write(const html_part *part, size_t index, output *out, char *error,
                      size_t error_bytes)
{
    const model *in = part->snapshot;
    int plain = in->records.count + in->blocks.count < PLAIN_ROWS_MAX && !part->plan;
    const char *slash = strrchr(part->name, '/');
    output_text(out, plain ? "<script type=\"application/json\" id=\"tenure-data"
                           : "<script type=\"application/octet-stream\" id=\"tenure-data-gz");
    output_text(out, index == 0 ? "\" data-name=\"" : "-b\" data-name=\"");
    attribute_write(out, slash ? slash + 1 : part->name);
    output_text(out, "\">");
    if (plain)
        encode_tenure(in, out);
    else if (packed_write(part, out, error, error_bytes) != 0)
        return -1;
    output_text(out, "</script>");
    return 0;
}

static void about_write(const html_beside *beside, output *out)
{
    output_text(out, "<script type=\"application/json\" id=\"tenure-about\">{\"title\":");
    output_json_text(out, beside->title ? beside->title : "");
    output_text(out, ",\"figures\":[");
    for (size_t i = 0; i < beside->figures_count; i++) {
        output_text(out, i > 0 ? ",{\"name\":" : "{\"name\":");
        output_json_text(out, beside->figures[i].name);
        output_text(out, ",\"bytes\":");
        output_unsigned(out, beside->figures[i].bytes);
        output_text(out, "}");
    }
    output_text(out, "],\"contradicting\":");
    output_unsigned(out, beside->contradictions);
    output_text(out, "}</script>");
}

int encode_html(const char *template_path, const html_part *parts, size_t parts_count,
                const html_beside *beside, output *out, char *error, size_t error_bytes)
{
    char *text = template_read(template_path, error, error_bytes);
    int code = 0;
    if (!text)
        return -1;
    char *at = strstr(text, hole);
    output_bytes(out, text, (size_t)(at - text));
    for (size_t i = 0; i < parts_count && code == 0; i++)
        code = part_write(&parts[i], i, out, error, error_bytes);
    if (beside->found && code == 0) {
        output_text(out, "<script type=\"application/json\" id=\"tenure-findings\">");
        findings_write(beside->found, out);
        output_text(out, "</script>");
    }
    if (beside->title || beside->figures_count > 0 || beside->contradictions > 0)
        about_write(beside, out);
    output_text(out, at + strlen(hole));
    free(text);
    return code;
}
