/* SPDX-License-Identifier: Apache-2.0 */
/* Reading UTF-8: see utf8.h. */
#include "base/utf8.h"

size_t tnri_utf8_read(const char *text, size_t length, uint32_t *character)
{
    static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
    const unsigned char *at = (const unsigned char *)text;
    *character = 0;
    if (length == 0)
        return 0;
    size_t count = at[0] < 0x80 ? 1 : at[0] < 0xc2 ? 0 : at[0] < 0xe0 ? 2 : at[0] < 0xf0 ? 3 : 4;
    if (count == 0 || count > length || at[0] > 0xf4)
        return 0;
    uint32_t value = count == 1 ? at[0] : at[0] & (0x7fu >> count);
    for (size_t i = 1; i < count; i++) {
        if ((at[i] & 0xc0) != 0x80)
            return 0;
        value = value << 6 | (at[i] & 0x3f);
    }
    *character = value;
    int is_half = value >= 0xd800 && value <= 0xdfff;
    return value < least[count] || is_half || value > 0x10ffff ? 0 : count;
}

size_t tnri_utf8_length(const char *text, size_t length)
{
    uint32_t character;
    return tnri_utf8_read(text, length, &character);
}

int tnri_utf8_is_seen(uint32_t character)
{
    static const uint32_t unseen[][2] = {{0x00, 0x1f},     {0x7f, 0x9f},      {0xad, 0xad},
                                         {0x61c, 0x61c},   {0x180e, 0x180e},  {0x200b, 0x200f},
                                         {0x2028, 0x202e}, {0x2060, 0x206f},  {0xfeff, 0xfeff},
                                         {0xfff9, 0xfffb}, {0xe0000, 0xe007f}};
    for (size_t i = 0; i < sizeof(unseen) / sizeof(unseen[0]); i++)
        if (character >= unseen[i][0] && character <= unseen[i][1])
            return 0;
    return 1;
}
