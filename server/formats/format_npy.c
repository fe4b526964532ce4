/* SPDX-License-Identifier: Apache-2.0 */
/* format_npy.c - .npy files to messages and back: the one array under the name that the table gives
 * it, and the parameters of the address as fields. */
#include "formats/format.h"

#include "base/dtype.h"
#include "formats/npy.h"
#include "formats/writer.h"

#include <inttypes.h>

/* As text a few bytes could otherwise ask for any number of []. */
static bool check_rows(const struct npy_array *file, struct fault *fault)
{
    return file->count > 0 || file->shape[0] == 0
           || fault_set(fault, FAULT_SHAPE,
                        "the .npy file has no numbers and %" PRId64 " rows; expected none",
                        file->shape[0]);
}

static bool read_npy(struct format_body *body, const struct field_table *table,
                     struct message *message, struct fault *fault)
{
    struct npy_array file;
    struct tensor *tensor = arena_calloc(body->arena, 1, sizeof *tensor);
    struct value *values =
        arena_calloc(body->arena, (size_t)body->address_count + 1, sizeof *values);
    if (!tensor || !values)
        return fault_no_memory(fault);
    *message = (struct message){ .values = values };
    if (!format_read_texts(body, table, "the address", body->address, body->address_count, message,
                           fault)
        || !npy_read(&file, body->bytes, fault) || !check_rows(&file, fault))
        return false;
    *tensor = (struct tensor){
        .dtype = dtype_name(file.dtype), .bytes = file.data, .size = file.size, .rank = file.rank
    };
    for (int i = 0; i < file.rank; i++)
        tensor->shape[i] = (uint64_t)file.shape[i];
    values[message->count++] =
        (struct value){ .name = table->nameless, .kind = VALUE_TENSOR, .tensor = tensor };
    return true;
}

const struct format format_npy = { .content_type = "application/x-npy",
                                   .keeps_bytes = true,
                                   .reads_address = true,
                                   .one_array = "an .npy file",
                                   .lacks_bf16 = true,
                                   .number_bytes = sizeof(double),
                                   .writer = &writer_npy,
                                   .read = read_npy };
