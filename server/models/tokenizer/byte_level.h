/* SPDX-License-Identifier: Apache-2.0 */
/* byte_level.h - the alphabet of byte-level tokenizers: every byte has a visible character.
 *
 * Bytes that are visible characters of Latin-1 stand for themselves; the 68 others take the
 * characters from U+0100 on, in their order. Source: bytes_to_unicode() of GPT-2's encoder.py. */
#ifndef ATTND_BYTE_LEVEL_H
#define ATTND_BYTE_LEVEL_H

#include <stdint.h>

static inline int byte_level_is_visible(uint32_t code)
{
    return (code >= 0x21 && code <= 0x7E) || (code >= 0xA1 && code <= 0xFF && code != 0xAD);
}

/* The character of a byte. */
static inline uint32_t byte_level_character(unsigned char byte)
{
    if (byte_level_is_visible(byte))
        return byte;
    return byte <= 0x20 ? 0x100u + byte : byte <= 0xA0 ? 0x121u + (byte - 0x7Fu) : 0x143u;
}

/* The byte of a character; -1: the character is not in the alphabet. */
static inline int byte_level_byte(uint32_t code)
{
    if (code < 0x100)
        return byte_level_is_visible(code) ? (int)code : -1;
    if (code <= 0x120)
        return (int)(code - 0x100);
    return code <= 0x142 ? (int)(code - 0x121 + 0x7F) : code == 0x143 ? 0xAD : -1;
}

#endif
