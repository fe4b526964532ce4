/* SPDX-License-Identifier: Apache-2.0 */
/* batch_tensors.c - see batch_tensors.h. */
#include "batch/batch_tensors.h"

#include "base/grow.h"
#include "json/text.h"

#include <assert.h>
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

/* What a header says of a tensor has so many bytes at least, beside the name. */
enum { ENTRY_BYTES_MIN = 50, BLOCK_BYTES = 1 << 16, BUFFER_BYTES = 1 << 20 };

bool batch_fail_to_write(const char *folder, const char *name, struct fault *fault)
{
    const char *full = errno == ENOSPC || errno == EDQUOT || errno == EFBIG
                           ? "; finished chunks stay: make room, and start the batch again"
                           : "";
    return fault_set(fault, FAULT_STORAGE, "%s%s%s cannot be written: %s%s", folder,
                     name[0] ? "/" : "", name, strerror(errno), full);
}

static bool fail_numbers(const struct batch_tensors *tensors, struct fault *fault)
{
    return batch_fail_to_write(tensors->folder, "", fault);
}

bool batch_tensors_begin(struct batch_tensors *tensors, const char *folder, int directory,
                         const char *temporary, struct fault *fault)
{
    *tensors = (struct batch_tensors){ .folder = folder };
    const int file =
        openat(directory, temporary, O_RDWR | O_CREAT | O_TRUNC | O_CLOEXEC, S_IRUSR | S_IWUSR);
    if (file < 0 || unlinkat(directory, temporary, 0) != 0
        || !(tensors->numbers = fdopen(file, "w+"))) {
        batch_fail_to_write(folder, temporary, fault);
        if (file >= 0)
            close(file);
        return false;
    }
    return setvbuf(tensors->numbers, NULL, _IOFBF, BUFFER_BYTES) == 0
           || fail_numbers(tensors, fault);
}

static bool fail_header(struct fault *fault)
{
    return fault_set(fault, FAULT_TOO_LARGE,
                     "the tensors of a chunk have names and shapes of more than %d bytes, the most "
                     "that a header of safetensors has; give a smaller --chunk, and an empty "
                     "folder",
                     SAFETENSORS_HEADER_BYTES_MAX);
}

/* The name and, behind its NUL byte, the dtype, whose owner goes. */
static char *make_name(const char *id, const struct safetensors_entry *entry)
{
    const size_t id_size = strlen(id), dtype_size = strlen(entry->dtype) + 1;
    char *name = malloc(id_size + 1 + entry->name_length + 1 + dtype_size);
    if (!name)
        return NULL;
    memcpy(name, id, id_size + 1);
    name[id_size] = '/';
    memcpy(name + id_size + 1, entry->name, entry->name_length + 1);
    memcpy(name + id_size + 1 + entry->name_length + 1, entry->dtype, dtype_size);
    return name;
}

/* The bytes of a name in JSON, at least. */
static size_t json_bytes(const char *name)
{
    size_t bytes = 0;
    for (const char *c = name; *c; c++)
        bytes += strchr("\"\\\b\f\n\r\t", *c) ? 2 : (unsigned char)*c < ' ' ? 6 : 1;
    return bytes;
}

static bool add_tensor(struct batch_tensors *tensors, const char *id,
                       const struct safetensors_entry *entry, struct fault *fault)
{
    struct safetensors_tensor *all = array_with_room(tensors->tensors, tensors->count,
                                                     &tensors->capacity, sizeof *tensors->tensors);
    if (!all)
        return fault_no_memory(fault);
    tensors->tensors = all;
    struct safetensors_tensor *tensor = &all[tensors->count];
    uint64_t shape[sizeof tensor->shape / sizeof tensor->shape[0]];
    assert(entry->rank <= (int64_t)(sizeof shape / sizeof shape[0]));
    assert(strlen(entry->name) == entry->name_length && !strchr(entry->name, '/'));
    char *name = make_name(id, entry);
    if (!name)
        return fault_no_memory(fault);
    *tensor = (struct safetensors_tensor){ .name = name,
                                           .dtype = name + strlen(name) + 1,
                                           .rank = (int)entry->rank };
    safetensors_shape(entry, shape, entry->rank);
    for (int64_t i = 0; i < entry->rank; i++)
        tensor->shape[i] = (int64_t)shape[i];
    tensors->count++;
    tensors->header_bytes += json_bytes(name) + ENTRY_BYTES_MIN;
    return tensors->header_bytes <= SAFETENSORS_HEADER_BYTES_MAX || fail_header(fault);
}

bool batch_tensors_add(struct batch_tensors *tensors, const char *id,
                       const struct safetensors *answer, struct fault *fault)
{
    for (int64_t i = 0; i < answer->entry_count; i++) {
        const struct safetensors_entry *entry = &answer->entries[i];
        if (!add_tensor(tensors, id, entry, fault))
            return false;
        if (fwrite(entry->data, 1, entry->size, tensors->numbers) != entry->size)
            return fail_numbers(tensors, fault);
    }
    return true;
}

/* ------------------------------------------------------------------------ the file -- */

static unsigned bits_of(const struct safetensors_tensor *tensor)
{
    return safetensors_dtype_bits(tensor->dtype);
}

static int64_t bytes_of(const struct safetensors_tensor *tensor)
{
    int64_t bytes = 0;
    const bool good = safetensors_tensor_bytes(tensor, &bytes);
    assert(good);
    (void)good;
    return bytes;
}

static bool write_head(const struct batch_tensors *tensors, FILE *file, const char *name,
                       struct fault *fault)
{
    struct safetensors_tensor *ordered =
        malloc((size_t)(tensors->count + 1) * sizeof *tensors->tensors);
    struct text text;
    int64_t used = 0;
    if (!ordered)
        return fault_no_memory(fault);
    for (unsigned bits = 64; bits >= 8; bits /= 2)
        for (int64_t i = 0; i < tensors->count; i++)
            if (bits_of(&tensors->tensors[i]) == bits)
                ordered[used++] = tensors->tensors[i];
    assert(used == tensors->count);
    text_init(&text, SIZE_MAX);
    bool good = safetensors_write_head(&text, ordered, used, NULL, 0, fault)
                && (text.used - SAFETENSORS_LENGTH_BYTES <= SAFETENSORS_HEADER_BYTES_MAX
                    || fail_header(fault));
    good = good
           && (fwrite(text.data, 1, text.used, file) == text.used
               || batch_fail_to_write(tensors->folder, name, fault));
    text_free(&text);
    free(ordered);
    return good;
}

static bool copy(const struct batch_tensors *tensors, int64_t size, FILE *file, const char *name,
                 struct fault *fault)
{
    char block[BLOCK_BYTES];
    while (size > 0) {
        const size_t part = size < BLOCK_BYTES ? (size_t)size : BLOCK_BYTES;
        if (fread(block, 1, part, tensors->numbers) != part)
            return fail_numbers(tensors, fault);
        if (fwrite(block, 1, part, file) != part)
            return batch_fail_to_write(tensors->folder, name, fault);
        size -= (int64_t)part;
    }
    return true;
}

/* Copies the numbers of so many bits, which are not there in every chunk. */
static bool copy_numbers(const struct batch_tensors *tensors, unsigned bits, FILE *file,
                         const char *name, struct fault *fault)
{
    int64_t begin = 0, at = -1; /* of a tensor, of the file */
    for (int64_t i = 0; i < tensors->count; i++) {
        const int64_t bytes = bytes_of(&tensors->tensors[i]);
        if (bits_of(&tensors->tensors[i]) == bits) {
            if (at != begin && fseeko(tensors->numbers, begin, SEEK_SET) != 0)
                return fail_numbers(tensors, fault);
            if (!copy(tensors, bytes, file, name, fault))
                return false;
            at = begin + bytes;
        }
        begin += bytes;
    }
    return true;
}

bool batch_tensors_write(struct batch_tensors *tensors, FILE *file, const char *name,
                         struct fault *fault)
{
    bool good = (fflush(tensors->numbers) == 0 || fail_numbers(tensors, fault))
                && write_head(tensors, file, name, fault);
    for (unsigned bits = 64; good && bits >= 8; bits /= 2)
        good = copy_numbers(tensors, bits, file, name, fault);
    return good;
}

void batch_tensors_free(struct batch_tensors *tensors)
{
    if (tensors->numbers)
        fclose(tensors->numbers);
    for (int64_t i = 0; i < tensors->count; i++)
        free((char *)tensors->tensors[i].name);
    free(tensors->tensors);
    *tensors = (struct batch_tensors){ .numbers = NULL };
}
