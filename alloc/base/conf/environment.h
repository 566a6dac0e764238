/* SPDX-License-Identifier: Apache-2.0 */
/* The environment variables that the library reads: here and nowhere else. */
#ifndef TNRI_CONF_ENVIRONMENT_H
#define TNRI_CONF_ENVIRONMENT_H

/* TENURE_DRIVER: cuda, sim, or a path. Null if unset. */
const char *tnri_environment_driver(void);
/* TENURE_CONF: settings as "key:value,key:value". Null if unset. */
const char *tnri_environment_conf(void);
/* NVTX_INJECTION64_PATH: the library of a tool. Null if unset. */
const char *tnri_environment_nvtx(void);

/* The number of the process among those of its job, as torchrun, Open MPI, Slurm or PMI say it; "0"
 * without one. */
const char *tnri_environment_rank(void);

/* XDG_RUNTIME_DIR, or null. */
const char *tnri_environment_runtime(void);

#endif
