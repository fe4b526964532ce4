/* SPDX-License-Identifier: Apache-2.0 */
/* made_model.c - see made_model.h. */
#include "made_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TENSORS_MAX = 64, VALUES_MAX = 1 << 20 };

static _Noreturn void stop(const char *what)
{
    perror(what);
    exit(1);
}

/* "4x6" */
static void read_shape(struct safetensors_tensor *tensor, char *text)
{
    char *rest = NULL;
    for (char *part = strtok_r(text, "x", &rest); part; part = strtok_r(NULL, "x", &rest))
        tensor->shape[tensor->rank++] = strtol(part, NULL, 10);
}

void *made_model(const char *config, const char *tensors, float value, size_t *size)
{
    struct safetensors_tensor list[TENSORS_MAX];
    struct fault fault;
    int64_t count = 0;
    void *bytes = NULL;
    char *copy = strdup(tensors), *rest = NULL;
    float *values = malloc(VALUES_MAX * sizeof *values);
    if (!copy || !values)
        stop("model_bytes");
    for (int i = 0; i < VALUES_MAX; i++)
        values[i] = value;
    for (char *item = strtok_r(copy, ",", &rest); item && count < TENSORS_MAX;
         item = strtok_r(NULL, ",", &rest)) {
        item += strspn(item, " ");
        char *space = strchr(item, ' ');
        list[count] = (struct safetensors_tensor){ .name = item, .values = values };
        if (space) {
            *space = '\0';
            read_shape(&list[count], space + 1);
        }
        count++;
    }
    if (!safetensors_write(&bytes, size, list, count, "attnd", config, &fault))
        stop(fault.message);
    free(copy);
    free(values);
    return bytes;
}

void made_model_write(const char *path, const void *bytes, size_t size)
{
    FILE *stream = fopen(path, "wb");
    if (!stream || fwrite(bytes, 1, size, stream) != size || fclose(stream) != 0)
        stop(path);
}

bool made_file_read(struct safetensors *file, struct guard_buffer *guard, const char *header,
                    size_t header_size, size_t data_size, struct fault *fault)
{
    *guard = guard_alloc(8 + header_size + data_size);
    unsigned char *bytes = guard->data;
    for (int i = 0; i < 8; i++)
        bytes[i] = (unsigned char)((uint64_t)header_size >> (8 * i));
    memcpy(bytes + 8, header, header_size);
    memset(bytes + 8 + header_size, 0x3F, data_size);
    return safetensors_read(file, bytes, 8 + header_size + data_size, fault);
}
