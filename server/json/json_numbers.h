/* SPDX-License-Identifier: Apache-2.0 */
/* json_numbers.h - numbers between text and float32, rounded correctly both ways. */
#ifndef ATTND_JSON_NUMBERS_H
#define ATTND_JSON_NUMBERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum {
    JSON_FLOAT_BYTES_MAX = 24,   /* "-1.17549435e-38", and bytes behind it that may be touched */
    JSON_DOUBLE_BYTES_MAX = 32,  /* the same for a double */
    JSON_INTEGER_BYTES_MAX = 22, /* 2^63 with a leading zero, a point and a sign */
    JSON_NUMBER_DIGITS_MAX = 40, /* of json_shorten_number() */
    JSON_NUMBER_BYTES_MAX = 63
};

/* What the writers below write for a number that is not finite. */
static const char JSON_NULL[4] = { 'n', 'u', 'l', 'l' };

/* Reads a number of the JSON grammar at text, which ends before end. Returns the byte after the
 * number, or NULL where no number of the grammar stands there (a leading zero, a bare sign, ...).
 * *value is the nearest float32 (ties to even), an infinity where the number is beyond its range.
 */
const char *json_read_float(const char *text, const char *end, float *value);

/* Reads the numbers of a row that begins at *text, with a comma and white space between two, and
 * sets *text to the byte after the last number read. Returns how many it read. It stops before
 * anything that is not an ordinary number, and near the end. A stop does not mean that no number
 * follows: json_read_float() tells. No value is an infinity. Bytes from begin, where the whole text
 * begins, up to *text may be read too. */
size_t json_read_floats(const char *begin, const char **text, const char *end, float *values);

/* Rewrites a number of the JSON grammar, of any length, in at most JSON_NUMBER_BYTES_MAX bytes and
 * a NUL byte, because not every cJSON takes longer numbers. Keeps JSON_NUMBER_DIGITS_MAX digits,
 * and one more digit where a dropped one was not 0. Returns and fails as json_read_float() does;
 * *size is the number of bytes written. */
const char *json_shorten_number(const char *text, const char *end, char *out, size_t *size);

/* Writes the shortest decimal that reads back to the same float32, and of several the nearest; null
 * where value is not finite. out has JSON_FLOAT_BYTES_MAX bytes, and any of them may be written.
 * Returns how many bytes count; no NUL byte follows. Integers have no point: "2", "-0", "1e+20". */
size_t json_write_float(char *out, float value);

/* Writes count floats as json_write_float() does, with a comma after each. out has
 * JSON_FLOAT_BYTES_MAX bytes for each float. */
size_t json_write_floats(char *out, const float *values, size_t count);

/* Writes a double in the form of json_write_float(), with 15 to 17 digits, the fewest that read
 * back to the same double; null where value is not finite. out has JSON_DOUBLE_BYTES_MAX bytes. */
size_t json_write_double(char *out, double value);

/* Writes value * 10^-places with `places` digits behind the point, 0 to 19. out has
 * JSON_INTEGER_BYTES_MAX bytes. */
size_t json_write_decimal(char *out, int64_t value, int places);

#endif
