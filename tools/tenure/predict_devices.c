/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Devices by name, and sizes: see predict.h.
 */
#include "predict.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cli.h"

#define GIB (UINT64_C(1) << 30)

/* In tenths of a GiB: what cudaMemGetInfo says the device has in all, which is less than its name
 * says. It depends on the driver, and on whether error correction is on: each is the smallest that
 * out-of-memory messages of PyTorch's users name for it, rounded down. */
static const struct {
    const char *name;
    unsigned tenths;
} known[] = {
    {"T4", 145},        {"V100-16GB", 157}, {"V100-32GB", 317}, {"A10", 219},
    {"A30", 235},       {"L4", 220},        {"L40", 443},       {"L40S", 443},
    {"A6000", 474},     {"RTX-3090", 235},  {"RTX-4090", 235},  {"RTX-5090", 313},
    {"A100-40GB", 393}, {"A100-80GB", 791}, {"H100-80GB", 791}, {"H200", 1397},
    {"B200", 1783},
};

enum { KNOWN_COUNT = sizeof(known) / sizeof(known[0]) };

const char *predict_devices_known(void)
{
    static char text[512];
    size_t at = 0;
    for (size_t i = 0; i < KNOWN_COUNT && at < sizeof(text); i++)
        at += (size_t)snprintf(text + at, sizeof(text) - at, "%s%s", i ? ", " : "", known[i].name);
    return text;
}

static int device_read(const char *name, predict_device *one, char *error, size_t error_bytes)
{
    snprintf(one->name, sizeof(one->name), "%s", name);
    for (size_t i = 0; i < KNOWN_COUNT; i++)
        if (strcasecmp(name, known[i].name) == 0) {
            snprintf(one->name, sizeof(one->name), "%s", known[i].name);
            one->bytes = known[i].tenths * GIB / 10;
            return 0;
        }
    if (cli_bytes(name, &one->bytes) != 0 || one->bytes < 1 << 24) {
        snprintf(error, error_bytes,
                 "--device: \"%.40s\" is neither a size of at least 16 MiB, as 24GiB, nor one of "
                 "%s",
                 name, predict_devices_known());
        return -1;
    }
    return 0;
}

int predict_devices_read(const char *text, predict_device *devices, char *error, size_t error_bytes)
{
    int count = 0;
    for (const char *at = text; at; count++) {
        const char *comma = strchr(at, ',');
        size_t length = comma ? (size_t)(comma - at) : strlen(at);
        char name[32];
        if (count == PREDICT_DEVICES_MAX) {
            snprintf(error, error_bytes, "--device: at most %d devices at once",
                     PREDICT_DEVICES_MAX);
            return -1;
        }
        snprintf(name, sizeof(name), "%.*s", (int)(length < 31 ? length : 31), at);
        if (device_read(name, &devices[count], error, error_bytes) != 0)
            return -1;
        at = comma ? comma + 1 : NULL;
    }
    return count;
}
