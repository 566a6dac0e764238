/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Device memory of control groups: what the kernel's controller "dmem" lets the process and the
 * groups around it have of a GPU (Linux 6.14, and a driver that registers the GPU's memory there:
 * CUDA 13.4).
 *
 * The hard limit is dmem.max: the driver refuses what would exceed it. The soft limit is dmem.min,
 * or dmem.low where that is not set: a group above it has what others may need, and when they do,
 * the driver may end a process of the group to get it. Each file has a line for each region,
 * "nvidia/0000:41:00.0/vidmem 8589934592", or "max" for the number. The region of a GPU is found by
 * its PCI address. dmem.current has what the group uses.
 *
 * For any thread. No lock, no host memory; reads
 * files.
 */
#ifndef TNRI_BASE_DMEM_H
#define TNRI_BASE_DMEM_H

#include <stdint.h>

/* Where a GPU is. */
typedef struct tnri_pci {
    int domain, bus, device;
} tnri_pci;

/* Of all groups, the limit that leaves least: its number, what its group uses, and its file. */
typedef struct tnri_dmem_limit {
    int64_t left; /* bytes below it, negative above it; INT64_MAX: there is none */
    uint64_t limit, used;
    char file[256];
} tnri_dmem_limit;

typedef struct tnri_dmem {
    int is_found; /* a group has a line for the device */
    tnri_dmem_limit soft, hard;
} tnri_dmem;

/* `folder` is where groups are: the setting `cgroup`; nothing is found without one. */
void tnri_dmem_read(tnri_dmem *dmem, const tnri_pci *gpu, const char *folder);

#endif
