/* oip_answer.c - the answer of an inference: JSON, or JSON and tensors as bytes behind it.
 *
 * Bytes are sent from the memory of the results, or copied from there to shared memory. Numbers in
 * JSON are a flat list, as Triton writes them. */
#include "wire/wire_oip.h"

#include "base/dtype.h"
#include "infer/infer_results.h"
#include "rows.h"
#include "text/json_numbers.h"
#include "wire/oip_region.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { CLASS_BYTES_MAX = 48 };

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

/* Finds the k largest of each row; the last dimension of the result becomes k. */
static bool classify(struct arena *arena, struct oip_result *result, int64_t k,
                     struct classes *classes, struct fault *fault)
{
    const int64_t width = result->rank > 0 ? result->shape[result->rank - 1] : 1;
    const int64_t rows = width > 0 ? result->count / width : 0;
    const size_t row = (size_t)width * attn_dtype_size(result->dtype);
    k = k < width ? k : width;
    float *values = arena_calloc(arena, (size_t)width + 1, sizeof *values);
    float *largest = arena_calloc(arena, (size_t)k + 1, sizeof *largest);
    int64_t *indices = arena_calloc(arena, (size_t)k + 1, sizeof *indices);
    *classes = (struct classes){ .count = rows * k };
    classes->bytes = arena_alloc(arena, (size_t)classes->count * CLASS_BYTES_MAX);
    if (!values || !largest || !indices || !classes->bytes)
        return fault_no_memory(fault);
    for (int64_t r = 0; r < rows; r++) {
        dtype_read(values, (const char *)result->data + (size_t)r * row, result->dtype,
                   (size_t)width);
        attn_top_k(values, width, k, largest, indices);
        for (int64_t i = 0; i < k; i++)
            classes->size += write_class(classes->bytes + classes->size, largest[i], indices[i]);
    }
    if (result->rank > 0)
        result->shape[result->rank - 1] = k;
    return true;
}

static void write_classes(const struct classes *classes, struct text *text)
{
    const char *p = classes->bytes;
    text_raw(text, "[");
    for (int64_t i = 0; i < classes->count; i++) {
        uint32_t length;
        memcpy(&length, p, sizeof length);
        text_bytes(text, ",", i > 0);
        text_bytes(text, "\"", 1);
        text_bytes(text, p + sizeof length, length);
        text_bytes(text, "\"", 1);
        p += sizeof length + length;
    }
    text_raw(text, "]");
}

/* --------------------------------------------------------------- outputs -- */

static void write_head(const char *name, const char *datatype, const struct oip_result *result,
                       struct text *text)
{
    text_raw(text, "{\"name\":");
    text_string(text, name);
    text_raw(text, ",\"datatype\":");
    text_string(text, datatype);
    text_raw(text, ",\"shape\":[");
    for (int i = 0; i < result->rank; i++) {
        text_bytes(text, ",", i > 0);
        text_integer(text, result->shape[i]);
    }
    text_raw(text, "]");
}

static size_t bytes_of(const struct oip_result *result)
{
    return (size_t)result->count * attn_dtype_size(result->dtype);
}

/* Writes an output; where it is binary, *part becomes its bytes. */
static bool write_output(const struct oip *oip, const struct oip_output *output,
                         struct oip_result *result, struct arena *arena, struct text *text,
                         struct byte_slice *part, struct fault *fault)
{
    struct tensor_text tensor;
    struct classes classes = { .bytes = NULL };
    if (output->classification > 0
        && !classify(arena, result, output->classification, &classes, fault))
        return false;
    write_head(oip->outputs_known[output->slot].name,
               classes.bytes ? "BYTES" : oip_datatype_name(result->dtype), result, text);
    if (output->place.region) {
        text_raw(text, "}");
        return oip_region_write(output, result->data, bytes_of(result), fault);
    }
    if (output->binary) {
        *part = classes.bytes ? (struct byte_slice){ classes.bytes, classes.size }
                              : (struct byte_slice){ result->data, bytes_of(result) };
        text_raw(text, ",\"parameters\":{\"binary_data_size\":");
        text_integer(text, (int64_t)part->size);
        text_raw(text, "}}");
        return true;
    }
    text_raw(text, ",\"data\":");
    tensor = tensor_text_make(result->data, result->dtype, 1, &result->count);
    if (classes.bytes)
        write_classes(&classes, text);
    else
        text_numbers(text, &tensor);
    text_raw(text, "}");
    return true;
}

static void write_begin(const struct oip *oip, struct text *text)
{
    text_raw(text, "{\"model_name\":");
    text_string(text, oip->model->name);
    text_raw(text, ",\"model_version\":\"");
    text_integer(text, oip->model->version);
    text_raw(text, "\"");
    if (oip->id) {
        text_raw(text, ",\"id\":");
        text_string(text, oip->id);
    }
    if (oip->precision) {
        text_raw(text, ",\"parameters\":{\"precision\":");
        text_string(text, oip->precision);
        text_raw(text, "}");
    }
    text_raw(text, ",\"outputs\":[");
}

/* Before the first byte goes to shared memory: whether each output fits where it has to go. */
static bool all_fit(const struct call *call, const struct oip *oip, oip_result_of *result,
                    struct fault *fault)
{
    struct oip_result of_output;
    for (int i = 0; i < oip->asked_count; i++) {
        const struct oip_output *output = &oip->outputs[i];
        if (!output->place.region)
            continue;
        result(call, oip, output->slot, &of_output);
        if (!oip_region_fits(oip, output, bytes_of(&of_output), fault))
            return false;
    }
    return true;
}

bool oip_answer_write(struct call *call, struct arena *arena, const struct oip *oip,
                      oip_result_of *result, struct fault *fault)
{
    struct byte_slice *parts = arena_calloc(arena, (size_t)oip->asked_count + 1, sizeof *parts);
    int part_count = 1;
    if (!parts)
        return fault_no_memory(fault);
    if (!all_fit(call, oip, result, fault))
        return false;
    write_begin(oip, &call->text);
    for (int i = 0; i < oip->asked_count; i++) {
        const struct oip_output *output = &oip->outputs[i];
        struct oip_result of_output;
        result(call, oip, output->slot, &of_output);
        text_bytes(&call->text, ",", i > 0);
        if (!write_output(oip, output, &of_output, arena, &call->text,
                          &parts[output->binary ? part_count : 0], fault))
            return false;
        part_count += output->binary;
    }
    text_raw(&call->text, part_count > 1 ? "]}" : "]}\n");
    if (part_count == 1)
        return true;
    parts[0] = (struct byte_slice){ call->text.data, call->text.used };
    call->content_type = "application/octet-stream";
    call->parts = parts;
    call->part_count = part_count;
    call->has_header_length = true;
    return true;
}

static void result_of(const struct call *call, const struct oip *oip, int slot,
                      struct oip_result *result)
{
    const struct infer_call *infer = (const struct infer_call *)call;
    if (oip->model->parameterless)
        oip_sdpa_result(infer, oip, slot, result);
    else
        oip_attention_result(infer, oip, slot, result);
}

bool oip_write(struct call *call, struct fault *fault)
{
    struct infer_request *request = infer_request_of(call);
    struct infer_item *first = request->item_count > 0 ? &request->items[0] : NULL;
    struct oip *oip = call->state;
    oip->precision = first ? infer_precision(first) : NULL;
    if (first && !infer_convert_results(request, first, first->answer_dtype, fault))
        return false;
    return oip_answer_write(call, &request->arena, oip, result_of, fault);
}
