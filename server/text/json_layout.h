/* json_layout.h - where the digits of a float go in its text, for json_write_float.c and
 * json_write_avx2.c, and for no other file.
 *
 * What costs time in the numbers of a tensor is not arithmetic but every branch that the processor
 * cannot foresee: how many digits, where the point stands. So all of these are made by selection:
 * stores of a fixed size at places from a table, of which later ones cover what is too much of
 * earlier ones. */
#ifndef ATTND_JSON_LAYOUT_H
#define ATTND_JSON_LAYOUT_H

#include <endian.h>
#include <stdint.h>
#include <string.h>

/* A decimal as nine digits from its first one that is not 0. */
struct json_digits {
    char first;
    uint64_t rest; /* the other eight as numbers, one in each byte, the first in the lowest */
    int point;     /* digits before the point; may be negative */
};

static inline void json_put_eight(char *out, uint64_t characters)
{
    characters = htole64(characters);
    memcpy(out, &characters, sizeof characters);
}

static const uint64_t JSON_EIGHT_ZEROS = 0x3030303030303030;

static const char JSON_SMALL[8] = { '0', '.', '0', '0', '0', '0', '0', '0' };

/* Where the parts of a number go whose first digit stands for 10^exponent. */
struct json_layout {
    uint8_t first;       /* offset of the first digit */
    uint8_t point;       /* of the point */
    uint8_t tail;        /* of the digits behind the point, where they are not all after first */
    uint8_t shift;       /* bits of rest that stand before the point */
    uint8_t extra;       /* bytes besides the digits, without the suffix */
    uint8_t suffix_size; /* 0 where numbers of this size need none */
    char suffix[4];
};

/* clang-format off */
#define ZEROS(n, e)  { 2 + (n), 1, 3 + (n), 0, 11 + (n), 0, e }   /* 0.00123 */
#define BEFORE(n, e) { 0, (n), (n) + 1, 8 * ((n) - 1), 10, 0, e } /* 12.3 */
#define E3(e)        { 0, 1, 2, 0, 10, 3, e }                     /* 1.23e-7 */
#define E4(e)        { 0, 1, 2, 0, 10, 4, e }

/* Plain where that is no longer than C's form, which has two digits of exponent or more:
 * 0.00012 and 1234.5 stay readable. For two digits or more, and no integers. */
enum { JSON_EXPONENT_MIN = -45, JSON_EXPONENT_MAX = 38 };
static const struct json_layout JSON_LAYOUTS[JSON_EXPONENT_MAX - JSON_EXPONENT_MIN + 1] = {
    E4("e-45"), E4("e-44"), E4("e-43"), E4("e-42"), E4("e-41"), E4("e-40"), E4("e-39"), E4("e-38"),
    E4("e-37"), E4("e-36"), E4("e-35"), E4("e-34"), E4("e-33"), E4("e-32"), E4("e-31"), E4("e-30"),
    E4("e-29"), E4("e-28"), E4("e-27"), E4("e-26"), E4("e-25"), E4("e-24"), E4("e-23"), E4("e-22"),
    E4("e-21"), E4("e-20"), E4("e-19"), E4("e-18"), E4("e-17"), E4("e-16"), E4("e-15"), E4("e-14"),
    E4("e-13"), E4("e-12"), E4("e-11"), E4("e-10"), E3("e-9"), E3("e-8"), E3("e-7"), E3("e-6"),
    E3("e-5"), ZEROS(3, "e-4"), ZEROS(2, "e-3"), ZEROS(1, "e-2"), ZEROS(0, "e-1"),
    BEFORE(1, "e+0"), BEFORE(2, "e+1"), BEFORE(3, "e+2"), BEFORE(4, "e+3"), BEFORE(5, "e+4"),
    BEFORE(6, "e+5"), BEFORE(7, "e+6"), BEFORE(8, "e+7"), E3("e+8"), E3("e+9"), E4("e+10"),
    E4("e+11"), E4("e+12"), E4("e+13"), E4("e+14"), E4("e+15"), E4("e+16"), E4("e+17"), E4("e+18"),
    E4("e+19"), E4("e+20"), E4("e+21"), E4("e+22"), E4("e+23"), E4("e+24"), E4("e+25"), E4("e+26"),
    E4("e+27"), E4("e+28"), E4("e+29"), E4("e+30"), E4("e+31"), E4("e+32"), E4("e+33"), E4("e+34"),
    E4("e+35"), E4("e+36"), E4("e+37"), E4("e+38"),
};
#undef ZEROS
#undef BEFORE
#undef E3
#undef E4
/* clang-format on */

static inline char *json_write_by_layout(char *out, struct json_digits digits)
{
    const struct json_layout *layout = &JSON_LAYOUTS[digits.point - 1 - JSON_EXPONENT_MIN];
    const uint64_t rest = digits.rest | JSON_EIGHT_ZEROS;
    memcpy(out, JSON_SMALL, sizeof JSON_SMALL);
    out[layout->first] = digits.first;
    json_put_eight(out + layout->first + 1, rest);
    out[layout->point] = '.';
    json_put_eight(out + layout->tail, rest >> layout->shift);
    out += layout->extra - (unsigned)__builtin_ctzll(__builtin_bswap64(digits.rest)) / 8;
    memcpy(out, layout->suffix, sizeof layout->suffix);
    return out + layout->suffix_size;
}

#endif
