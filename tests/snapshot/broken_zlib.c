/* SPDX-License-Identifier: Apache-2.0 */
/* Libraries that are no zlib: each has the first HAS of the three functions that are looked for. */
#include <stdlib.h>

#define SHOWN __attribute__((visibility("default")))

#if HAS >= 1
SHOWN int deflateInit2_(void);
SHOWN int deflateInit2_(void)
{
    return -4; /* Z_MEM_ERROR */
}
#endif

#if HAS >= 2
SHOWN int deflate(void);
SHOWN int deflate(void)
{
    abort();
}
#endif

#if HAS >= 3
SHOWN int deflateEnd(void);
SHOWN int deflateEnd(void)
{
    abort(); /* of what was never begun */
}
#endif

#if HAS == 0
SHOWN int is_no_zlib(void);
SHOWN int is_no_zlib(void)
{
    return 1;
}
#endif
