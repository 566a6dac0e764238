/* SPDX-License-Identifier: Apache-2.0 */
/*
 * From a file to a model: see read.h. Bytes become values (pickle.c, json_read.c), values become
 * the model (decode_*.c), and then the values go.
 */
#include "read.h"

#include <stdio.h>
#include <string.h>

#include "decode.h"
#include "input.h"
#include "json_read.h"
#include "pickle.h"
#include "value.h"

/* JSON begins with white space or an opening bracket. A pickle never begins with '{' or white
 * space; it does begin with ']' in protocol 1, but not with '['. */
static int looks_like_json(const input *in)
{
    for (size_t i = in->at; i < in->length; i++) {
        char one = (char)in->buffer[i];
        if (one != ' ' && one != '\t' && one != '\r' && one != '\n')
            return one == '{' || one == '[';
    }
    return 0;
}

/* 1 if the document calls itself Tenure's. */
static int is_tenure(const value_heap *heap, value document)
{
    value format;
    return value_get(heap, document, "format", &format) && value_kind_of(format) == VALUE_TEXT;
}

/* 1 if the item is a snapshot of PyTorch. */
static int is_snapshot(const decoder *from, const value_list *list, uint32_t at)
{
    value any;
    return list->count > at && value_kind_of(list->items[at]) == VALUE_DICT &&
           value_get(from->heap, list->items[at], "segments", &any);
}

/* The one snapshot in a dictionary of the user's: {"snapshot": ..., "step": 3}. 0: there is none,
 * or several. */
static int wrapped_find(const decoder *from, value *document)
{
    const value_dict *dict = value_as_dict(*document);
    value any, found = *document;
    int count = 0;
    for (uint32_t i = 0; i < dict->shape->count; i++)
        if (value_kind_of(dict->items[i]) == VALUE_DICT &&
            value_get(from->heap, dict->items[i], "segments", &any)) {
            found = dict->items[i];
            count++;
        }
    if (count == 1)
        *document = found;
    return count == 1;
}

static int document_decode(decoder *from, value document)
{
    value_kind kind = value_kind_of(document);
    if (kind != VALUE_DICT && kind != VALUE_LIST)
        return decode_is(from, (place){"the document", PLACE_WHOLE}, document, VALUE_DICT);
    if (is_tenure(from->heap, document) && !from->torch)
        return decode_tenure(from, document);
    if (from->history || (from->torch && kind == VALUE_LIST))
        return decode_fail(
            from, (place){"the document", PLACE_WHOLE},
            "it is partly of Tenure's form and partly of another: this is not a memory "
            "snapshot");
    value any;
    if (kind == VALUE_LIST && is_snapshot(from, value_as_list(document), 0))
        return decode_fail(from, (place){"the document", PLACE_WHOLE},
                           "it is a list of snapshots; write each to a file of its own");
    if (kind == VALUE_DICT && !value_get(from->heap, document, "segments", &any) &&
        wrapped_find(from, &document))
        return decode_torch(from, document);
    if (kind == VALUE_DICT && !value_get(from->heap, document, "segments", &any))
        return decode_fail(from, (place){"the document", PLACE_WHOLE},
                           "it has neither \"format\", as Tenure's snapshots, nor \"segments\", as "
                           "PyTorch's: this is not a memory snapshot");
    return decode_torch(from, document);
}

/* What a file is that a snapshot was packed into, and what to do; null: none that is known. */
static const char *archive_name(const input *in)
{
    static const struct {
        unsigned char first; /* apart: a binary that has all of xz's mark looks like liblzma */
        const char *rest;
        size_t rest_bytes;
        const char *is;
    } known[] = {
        {'P', "K\3\4", 3,
         "this is a zip archive, as torch.save writes; take the snapshot out of it "
         "(unzip; of torch.save it is data.pkl)"},
        {'B', "Zh", 2, "this was compressed with bzip2; decompress it first (bunzip2)"},
        {0xfd, "7zXZ", 4, "this was compressed with xz; decompress it first (unxz)"},
        {0x28, "\xb5\x2f\xfd", 3, "this was compressed with zstd; decompress it first (unzstd)"},
    };
    for (size_t i = 0; i < sizeof(known) / sizeof(known[0]); i++)
        if (in->length - in->at > known[i].rest_bytes &&
            (unsigned char)in->buffer[in->at] == known[i].first &&
            memcmp(in->buffer + in->at + 1, known[i].rest, known[i].rest_bytes) == 0)
            return known[i].is;
    return NULL;
}

static int values_read(input *in, value_heap *heap, const value_taker *taker, value *document)
{
    int state = input_fill(in);
    if (state <= 0)
        return state < 0 ? -1 : input_fail(in, 0, "the file is empty");
    if (archive_name(in))
        return input_fail(in, 0, "%s", archive_name(in));
    /* Editors of one system put a mark of UTF-8 before a text. */
    if (in->length - in->at > 3 && memcmp(in->buffer + in->at, "\xef\xbb\xbf", 3) == 0)
        in->at += 3;
    if (looks_like_json(in))
        return json_read(in, heap, taker, document);
    /* As every pickle since 2003 begins. Some other file's bytes are instructions, too, up to the
     * first that make no sense. */
    int is_pickle = in->buffer[in->at] == 0x80;
    state = pickle_read(in, heap, taker, document);
    if (state < 0 && !is_pickle)
        input_doubt(in, "this is probably neither a snapshot of Tenure (JSON) nor one of PyTorch "
                        "(a pickle)");
    return state;
}

static int input_decode(model *result, input *in, char *error, size_t error_bytes)
{
    value_heap heap;
    value document;
    decoder from = {
        .path = in->path, .heap = &heap, .out = result, .error = error, .error_bytes = error_bytes};
    if (value_heap_start(&heap, result->limits) != 0) {
        value_heap_release(&heap);
        return decode_fail_memory(&from);
    }
    map64_start(&from.texts, result->limits);
    input_earn(in, result->limits);
    const value_taker taker = {&from, decode_tenure_begin, decode_tenure_row, decode_torch_items};
    int code = values_read(in, &heap, &taker, &document);
    if (code != 0 && in->failed)
        snprintf(error, error_bytes, "%s", in->error);
    else if (code == 0)
        code = document_decode(&from, document);
    if (code == 0)
        budget_end_file(result->limits);
    decode_tenure_release(&from);
    decode_torch_release(&from);
    map64_release(&from.texts);
    value_heap_release(&heap);
    return code;
}

static read_result outcome(const model *result, int code)
{
    if (code == 0)
        return READ_OK;
    return result->limits->refused ? READ_NO_MEMORY : READ_BAD;
}

read_result snapshot_read(model *result, const char *path, const read_options *options, char *error,
                          size_t error_bytes)
{
    input in;
    if (input_open(&in, path) != 0) {
        snprintf(error, error_bytes, "%s", in.error);
        return READ_BAD;
    }
    if (options) {
        in.on_progress = options->on_progress;
        in.context = options->context;
    }
    int code = input_decode(result, &in, error, error_bytes);
    input_close(&in);
    return outcome(result, code);
}

read_result snapshot_read_memory(model *result, const char *name, const void *bytes, size_t count,
                                 char *error, size_t error_bytes)
{
    input in;
    input_open_memory(&in, name, bytes, count);
    int code = input_decode(result, &in, error, error_bytes);
    input_close(&in);
    return outcome(result, code);
}
