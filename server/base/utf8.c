/* SPDX-License-Identifier: Apache-2.0 */
/* utf8.c - see utf8.h.
 *
 * The lead byte of a character settles its size and the range of its second byte. That range is 80
 * to BF except after E0, ED, F0 and F4 (the table of RFC 3629, section 4). All further bytes have
 * the range 80 to BF. */
#include "base/utf8.h"

size_t utf8_character_size(const char *text, size_t size)
{
    const unsigned char *bytes = (const unsigned char *)text;
    if (size == 0)
        return 0;
    const unsigned lead = bytes[0];
    if (lead < 0x80)
        return 1;
    if (lead < 0xC2 || lead > 0xF4) /* C0 and C1 begin only overlong forms */
        return 0;
    const size_t length = lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    if (size < length)
        return 0;
    const unsigned low = lead == 0xE0 ? 0xA0 : lead == 0xF0 ? 0x90 : 0x80;
    const unsigned high = lead == 0xED ? 0x9F : lead == 0xF4 ? 0x8F : 0xBF;
    if (bytes[1] < low || bytes[1] > high)
        return 0;
    for (size_t i = 2; i < length; i++)
        if ((bytes[i] & 0xC0) != 0x80)
            return 0;
    return length;
}

size_t utf8_encode(char out[4], unsigned code)
{
    if (code < 0x80) {
        out[0] = (char)code;
        return 1;
    }
    const size_t length = code < 0x800 ? 2 : code < 0x10000 ? 3 : 4;
    static const unsigned char LEADS[] = { 0, 0, 0xC0, 0xE0, 0xF0 };
    for (size_t i = length - 1; i > 0; i--) {
        out[i] = (char)(0x80 | (code & 0x3F));
        code >>= 6;
    }
    out[0] = (char)(LEADS[length] | code);
    return length;
}
