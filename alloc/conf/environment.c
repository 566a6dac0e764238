/* SPDX-License-Identifier: Apache-2.0 */
/* See environment.h. */
#include "conf/environment.h"

#include <stdlib.h>

const char *tnri_environment_driver(void)
{
    return getenv("TENURE_DRIVER");
}

const char *tnri_environment_conf(void)
{
    return getenv("TENURE_CONF");
}

const char *tnri_environment_nvtx(void)
{
    return getenv("NVTX_INJECTION64_PATH");
}

/* A program with more rights than its user's does not take the user's word for a folder. */
const char *tnri_environment_runtime(void)
{
    return secure_getenv("XDG_RUNTIME_DIR");
}
