/* SPDX-License-Identifier: Apache-2.0 */
/* model_bytes.c - see model_bytes.h. */
#include "model_bytes.h"

#include <assert.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MATRIX = 9 };

struct model_bytes model_bytes_of(const char *header, const float *values, size_t count)
{
    const uint64_t header_size = strlen(header);
    struct model_bytes file = { .size = 8 + header_size + count * sizeof *values };
    file.data = malloc(file.size);
    assert(file.data);
    for (int i = 0; i < 8; i++)
        file.data[i] = (char)(header_size >> 8 * i);
    memcpy(file.data + 8, header, header_size);
    memcpy(file.data + 8 + header_size, values, count * sizeof *values);
    return file;
}

/* Writes text as the inside of a JSON string. */
static void escape(char *out, size_t size, const char *text)
{
    size_t used = 0;
    for (; *text && used + 2 < size; text++) {
        if (*text == '"' || *text == '\\')
            out[used++] = '\\';
        out[used++] = *text;
    }
    out[used] = '\0';
}

struct model_bytes model_bytes_demo(float factor, const char *more)
{
    float values[3 * MATRIX] = {
        2, 0, 2, 2, 0, 0, 2, 1, 2, /* query */
        2, 2, 2, 0, 2, 1, 0, 1, 1, /* key */
        1, 1, 0, 0, 1, 1, 0, 0, 0, /* value */
    };
    char config[512], escaped[1024], header[2048];
    for (int i = 2 * MATRIX; i < 3 * MATRIX; i++)
        values[i] *= factor;
    snprintf(config, sizeof config,
             "{\"attention\":\"scaled_dot_product\",\"layout\":\"in_out\"%s}", more);
    escape(escaped, sizeof escaped, config);
    snprintf(header, sizeof header,
             "{\"__metadata__\":{\"attnd\":\"%s\"},"
             "\"q_proj.weight\":{\"dtype\":\"F32\",\"shape\":[3,3],\"data_offsets\":[0,36]},"
             "\"k_proj.weight\":{\"dtype\":\"F32\",\"shape\":[3,3],\"data_offsets\":[36,72]},"
             "\"v_proj.weight\":{\"dtype\":\"F32\",\"shape\":[3,3],\"data_offsets\":[72,108]}}",
             escaped);
    return model_bytes_of(header, values, 3 * MATRIX);
}
