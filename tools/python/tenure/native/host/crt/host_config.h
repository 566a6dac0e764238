/* SPDX-License-Identifier: Apache-2.0 */
/* Nothing of it is needed for a host compiler: see host_defines.h. */
