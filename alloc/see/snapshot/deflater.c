/* SPDX-License-Identifier: Apache-2.0 */
/*
 * zlib without its header: see deflater.h. Its interface has been the same since 1995, down to the
 * layout of z_stream. So z_stream is declared here, and the header need not be there.
 */
#include "see/snapshot/deflater.h"

#include "base/assert.h"
#include "base/error.h"
#include "base/host_memory.h"
#include "base/prim/loader.h"

/* z_stream, as zlib's manual has it. */
typedef struct z_stream_s {
    const unsigned char *next_in;
    unsigned avail_in;
    unsigned long total_in;
    unsigned char *next_out;
    unsigned avail_out;
    unsigned long total_out;
    const char *msg;
    void *state;
    void *(*zalloc)(void *opaque, unsigned items, unsigned size);
    void (*zfree)(void *opaque, void *address);
    void *opaque;
    int data_type;
    unsigned long adler;
    unsigned long reserved;
} z_stream_s;

/* zlib's numbers. */
enum {
    Z_NO_FLUSH_ = 0,
    Z_FINISH_ = 4,
    Z_OK_ = 0,
    Z_STREAM_END_ = 1,
    Z_LEVEL = 1, /* the fastest: these texts become a seventh anyway */
    Z_METHOD = 8,
    Z_WINDOW_GZIP = 15 + 16,
    Z_MEMORY = 9
};

enum { OUT_BYTES = 1 << 17 };

struct tnri_deflater {
    void *library;
    int (*deflate)(z_stream_s *stream, int flush);
    int (*deflate_end)(z_stream_s *stream);
    int is_begun;
    z_stream_s stream;
    unsigned char out[OUT_BYTES];
};

tnr_status tnri_deflater_make(tnri_deflater **made)
{
    int (*init)(z_stream_s * stream, int level, int method, int window, int memory, int strategy,
                const char *version, int stream_bytes) = NULL;
    tnri_deflater *deflater = tnri_host_alloc(sizeof(*deflater));
    if (deflater == NULL)
        return tnri_error(TNR_ERR_HOST_MEMORY, "no host memory to compress a snapshot with.");
    deflater->library = tnri_loader_open("libz.so.1", 0);
    if (deflater->library == NULL ||
        !tnri_loader_function(deflater->library, "deflateInit2_", (void *)&init) ||
        !tnri_loader_function(deflater->library, "deflate", (void *)&deflater->deflate) ||
        !tnri_loader_function(deflater->library, "deflateEnd", (void *)&deflater->deflate_end)) {
        tnri_deflater_free(deflater);
        return tnri_error(TNR_ERR_FILE,
                          "a compressed snapshot needs zlib (libz.so.1), which is not installed. "
                          "Install it, or write without .gz.");
    }
    if (init(&deflater->stream, Z_LEVEL, Z_METHOD, Z_WINDOW_GZIP, Z_MEMORY, 0, "1.2.0",
             (int)sizeof(deflater->stream)) != Z_OK_) {
        tnri_deflater_free(deflater);
        return tnri_error(TNR_ERR_HOST_MEMORY, "no host memory to compress a snapshot with.");
    }
    deflater->is_begun = 1;
    *made = deflater;
    return TNR_OK;
}

/* Runs until the input is used up, or at the end until there is no more output. */
static void deflater_run(tnri_deflater *deflater, int flush, tnri_deflated out, void *user)
{
    int result = Z_OK_;
    do {
        deflater->stream.next_out = deflater->out;
        deflater->stream.avail_out = OUT_BYTES;
        result = deflater->deflate(&deflater->stream, flush);
        out(user, deflater->out, OUT_BYTES - deflater->stream.avail_out);
    } while (result == Z_OK_ && (deflater->stream.avail_out == 0 || flush == Z_FINISH_));
}

void tnri_deflater_add(tnri_deflater *deflater, const unsigned char *bytes, size_t count,
                       tnri_deflated out, void *user)
{
    deflater->stream.next_in = bytes;
    deflater->stream.avail_in = (unsigned)count;
    deflater_run(deflater, Z_NO_FLUSH_, out, user);
}

void tnri_deflater_end(tnri_deflater *deflater, tnri_deflated out, void *user)
{
    deflater->stream.avail_in = 0;
    deflater_run(deflater, Z_FINISH_, out, user);
}

void tnri_deflater_free(tnri_deflater *deflater)
{
    if (deflater == NULL)
        return;
    if (deflater->is_begun)
        deflater->deflate_end(&deflater->stream);
    if (deflater->library != NULL)
        tnri_loader_close(deflater->library);
    tnri_host_free(deflater, sizeof(*deflater));
}
