/* SPDX-License-Identifier: Apache-2.0 */
/* oip_write.c - the answer of an inference: JSON, or JSON and tensors as bytes behind it.
 *
 * Arrays are noted as they are said, and all is written at the end: before the first byte goes to
 * shared memory each output must fit where it has to go. Bytes are sent from the memory of the
 * results, or copied from there to shared memory. Numbers in JSON are a flat list, as Triton writes
 * them. */
#include "base/dtype.h"
#include "formats/oip_internal.h"
#include "formats/writer.h"
#include "rows.h"
#include "json/json_numbers.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { CLASS_BYTES_MAX = 48 };

struct oip_writer {
    struct writer base; /* first */
    const struct oip_request *oip;
    const char *precision; /* that the answer names; NULL: none */
    struct array *arrays;  /* [asked_count], of the outputs */
    int count;
};

static struct oip_writer *oip_of(struct writer *writer)
{
    return (struct oip_writer *)writer;
}

static struct writer *oip_writer_begin(const struct format_body *body, struct text *text,
                                       struct fault *fault)
{
    struct oip_writer *writer = arena_calloc(body->arena, 1, sizeof *writer);
    struct array *arrays =
        arena_calloc(body->arena, (size_t)body->oip->asked_count, sizeof *arrays);
    if (!writer || !arrays) {
        fault_no_memory(fault);
        return NULL;
    }
    *writer = (struct oip_writer){
        { &writer_oip, body->arena, text, fault, .content_type = NULL }, body->oip, NULL, arrays, 0
    };
    return &writer->base;
}

static void oip_string(struct writer *writer, const char *name, const char *value)
{
    (void)name;
    oip_of(writer)->precision = value;
}

static void oip_array(struct writer *writer, const char *name, const struct array *array)
{
    (void)name;
    oip_of(writer)->arrays[oip_of(writer)->count++] = *array;
}

/* No overflow: they are in memory. */
static int64_t count_of(const struct array *array)
{
    int64_t count = 1;
    for (int i = 0; i < array->rank; i++)
        count *= array->shape[i];
    return count;
}

static size_t bytes_of(const struct array *array)
{
    return (size_t)count_of(array) * attn_dtype_size(array->dtype);
}

/* -------------------------------------------------------- classification -- */

/* The k largest values of every row, as strings "value:index" in the protocol's BYTES: each string
 * stands behind its length, which takes four bytes. */
struct classes {
    char *bytes;
    size_t size;
    int64_t count;
};

static size_t write_class(char *out, float value, int64_t index)
{
    char number[JSON_FLOAT_BYTES_MAX + 1];
    size_t size = 0;
    if (isfinite(value))
        size = json_write_float(number, value);
    else
        size = (size_t)snprintf(number, sizeof number, "%g", (double)value);
    const uint32_t length = (uint32_t)snprintf(out + sizeof length, CLASS_BYTES_MAX - sizeof length,
                                               "%.*s:%" PRId64, (int)size, number, index);
    memcpy(out, &length, sizeof length); /* the host is little-endian */
    return sizeof length + length;
}

/* Finds the k largest of each row; the last dimension of the array becomes k. */
static bool classify(struct arena *arena, struct array *array, int64_t k, struct classes *classes,
                     struct fault *fault)
{
    const int64_t width = array->rank > 0 ? array->shape[array->rank - 1] : 1;
    const int64_t rows = width > 0 ? count_of(array) / width : 0;
    const size_t row = (size_t)width * attn_dtype_size(array->dtype);
    k = k < width ? k : width;
    float *values = arena_calloc(arena, (size_t)width + 1, sizeof *values);
    float *largest = arena_calloc(arena, (size_t)k + 1, sizeof *largest);
    int64_t *indices = arena_calloc(arena, (size_t)k + 1, sizeof *indices);
    *classes = (struct classes){ .count = rows * k };
    classes->bytes = arena_alloc(arena, (size_t)classes->count * CLASS_BYTES_MAX);
    if (!values || !largest || !indices || !classes->bytes)
        return fault_no_memory(fault);
    for (int64_t r = 0; r < rows; r++) {
        dtype_read(values, (const char *)array->data + (size_t)r * row, array->dtype,
                   (size_t)width);
        attn_top_k(values, width, k, largest, indices);
        for (int64_t i = 0; i < k; i++)
            classes->size += write_class(classes->bytes + classes->size, largest[i], indices[i]);
    }
    if (array->rank > 0)
        array->shape[array->rank - 1] = k;
    return true;
}

static void write_classes(const struct classes *classes, struct text *text)
{
    const char *p = classes->bytes;
    text_raw(text, "[");
    for (int64_t i = 0; i < classes->count; i++) {
        uint32_t length;
        memcpy(&length, p, sizeof length);
        text_raw(text, i > 0 ? ",\"" : "\"");
        text_bytes(text, p + sizeof length, length);
        text_raw(text, "\"");
        p += sizeof length + length;
    }
    text_raw(text, "]");
}

/* --------------------------------------------------------------- outputs -- */

static void write_head(struct writer *json, const char *name, const char *datatype,
                       const struct array *array)
{
    const int64_t rank = array->rank;
    writer_json.object(json, NULL);
    writer_json.string(json, "name", name);
    writer_json.string(json, "datatype", datatype);
    writer_json.indices(json, "shape", array->shape, 1, &rank);
}

/* The bytes of one that goes out as bytes, else its numbers in the text. */
static struct byte_slice write_data(struct writer *json, const struct oip_output *output,
                                    const struct array *array, const struct classes *classes)
{
    const int64_t count = count_of(array);
    const struct byte_slice bytes = classes->bytes
                                        ? (struct byte_slice){ classes->bytes, classes->size }
                                        : (struct byte_slice){ array->data, bytes_of(array) };
    if (output->binary) {
        writer_json.object(json, "parameters");
        writer_json.integer(json, "binary_data_size", (int64_t)bytes.size);
        writer_json.end(json);
        return bytes;
    }
    const struct tensor_text tensor = tensor_text_make(array->data, array->dtype, 1, &count);
    text_raw(json->text, ",\"data\":");
    if (classes->bytes)
        write_classes(classes, json->text);
    else
        text_numbers(json->text, &tensor);
    return (struct byte_slice){ NULL, 0 };
}

/* Writes an output; its bytes become *part where it is binary. */
static bool write_output(struct writer *writer, struct writer *json, int number,
                         struct byte_slice *part)
{
    const struct oip_request *oip = oip_of(writer)->oip;
    const struct oip_output *output = &oip->outputs[number];
    struct array *array = &oip_of(writer)->arrays[number];
    struct classes classes = { .bytes = NULL };
    if (output->classification > 0
        && !classify(writer->arena, array, output->classification, &classes, writer->fault))
        return false;
    write_head(json, oip->signature->outputs[output->slot].name,
               classes.bytes ? "BYTES" : oip_datatype_of(array->dtype)->name, array);
    if (!output->region)
        *part = write_data(json, output, array, &classes);
    writer_json.end(json);
    return !output->region
           || region_write(output->region, output->offset, array->data, bytes_of(array),
                           writer->fault)
           || oip_at_parameter(writer->fault, "outputs", output->index, OIP_REGION);
}

/* Whether an output in shared memory fits where it has to go. */
static bool fits(const struct oip_writer *writer, int number)
{
    const struct oip_output *output = &writer->oip->outputs[number];
    const size_t bytes = bytes_of(&writer->arrays[number]);
    if (!output->region || bytes <= output->size)
        return true;
    fault_set(writer->base.fault, FAULT_BINARY,
              "shared memory size specified with the request for output '%s' (%" PRIu64
              " bytes) should be at least %zu bytes to hold the results",
              writer->oip->signature->outputs[output->slot].name, output->size, bytes);
    return oip_at_parameter(writer->base.fault, "outputs", output->index, OIP_REGION_SIZE);
}

static void write_begin(const struct oip_writer *writer, struct writer *json)
{
    char version[24];
    const struct oip_request *oip = writer->oip;
    snprintf(version, sizeof version, "%" PRId64, oip->signature->version);
    writer_json.object(json, NULL);
    writer_json.string(json, "model_name", oip->signature->model);
    writer_json.string(json, "model_version", version);
    if (oip->id)
        writer_json.string(json, "id", oip->id);
    if (writer->precision) {
        writer_json.object(json, "parameters");
        writer_json.string(json, "precision", writer->precision);
        writer_json.end(json);
    }
    writer_json.list(json, "outputs");
}

/* Writes all outputs. Returns how many parts the answer has; 0, with a fault, where one fails. */
static int write_outputs(struct writer *base, struct writer *json, struct byte_slice *parts)
{
    const struct oip_writer *writer = oip_of(base);
    int part_count = 1;
    for (int i = 0; i < writer->count; i++) {
        if (!write_output(base, json, i, &parts[part_count]))
            return 0;
        part_count += writer->oip->outputs[i].binary;
    }
    return part_count;
}

static bool oip_finish(struct writer *base)
{
    const struct oip_writer *writer = oip_of(base);
    const struct format_body body = { .arena = base->arena };
    struct byte_slice *parts = arena_calloc(base->arena, (size_t)writer->count + 1, sizeof *parts);
    struct writer *json = writer_json.begin(&body, base->text, base->fault);
    if (!parts || !json)
        return fault_no_memory(base->fault);
    for (int i = 0; i < writer->count; i++)
        if (!fits(writer, i))
            return false;
    write_begin(writer, json);
    const int part_count = write_outputs(base, json, parts);
    writer_json.end(json);
    writer_json.end(json);
    if (part_count <= 1)
        return part_count == 1 && writer_json.finish(json);
    parts[0] = (struct byte_slice){ base->text->data, base->text->used };
    base->parts = parts;
    base->part_count = part_count;
    base->content_type = "application/octet-stream";
    base->is_header = true;
    return true;
}

const struct writer_kind writer_oip = {
    .content_type = "application/json",
    .keeps_dtype = true,
    .begin = oip_writer_begin,
    .object = writer_skip_begin,
    .list = writer_skip_begin,
    .group = writer_skip_begin,
    .end = writer_skip_end,
    .string = oip_string,
    .flag = writer_skip_flag,
    .integer = writer_skip_integer,
    .array = oip_array,
    .indices = writer_skip_indices,
    .finish = oip_finish,
};
