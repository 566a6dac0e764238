/* SPDX-License-Identifier: Apache-2.0 */
/* An internal header of the higher layer. */
#define HIGH_INSIDE 2
