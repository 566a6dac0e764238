/* SPDX-License-Identifier: Apache-2.0 */
/* The calls of <tenure/export.h>: checks of arguments, and the way. */
#include <tenure/export.h>

#include <string.h>

#include "api/library.h"
#include "base/plural.h"
#include "base/prim/calm.h"
#include "base/error.h"
#include "share/exported.h"
#include "share/imported.h"
#include "share/offered.h"
#include "share/sharing.h"

/* ---- exporting ------------------------------------------------------------------------------ */

tnr_status tnr_export_create(tnr_export *number, const void *ptr)
{
    TNRI_CALM_CALL;
    if (number == NULL)
        return tnri_error(TNR_ERR_INVALID_ARGUMENT, "tnr_export_create: exported is null.");
    *number = 0;
    tnri_device *device;
    tnr_status status = tnri_library_find(ptr, &device);
    if (status != TNR_OK)
        return status;
    tnri_sharing_register();
    return tnri_exported_create(device, ptr, number);
}

tnr_status tnr_export_send(tnr_export number, int socket)
{
    TNRI_CALM_CALL;
    if (tnri_library_is_forked())
        return tnri_forked_error();
    return tnri_exported_send(number, socket, 0);
}

tnr_status tnr_export_get(tnr_export_info *info, tnr_export number)
{
    TNRI_CALM_CALL;
    if (info == NULL || info->struct_bytes != sizeof(*info))
        return tnri_error(TNR_ERR_INVALID_ARGUMENT,
                          "tnr_export_get: set info->struct_bytes to sizeof(tnr_export_info).");
    if (tnri_library_is_forked())
        return tnri_forked_error();
    return tnri_exported_get(number, info);
}

tnr_status tnr_export_close(tnr_export number)
{
    TNRI_CALM_CALL;
    if (tnri_library_is_forked())
        return tnri_forked_error();
    return tnri_exported_close(number);
}

tnr_status tnr_export_offer(tnr_export_name *name, const void *ptr)
{
    TNRI_CALM_CALL;
    tnr_export number = 0;
    if (name == NULL)
        return tnri_error(TNR_ERR_INVALID_ARGUMENT, "tnr_export_offer: name is null.");
    memset(name, 0, sizeof(*name));
    tnri_device *device;
    tnr_status status = tnri_library_find(ptr, &device);
    if (status != TNR_OK)
        return status;
    tnri_sharing_register();
    status = tnri_exported_offer(device, ptr, &number);
    return status == TNR_OK ? tnri_offered_name(name, number) : status;
}

/* ---- importing ------------------------------------------------------------------------------ */

static tnr_status info_check(const tnr_import_info *info, const char *call)
{
    if (info == NULL || info->struct_bytes != sizeof(*info))
        return tnri_error(TNR_ERR_INVALID_ARGUMENT,
                          "%s: set info->struct_bytes to sizeof(tnr_import_info).", call);
    if (tnri_library_is_forked())
        return tnri_forked_error();
    return TNR_OK;
}

static tnr_status options_check(const tnr_import_options *options)
{
    if (options->struct_bytes != sizeof(*options) || options->same_address < 0 ||
        options->same_address > 1 || options->read_only < 0 || options->read_only > 1)
        return tnri_error(TNR_ERR_INVALID_ARGUMENT,
                          "the options of an import are not of this version. Start from "
                          "TNR_IMPORT_OPTIONS_INIT.");
    int count = tnri_devices_count();
    if (count < 64 && options->peers >> count != 0)
        return tnri_error(TNR_ERR_INVALID_ARGUMENT,
                          "peers of an import: bit i is device i, and the machine has %d device%s.",
                          count, tnri_plural((uint64_t)count));
    return TNR_OK;
}

/* What both ways of importing begin with; null options are the defaults. On success the device is
 * entered. */
static tnr_status import_begin(tnr_import_info *info, const char *call, int device,
                               const tnr_import_options **options, tnri_device **found,
                               tnri_visit *visit)
{
    static const tnr_import_options defaults = TNR_IMPORT_OPTIONS_INIT;
    tnr_status status = info_check(info, call);
    if (status != TNR_OK)
        return status;
    if (*options == NULL)
        *options = &defaults;
    *info = (tnr_import_info){.struct_bytes = sizeof(*info)};
    status = tnri_library_device(device, found);
    if (status == TNR_OK)
        status = options_check(*options);
    if (status == TNR_OK)
        status = tnri_device_enter(*found, visit);
    if (status == TNR_OK)
        tnri_sharing_register();
    return status;
}

tnr_status tnr_import_receive(tnr_import_info *info, int socket, int device,
                              const tnr_import_options *options)
{
    TNRI_CALM_CALL;
    tnri_device *found;
    tnri_visit visit;
    tnr_status status = import_begin(info, "tnr_import_receive", device, &options, &found, &visit);
    if (status != TNR_OK)
        return status;
    status = tnri_imported_receive(found, socket, options, info);
    tnri_device_leave(&visit);
    return status;
}

tnr_status tnr_import_open(tnr_import_info *info, const tnr_export_name *name, int device,
                           const tnr_import_options *options)
{
    TNRI_CALM_CALL;
    tnri_device *found;
    tnri_visit visit;
    if (name == NULL)
        return tnri_error(TNR_ERR_INVALID_ARGUMENT, "tnr_import_open: name is null.");
    tnr_status status = import_begin(info, "tnr_import_open", device, &options, &found, &visit);
    if (status != TNR_OK)
        return status;
    status = tnri_imported_open(found, name, options, info);
    tnri_device_leave(&visit);
    return status;
}

tnr_status tnr_import_get(tnr_import_info *info, const void *ptr)
{
    TNRI_CALM_CALL;
    tnr_status status = info_check(info, "tnr_import_get");
    return status == TNR_OK ? tnri_imported_get(ptr, info) : status;
}

tnr_status tnr_import_at(tnr_import_info *info, size_t index)
{
    TNRI_CALM_CALL;
    tnr_status status = info_check(info, "tnr_import_at");
    if (status != TNR_OK || tnri_imported_at(index, info))
        return status;
    return tnri_error(TNR_ERR_INVALID_ARGUMENT, "index is %zu; there are fewer imports.", index);
}

tnr_status tnr_import_close(void *ptr)
{
    TNRI_CALM_CALL;
    if (tnri_library_is_forked())
        return tnri_forked_error();
    return tnri_imported_close(ptr);
}
