/* json_numbers.h - numbers between text and float32, rounded correctly both ways. */
#ifndef ATTND_JSON_NUMBERS_H
#define ATTND_JSON_NUMBERS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { JSON_FLOAT_BYTES_MAX = 24 }; /* "-1.17549435e-38", and what may be touched behind it */
enum {
    JSON_DOUBLE_BYTES_MAX = 32,
    JSON_INTEGER_BYTES_MAX = 22
}; /* of 2^63, a zero, a point and a sign */
enum { JSON_NUMBER_DIGITS_MAX = 40, JSON_NUMBER_BYTES_MAX = 63 };

/* Reads a number of the JSON grammar at text, which ends before end. Returns the
 * byte after it, or NULL where there is none (a leading zero, a bare sign, ...).
 * *value is the nearest float32 (ties to even), an infinity beyond its range. */
const char *json_read_float(const char *text, const char *end, float *value);

/* Reads the numbers of a row that begin at *text, a comma and white space between two,
 * and sets *text to the byte after the last one read. Returns how many it read: it stops
 * before whatever is not an ordinary number or too near the end, which says nothing yet
 * about whether it is one; json_read_float() does. No value is an infinity. From begin on,
 * where the whole text begins, bytes may be read that are before *text. */
size_t json_read_floats(const char *begin, const char **text, const char *end, float *values);

/* Rewrites a number of the JSON grammar, of any length, in at most
 * JSON_NUMBER_BYTES_MAX bytes and a NUL byte, keeping JSON_NUMBER_DIGITS_MAX
 * digits and the fact that there were more: not every cJSON takes longer ones. Returns
 * and fails as json_read_float() does; *size is what was written. */
const char *json_shorten_number(const char *text, const char *end, char *out, size_t *size);

/* Writes the shortest decimal that reads back to the same float32, and of those
 * the nearest; null where value is not finite. out has JSON_FLOAT_BYTES_MAX bytes,
 * of which any may be written; returns how many count, no NUL byte. Integers have
 * no point: "2", "-0", "1e+20". */
size_t json_write_float(char *out, float value);

/* The same count times, a comma after each. out has JSON_FLOAT_BYTES_MAX bytes for each. */
size_t json_write_floats(char *out, const float *values, size_t count);

/* The same for a double, by the shortest of 15 to 17 digits that read back to it. */
size_t json_write_double(char *out, double value);

/* value * 10^-places, with so many digits behind the point, 0 to 19. */
size_t json_write_decimal(char *out, int64_t value, int places);

#endif
