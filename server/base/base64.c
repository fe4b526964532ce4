/* SPDX-License-Identifier: Apache-2.0 */
/* base64.c - see base64.h. */
#include "base/base64.h"

size_t base64_length(size_t bytes)
{
    const size_t groups = bytes / 3 + (bytes % 3 > 0);
    size_t length;
    return __builtin_mul_overflow(groups, 4, &length) ? SIZE_MAX : length;
}

void base64_encode(char *text, struct byte_slice bytes)
{
    static const char DIGITS[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    const unsigned char *data = bytes.data;
    for (size_t i = 0; i < bytes.size; i += 3) {
        const size_t left = bytes.size - i;
        const unsigned group = (unsigned)data[i] << 16 | (left > 1 ? data[i + 1] : 0u) << 8
                               | (left > 2 ? data[i + 2] : 0u);
        *text++ = DIGITS[group >> 18];
        *text++ = DIGITS[group >> 12 & 63];
        *text++ = left > 1 ? DIGITS[group >> 6 & 63] : '=';
        *text++ = left > 2 ? DIGITS[group & 63] : '=';
    }
}

static int digit_value(char c)
{
    if (c >= 'A' && c <= 'Z')
        return c - 'A';
    if (c >= 'a' && c <= 'z')
        return c - 'a' + 26;
    if (c >= '0' && c <= '9')
        return c - '0' + 52;
    return c == '+' ? 62 : c == '/' ? 63 : -1;
}

int64_t base64_decode(const char *text, size_t size, unsigned char *out)
{
    if (size % 4 != 0)
        return -1;
    const size_t padding = size > 0 ? (text[size - 1] == '=') + (text[size - 2] == '=') : 0;
    int64_t used = 0;
    uint32_t bits = 0;
    for (size_t i = 0; i < size - padding; i++) {
        const int value = digit_value(text[i]);
        if (value < 0)
            return -1;
        bits = bits << 6 | (uint32_t)value;
        if (i % 4 != 0)
            out[used++] = (unsigned char)(bits >> (6 - 2 * (i % 4)));
    }
    return used;
}
