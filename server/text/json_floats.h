/* json_floats.h - the ways to read and to write a row of numbers, for json_numbers.c,
 * json_write_float.c, their forms for AVX2, and tests.
 *
 * All readers are json_read_floats(), with the same floats to the bit: how far one gets before it
 * leaves a number to json_read_float() may differ, what it says of a number does not. All writers
 * are json_write_floats(), with the same bytes. */
#ifndef ATTND_JSON_FLOATS_H
#define ATTND_JSON_FLOATS_H

#include <stdbool.h>
#include <stddef.h>

typedef size_t json_floats_reader(const char *begin, const char **text, const char *end,
                                  float *values);
typedef size_t json_floats_writer(char *out, const float *values, size_t count);

/* For every CPU. */
json_floats_reader json_read_floats_plain;
json_floats_writer json_write_floats_plain;

/* json_read_floats_plain() of those numbers only that begin before stop. */
size_t json_read_floats_before(const char *stop, const char **text, const char *end, float *values);

#ifdef __x86_64__
/* For those with AVX2, BMI1 and BMI2. */
json_floats_reader json_read_floats_avx2;
json_floats_writer json_write_floats_avx2;
#endif

/* Those that this CPU can run, the best first; NULL ends them. */
json_floats_reader *const *json_floats_readers(void);
json_floats_writer *const *json_floats_writers(void);

#endif
