/* SPDX-License-Identifier: Apache-2.0 */
/* input.c - from a file's name to a view of its numbers. */
#include "mpi/input.h"

#include "base/dtype.h"
#include "formats/npy.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

bool input_is_per_rank(const char *name)
{
    return strstr(name, "%r") != NULL;
}

static bool has_ending(const char *name, const char *ending)
{
    const size_t length = strlen(name), end = strlen(ending);
    return length >= end && strcmp(name + length - end, ending) == 0;
}

/* FILE with the rank in place of %r, and TENSOR behind the last colon of a safetensors file's name;
 * or the input's own name. */
static bool name_parts(struct input *input, const char **tensor, const struct job *job,
                       enum job_input which, struct fault *fault)
{
    const char *name = job->inputs[which], *mark = strstr(name, "%r"), *ending = ".safetensors:";
    const int before = mark ? (int)(mark - name) : (int)strlen(name);
    char number[16] = "";

    if (mark)
        snprintf(number, sizeof number, "%d", job->rank);
    const int length = snprintf(input->path, sizeof input->path, "%.*s%s%s", before, name, number,
                                mark ? mark + 2 : "");
    *tensor = job_input_names[which];
    if (length < 0 || length >= (int)sizeof input->path)
        return fault_set(fault, FAULT_FIELD, "the file's name has %d bytes, at most 4095 go",
                         length);
    char *colon = strstr(input->path, ending);
    if (colon) {
        colon += strlen(ending) - 1;
        *colon = '\0';
        *tensor = colon + 1;
    }
    if (!has_ending(input->path, ".npy") && !has_ending(input->path, ".safetensors"))
        return fault_set(fault, FAULT_FIELD,
                         "the file's name ends in neither .npy nor .safetensors");
    return true;
}

static bool map_file(struct input *input, struct fault *fault)
{
    struct stat status;
    /* A named pipe that nobody writes to would else be waited for. */
    const int file = open(input->path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);

    if (file < 0 || fstat(file, &status) != 0 || !S_ISREG(status.st_mode) || status.st_size == 0) {
        fault_set(fault, FAULT_NOT_FOUND, "%s",
                  file < 0 ? strerror(errno) : "it is no file with something in it");
        if (file >= 0)
            close(file);
        return false;
    }
    input->size = (size_t)status.st_size;
    input->bytes = mmap(NULL, input->size, PROT_READ, MAP_PRIVATE, file, 0);
    close(file);
    if (input->bytes != MAP_FAILED)
        return true;
    input->bytes = NULL;
    return fault_set(fault, FAULT_NOT_FOUND, "it cannot be mapped: %s", strerror(errno));
}

/* A tensor of the rank and shape that a file says. */
static bool view(struct input *input, const void *data, enum attn_dtype dtype, int64_t rank,
                 const int64_t *shape, struct fault *fault)
{
    const int64_t batch = rank == 4 ? shape[0] : 1;

    if (rank != 3 && rank != 4)
        return fault_set(fault, FAULT_SHAPE,
                         "it has rank %lld, expected [heads, length, head_dim] or [batch, heads, "
                         "length, head_dim]",
                         (long long)rank);
    if ((uintptr_t)data % attn_dtype_size(dtype) != 0)
        return fault_set(fault, FAULT_BINARY,
                         "its numbers begin at byte %lld of the file, which is no multiple of the "
                         "%zu bytes of a number: blanks at the end of the header mend that",
                         (long long)((const char *)data - (const char *)input->bytes),
                         attn_dtype_size(dtype));
    input->rank = (int)rank;
    input->tensor = attn_tensor_dense((void *)(uintptr_t)data, dtype, batch, shape[rank - 3],
                                      shape[rank - 2], shape[rank - 1]);
    return true;
}

static bool read_npy(struct input *input, struct fault *fault)
{
    struct npy_array array;

    return npy_read(&array, (struct byte_slice){ input->bytes, input->size }, fault)
           && view(input, array.data, array.dtype, array.rank, array.shape, fault);
}

static bool read_safetensors(struct input *input, const char *name, struct fault *fault)
{
    const struct safetensors_entry *entry;
    enum attn_dtype dtype;
    uint64_t dimensions[4] = { 0 };
    int64_t shape[4];

    if (!safetensors_read(&input->file, input->bytes, input->size, fault))
        return false;
    entry = safetensors_find(&input->file, name);
    if (!entry)
        return fault_set(fault, FAULT_NOT_FOUND,
                         "no tensor is named \"%s\": FILE:NAME names another", name);
    if (!dtype_find_plain(entry->dtype, &dtype) || dtype == ATTN_BOOL || dtype == ATTN_I8)
        return fault_set(fault, FAULT_DTYPE, "its dtype is %s, expected " DTYPE_NUMBERS,
                         entry->dtype);
    safetensors_shape(entry, dimensions, entry->rank < 4 ? entry->rank : 4);
    for (int i = 0; i < 4; i++) {
        if (dimensions[i] > INT32_MAX)
            return fault_set(fault, FAULT_SHAPE, "a dimension is %llu, at most 2147483647 goes",
                             (unsigned long long)dimensions[i]);
        shape[i] = (int64_t)dimensions[i];
    }
    return view(input, entry->data, dtype, entry->rank, shape, fault);
}

bool input_open(struct input *input, const struct job *job, enum job_input which,
                struct fault *fault)
{
    const char *tensor;
    char where[4200];

    *input = (struct input){ 0 };
    const bool is_read =
        name_parts(input, &tensor, job, which, fault) && map_file(input, fault)
        && (has_ending(input->path, ".npy") ? read_npy(input, fault)
                                            : read_safetensors(input, tensor, fault));
    if (is_read)
        return true;
    snprintf(where, sizeof where, "%s in %s", job_input_names[which], input->path);
    return fault_name_file(fault, where);
}

void input_close(struct input *input)
{
    safetensors_free(&input->file);
    if (input->bytes)
        munmap(input->bytes, input->size);
    *input = (struct input){ 0 };
}
