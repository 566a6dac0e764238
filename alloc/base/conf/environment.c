/* SPDX-License-Identifier: Apache-2.0 */
/* See environment.h. */
#include "base/conf/environment.h"

#include <stdlib.h>

/* A program with more rights than its user's (setuid, file capabilities) takes the user's word for
 * none of these: they name libraries that are loaded, files that are written, folders. */

const char *tnri_environment_driver(void)
{
    return secure_getenv("TENURE_DRIVER");
}

const char *tnri_environment_conf(void)
{
    return secure_getenv("TENURE_CONF");
}

const char *tnri_environment_nvtx(void)
{
    return secure_getenv("NVTX_INJECTION64_PATH");
}

const char *tnri_environment_rank(void)
{
    static const char *const names[] = {"RANK", "OMPI_COMM_WORLD_RANK", "SLURM_PROCID", "PMI_RANK"};
    for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
        const char *rank = secure_getenv(names[i]);
        if (rank != NULL && rank[0] != '\0')
            return rank;
    }
    return "0";
}

const char *tnri_environment_runtime(void)
{
    return secure_getenv("XDG_RUNTIME_DIR");
}
