/* dtype.h - numbers of every dtype that a file or a wire can carry, from and to float.
 *
 * Little-endian, as files, wires and the machines this runs on are. */
#ifndef ATTND_DTYPE_H
#define ATTND_DTYPE_H

#include "attn.h"

/* The dtype that a safetensors file calls by this name ("F32"); false where there is no such. */
bool dtype_find(const char *name, enum attn_dtype *dtype);

/* What it calls a dtype. */
const char *dtype_name(enum attn_dtype dtype);

/* count numbers of dtype, which may begin at any byte, as floats; of BOOL 1 and 0. A double is
 * rounded to nearest even, to infinity beyond the range of a float. */
void dtype_read(float *values, const void *bytes, enum attn_dtype dtype, size_t count);

/* The other way round, rounded to nearest even; what is beyond the dtype's range becomes infinite.
 * Not for BOOL. */
void dtype_write(void *bytes, enum attn_dtype dtype, const float *values, size_t count);

#endif
