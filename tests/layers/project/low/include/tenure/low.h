/* SPDX-License-Identifier: Apache-2.0 */
/* The public header of the lower layer. */
int low(void);
