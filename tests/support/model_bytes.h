/* SPDX-License-Identifier: Apache-2.0 */
/* model_bytes.h - the bytes of a model file, written by hand. Nothing here uses the daemon's own
 * writer. */
#ifndef MODEL_BYTES_H
#define MODEL_BYTES_H

#include <stddef.h>

/* The tutorial's four words, and the context that demo computes for the first of them. */
#define MODEL_BYTES_WORDS "[[1,0,0],[0,1,0],[1,1,0],[0,0,1]]"
#define MODEL_BYTES_CONTEXT                                                                        \
    {                                                                                              \
        0.98522025, 1.74174051, 0.75652026                                                         \
    }

struct model_bytes {
    char *data; /* malloc'd, the caller's */
    size_t size;
};

/* A safetensors file with this header text and count floats. */
struct model_bytes model_bytes_of(const char *header, const float *values, size_t count);

/* The tutorial's matrices, with the value matrix multiplied by factor. So the context is factor
 * times the context of demo. more is inserted into the config: ",\"causal\":true". */
struct model_bytes model_bytes_demo(float factor, const char *more);

#endif
