/* SPDX-License-Identifier: Apache-2.0 */
/* The public header of the higher layer. */
int high(void);
