/* json_floats.h - the ways to read a row of numbers, for json_numbers.c and for tests.
 *
 * All of them are json_read_floats(), with the same floats to the bit: how far one gets before it
 * leaves a number to json_read_float() may differ, what it says of a number does not. */
#ifndef ATTND_JSON_FLOATS_H
#define ATTND_JSON_FLOATS_H

#include <stddef.h>

typedef size_t json_floats_reader(const char *begin, const char **text, const char *end,
                                  float *values);

/* For every CPU. */
json_floats_reader json_read_floats_plain;

/* The same of those numbers only that begin before stop. */
size_t json_read_floats_before(const char *stop, const char **text, const char *end, float *values);

#ifdef __x86_64__
json_floats_reader json_read_floats_avx2; /* for those with AVX2, BMI1 and BMI2 */
#endif

/* Those that this CPU can run, the best first; NULL ends them. */
json_floats_reader *const *json_floats_readers(void);

#endif
