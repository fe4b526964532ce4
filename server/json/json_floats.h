/* SPDX-License-Identifier: Apache-2.0 */
/* json_floats.h - what the implementations of reading and writing a row of floats share.
 *
 * json_numbers.c reads and writes on every CPU; json_avx2.c does the same with AVX2; json_floats.c
 * chooses one of each. Only these files and the tests of rows include this header. */
#ifndef ATTND_JSON_FLOATS_H
#define ATTND_JSON_FLOATS_H

#include <endian.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* ------------------------------------------------------- implementations -- */

/* All readers do what json_read_floats() does, with the same floats to the bit. They may differ in
 * how many numbers they read before they leave one to json_read_float(). All writers do what
 * json_write_floats() does, with the same bytes. */
typedef size_t json_floats_reader(const char *begin, const char **text, const char *end,
                                  float *values);
typedef size_t json_floats_writer(char *out, const float *values, size_t count);

/* For every CPU. */
json_floats_reader json_read_floats_plain;
json_floats_writer json_write_floats_plain;

/* json_read_floats_plain() of only the numbers that begin before stop. */
size_t json_read_floats_before(const char *stop, const char **text, const char *end, float *values);

#ifdef __x86_64__
/* For CPUs with AVX2, BMI1 and BMI2. */
json_floats_reader json_read_floats_avx2;
json_floats_writer json_write_floats_avx2;

#define AVX2_BODY   __attribute__((target("avx2,bmi,bmi2")))
#define AVX2_INLINE __attribute__((target("avx2,bmi,bmi2"), always_inline)) static inline
#endif

/* The implementations that this CPU can run, the fastest first; NULL ends the list. */
json_floats_reader *const *json_floats_readers(void);
json_floats_writer *const *json_floats_writers(void);

/* ---------------------------------------------------------- powers of ten -- */

/* JSON_POW10_G[k - JSON_POW10_G_MIN] is 10^k * 2^(63 - floor(log2(10^k))), rounded up to an integer
 * of 64 bits: the g of R. Giulietti, "The Schubfach way to render doubles" (2020), in the width
 * that float32 needs. The values were computed with exact rational arithmetic (Python's
 * fractions.Fraction).
 *
 * JSON_POW10_DOUBLE[k - JSON_POW10_DOUBLE_MIN] is the double nearest to 10^k. */
enum { JSON_POW10_G_MIN = -31, JSON_POW10_G_MAX = 45 };
enum { JSON_POW10_DOUBLE_MIN = -64, JSON_POW10_DOUBLE_MAX = 64 };

/* clang-format off */
static const uint64_t JSON_POW10_INTEGER[] = {
    1, 10, 100, 1000, 10000, 100000, 1000000, 10000000, 100000000, 1000000000, 10000000000,
    100000000000, 1000000000000, 10000000000000, 100000000000000, 1000000000000000,
    10000000000000000, 100000000000000000, 1000000000000000000,
};
/* clang-format on */

static const uint64_t JSON_POW10_G[JSON_POW10_G_MAX - JSON_POW10_G_MIN + 1] = {
    0x81CEB32C4B43FCF5, 0xA2425FF75E14FC32, 0xCAD2F7F5359A3B3F, 0xFD87B5F28300CA0E,
    0x9E74D1B791E07E49, 0xC612062576589DDB, 0xF79687AED3EEC552, 0x9ABE14CD44753B53,
    0xC16D9A0095928A28, 0xF1C90080BAF72CB2, 0x971DA05074DA7BEF, 0xBCE5086492111AEB,
    0xEC1E4A7DB69561A6, 0x9392EE8E921D5D08, 0xB877AA3236A4B44A, 0xE69594BEC44DE15C,
    0x901D7CF73AB0ACDA, 0xB424DC35095CD810, 0xE12E13424BB40E14, 0x8CBCCC096F5088CC,
    0xAFEBFF0BCB24AAFF, 0xDBE6FECEBDEDD5BF, 0x89705F4136B4A598, 0xABCC77118461CEFD,
    0xD6BF94D5E57A42BD, 0x8637BD05AF6C69B6, 0xA7C5AC471B478424, 0xD1B71758E219652C,
    0x83126E978D4FDF3C, 0xA3D70A3D70A3D70B, 0xCCCCCCCCCCCCCCCD, 0x8000000000000000,
    0xA000000000000000, 0xC800000000000000, 0xFA00000000000000, 0x9C40000000000000,
    0xC350000000000000, 0xF424000000000000, 0x9896800000000000, 0xBEBC200000000000,
    0xEE6B280000000000, 0x9502F90000000000, 0xBA43B74000000000, 0xE8D4A51000000000,
    0x9184E72A00000000, 0xB5E620F480000000, 0xE35FA931A0000000, 0x8E1BC9BF04000000,
    0xB1A2BC2EC5000000, 0xDE0B6B3A76400000, 0x8AC7230489E80000, 0xAD78EBC5AC620000,
    0xD8D726B7177A8000, 0x878678326EAC9000, 0xA968163F0A57B400, 0xD3C21BCECCEDA100,
    0x84595161401484A0, 0xA56FA5B99019A5C8, 0xCECB8F27F4200F3A, 0x813F3978F8940985,
    0xA18F07D736B90BE6, 0xC9F2C9CD04674EDF, 0xFC6F7C4045812297, 0x9DC5ADA82B70B59E,
    0xC5371912364CE306, 0xF684DF56C3E01BC7, 0x9A130B963A6C115D, 0xC097CE7BC90715B4,
    0xF0BDC21ABB48DB21, 0x96769950B50D88F5, 0xBC143FA4E250EB32, 0xEB194F8E1AE525FE,
    0x92EFD1B8D0CF37BF, 0xB7ABC627050305AE, 0xE596B7B0C643C71A, 0x8F7E32CE7BEA5C70,
    0xB35DBF821AE4F38C,
};

static const double JSON_POW10_DOUBLE[JSON_POW10_DOUBLE_MAX - JSON_POW10_DOUBLE_MIN + 1] = {
    1e-64, 1e-63, 1e-62, 1e-61, 1e-60, 1e-59, 1e-58, 1e-57, 1e-56, 1e-55, 1e-54, 1e-53, 1e-52,
    1e-51, 1e-50, 1e-49, 1e-48, 1e-47, 1e-46, 1e-45, 1e-44, 1e-43, 1e-42, 1e-41, 1e-40, 1e-39,
    1e-38, 1e-37, 1e-36, 1e-35, 1e-34, 1e-33, 1e-32, 1e-31, 1e-30, 1e-29, 1e-28, 1e-27, 1e-26,
    1e-25, 1e-24, 1e-23, 1e-22, 1e-21, 1e-20, 1e-19, 1e-18, 1e-17, 1e-16, 1e-15, 1e-14, 1e-13,
    1e-12, 1e-11, 1e-10, 1e-9,  1e-8,  1e-7,  1e-6,  1e-5,  1e-4,  1e-3,  1e-2,  1e-1,  1e0,
    1e1,   1e2,   1e3,   1e4,   1e5,   1e6,   1e7,   1e8,   1e9,   1e10,  1e11,  1e12,  1e13,
    1e14,  1e15,  1e16,  1e17,  1e18,  1e19,  1e20,  1e21,  1e22,  1e23,  1e24,  1e25,  1e26,
    1e27,  1e28,  1e29,  1e30,  1e31,  1e32,  1e33,  1e34,  1e35,  1e36,  1e37,  1e38,  1e39,
    1e40,  1e41,  1e42,  1e43,  1e44,  1e45,  1e46,  1e47,  1e48,  1e49,  1e50,  1e51,  1e52,
    1e53,  1e54,  1e55,  1e56,  1e57,  1e58,  1e59,  1e60,  1e61,  1e62,  1e63,  1e64,
};

/* ---------------------------------------------------------- digits as text -- */

/* Where the digits of a float go in its text.
 *
 * What costs time when the numbers of a tensor are written is not arithmetic. It is every branch
 * that the processor cannot predict: how many digits there are, where the point stands. So there
 * are no such branches here. Stores of a fixed size go to places from a table, and later stores
 * cover the bytes that earlier ones wrote too many. */

/* A decimal as nine digits, beginning with its first digit that is not 0. */
struct json_digits {
    char first;    /* a character */
    uint64_t rest; /* the other eight digits as numbers, one a byte, the first in the lowest byte */
    int point;     /* how many digits come before the point; may be negative */
};

static inline void json_put_eight(char *out, uint64_t characters)
{
    characters = htole64(characters);
    memcpy(out, &characters, sizeof characters);
}

static const uint64_t JSON_EIGHT_ZEROS = 0x3030303030303030; /* eight characters '0' */

static const char JSON_SMALL[8] = { '0', '.', '0', '0', '0', '0', '0', '0' };

/* Where the parts of a number go, for one exponent of its first digit. */
struct json_layout {
    uint8_t first;       /* offset of the first digit */
    uint8_t point;       /* offset of the point */
    uint8_t tail;        /* offset of the digits of rest that stand behind the point */
    uint8_t shift;       /* bits of rest that stand before the point */
    uint8_t extra;       /* bytes of nine digits with their point and zeros, without the suffix */
    uint8_t suffix_size; /* 0 where numbers of this size have no suffix */
    char suffix[4];
};

/* clang-format off */
#define ZEROS(n, e)  { 2 + (n), 1, 3 + (n), 0, 11 + (n), 0, e }   /* 0.00123 */
#define BEFORE(n, e) { 0, (n), (n) + 1, 8 * ((n) - 1), 10, 0, e } /* 12.3 */
#define E3(e)        { 0, 1, 2, 0, 10, 3, e }                     /* 1.23e-7 */
#define E4(e)        { 0, 1, 2, 0, 10, 4, e }

/* Numbers have no exponent where that takes no more bytes than the form of C's printf(), whose
 * exponents have at least two digits: 0.00012 and 1234.5 stay readable. The table is for numbers of
 * two digits or more that are not integers. */
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

/* Writes a number of two digits or more that is not an integer; returns the byte after it. */
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
