/* SPDX-License-Identifier: Apache-2.0 */
/* oip_client.c - see oip_client.h. */
#include "oip_client.h"
#include "test.h"

#include "tensor_file.h"

#include <inttypes.h>

/* --------------------------------------------------------------- requests -- */

void oip_add_binary(struct oip_request *request, const char *name, const char *datatype, int rank,
                    const int64_t *shape, const void *bytes, size_t size)
{
    struct request_text *text = &request->inputs;
    request_text_add(text, "%s{\"name\":\"%s\",\"shape\":[", text->used ? "," : "", name);
    for (int i = 0; i < rank; i++)
        request_text_add(text, "%s%" PRId64, i > 0 ? "," : "", shape[i]);
    request_text_add(text, "],\"datatype\":\"%s\",\"parameters\":{\"binary_data_size\":%zu}}",
                     datatype, size);
    request->tail = realloc(request->tail, request->tail_size + size + 1);
    assert_non_null(request->tail);
    if (size > 0)
        memcpy(request->tail + request->tail_size, bytes, size);
    request->tail_size += size;
    request->is_binary = true;
}

void oip_add_json(struct oip_request *request, const char *name, const char *datatype,
                  const char *shape, const char *data)
{
    request_text_add(&request->inputs,
                     "%s{\"name\":\"%s\",\"shape\":%s,\"datatype\":\"%s\",\"data\":%s}",
                     request->inputs.used ? "," : "", name, shape, datatype, data);
}

void oip_add_placed(struct oip_request *request, const char *name, const char *datatype,
                    const char *shape, const char *parameters)
{
    request_text_add(&request->inputs,
                     "%s{\"name\":\"%s\",\"shape\":%s,\"datatype\":\"%s\",\"parameters\":{%s}}",
                     request->inputs.used ? "," : "", name, shape, datatype, parameters);
}

void oip_ask(struct oip_request *request, const char *name, const char *parameters)
{
    request_text_add(&request->outputs, "%s{\"name\":\"%s\"%s%s%s}",
                     request->outputs.used ? "," : "", name, parameters ? ",\"parameters\":{" : "",
                     parameters ? parameters : "", parameters ? "}" : "");
}

void oip_request_free(struct oip_request *request)
{
    free(request->inputs.data);
    free(request->outputs.data);
    free(request->tail);
    memset(request, 0, sizeof *request);
}

struct http_response oip_send(struct http_client *client, const char *model,
                              const struct oip_request *request)
{
    char path[256], length[80];
    struct request_text body = { 0 };
    const char *binary_headers[] = { length, "Content-Type: application/octet-stream", NULL };
    snprintf(path, sizeof path, "/v2/models/%s/infer", model);
    request_text_add(&body, "{");
    if (request->id)
        request_text_add(&body, "\"id\":\"%s\",", request->id);
    request_text_add(&body, JSON("inputs":[%s]), request->inputs.data ? request->inputs.data : "");
    if (request->outputs.used)
        request_text_add(&body, ",\"outputs\":[%s]", request->outputs.data);
    if (request->parameters)
        request_text_add(&body, ",\"parameters\":{%s}", request->parameters);
    request_text_add(&body, "}");
    snprintf(length, sizeof length, "Inference-Header-Content-Length: %zu", body.used);
    body.data = realloc(body.data, body.used + request->tail_size + 1);
    assert_non_null(body.data);
    if (request->tail_size > 0)
        memcpy(body.data + body.used, request->tail, request->tail_size);
    const struct http_request http = {
        .path = path,
        .body = body.data,
        .body_size = body.used + request->tail_size,
        .headers = request->is_binary ? binary_headers : NULL,
    };
    struct http_response response = http_client_send(client, &http);
    free(body.data);
    return response;
}

/* ----------------------------------------------------------------- faults -- */

void oip_expect_fault(const struct http_response *response, const struct oip_fault *fault)
{
    answer_expect_fault(response, fault->status, fault->code, fault->pointer);
    if (!strstr(response->body, fault->says))
        fail_msg("\"%s\" is not in %s", fault->says, response->body);
}

void oip_refused(struct http_client *client, const struct oip_fault *fault)
{
    char path[128];
    snprintf(path, sizeof path, "/v2/models/%s/infer", fault->model);
    struct http_response response = http_client_post(client, path, fault->body);
    if (response.status != fault->status)
        fail_msg("%s\n%ld %s", fault->body, response.status, response.body);
    oip_expect_fault(&response, fault);
    http_response_free(&response);
}

/* ---------------------------------------------------------------- answers -- */

struct oip_answer oip_answer_of(struct http_response response)
{
    struct oip_answer answer = { .response = response };
    char value[64];
    if (response.status != 200)
        fail_msg("status %ld: %s", response.status, response.body ? response.body : "");
    size_t json_size = response.body_size;
    const char *length =
        http_response_header(&response, "Inference-Header-Content-Length", value, sizeof value);
    if (length)
        json_size = (size_t)strtoull(length, NULL, 10);
    assert_true(json_size <= response.body_size);
    answer.json = cJSON_ParseWithLength(response.body, json_size);
    assert_non_null(answer.json);
    answer.tail = (const unsigned char *)response.body + json_size;
    answer.tail_size = response.body_size - json_size;
    char type[64];
    assert_non_null(http_response_header(&response, "Content-Type", type, sizeof type));
    assert_string_equal(type, length ? "application/octet-stream" : "application/json");
    return answer;
}

struct oip_answer oip_post(struct http_client *client, const char *model,
                           const struct oip_request *request)
{
    return oip_answer_of(oip_send(client, model, request));
}

void oip_answer_free(struct oip_answer *answer)
{
    cJSON_Delete(answer->json);
    http_response_free(&answer->response);
}

struct oip_tensor_answer oip_output_of(const struct oip_answer *answer, const char *name)
{
    size_t offset = 0;
    const cJSON *output;
    cJSON_ArrayForEach(output, cJSON_GetObjectItemCaseSensitive(answer->json, "outputs")) {
        const cJSON *size = cJSON_GetObjectItemCaseSensitive(
            cJSON_GetObjectItemCaseSensitive(output, "parameters"), "binary_data_size");
        const size_t bytes = size ? (size_t)size->valuedouble : 0;
        if (strcmp(cJSON_GetObjectItemCaseSensitive(output, "name")->valuestring, name) != 0) {
            offset += bytes;
            continue;
        }
        struct oip_tensor_answer tensor = { .count = 1, .size = bytes };
        const cJSON *dimension;
        tensor.datatype = cJSON_GetObjectItemCaseSensitive(output, "datatype")->valuestring;
        cJSON_ArrayForEach(dimension, cJSON_GetObjectItemCaseSensitive(output, "shape")) {
            tensor.shape[tensor.rank] = (int64_t)dimension->valuedouble;
            tensor.count *= tensor.shape[tensor.rank++];
        }
        tensor.data = cJSON_GetObjectItemCaseSensitive(output, "data");
        assert_true((tensor.data == NULL) != (size == NULL));
        assert_true(offset + bytes <= answer->tail_size);
        tensor.bytes = size ? answer->tail + offset : NULL;
        return tensor;
    }
    fail_msg("there is no output %s", name);
    return (struct oip_tensor_answer){ .rank = -1 };
}

static double number_at(const struct oip_tensor_answer *tensor, int64_t i)
{
    float narrow;
    double wide;
    uint16_t half;
    const char *bytes = tensor->bytes;
    if (strcmp(tensor->datatype, "FP32") == 0) {
        memcpy(&narrow, bytes + 4 * i, sizeof narrow);
        return (double)narrow;
    }
    if (strcmp(tensor->datatype, "FP64") == 0) {
        memcpy(&wide, bytes + 8 * i, sizeof wide);
        return wide;
    }
    memcpy(&half, bytes + 2 * i, sizeof half);
    if (strcmp(tensor->datatype, "FP16") == 0)
        return (double)tensor_half(half);
    assert_string_equal(tensor->datatype, "BF16");
    const uint32_t bits = (uint32_t)half << 16;
    memcpy(&narrow, &bits, sizeof narrow);
    return (double)narrow;
}

double *oip_numbers(const struct oip_tensor_answer *tensor)
{
    double *numbers = calloc((size_t)tensor->count + 1, sizeof *numbers);
    assert_non_null(numbers);
    if (tensor->bytes) {
        const size_t size = strcmp(tensor->datatype, "FP32") == 0   ? 4
                            : strcmp(tensor->datatype, "FP64") == 0 ? 8
                                                                    : 2;
        assert_int_equal(tensor->size, (size_t)tensor->count * size);
        for (int64_t i = 0; i < tensor->count; i++)
            numbers[i] = number_at(tensor, i);
        return numbers;
    }
    assert_int_equal(cJSON_GetArraySize(tensor->data), tensor->count);
    int64_t i = 0;
    const cJSON *node;
    cJSON_ArrayForEach(node, tensor->data) {
        assert_true(cJSON_IsNumber(node) || cJSON_IsNull(node));
        numbers[i++] = cJSON_IsNull(node) ? -(double)INFINITY : node->valuedouble;
    }
    return numbers;
}

void oip_expect_numbers(const struct oip_answer *answer, const char *name, const char *datatype,
                        int rank, const int64_t *shape, const double *want, double tolerance)
{
    const struct oip_tensor_answer output = oip_output_of(answer, name);
    double *numbers = oip_numbers(&output);
    assert_string_equal(output.datatype, datatype);
    assert_int_equal(output.rank, rank);
    for (int i = 0; i < rank; i++)
        assert_int_equal(output.shape[i], shape[i]);
    for (int64_t i = 0; i < output.count; i++)
        if (isinf(want[i]) ? numbers[i] != want[i]
                           : !(fabs(numbers[i] - want[i]) <= tolerance * (1 + fabs(want[i]))))
            fail_msg("%s[%d] is %.17g, want %.17g", name, (int)i, numbers[i], want[i]);
    free(numbers);
}

void oip_expect_class(const char *text, double value, int index)
{
    char *end;
    const float came = strtof(text, &end);
    if (fabs(came - value) > 2e-7 * value || *end != ':' || end - text > 12
        || strtol(end + 1, &end, 10) != index || *end)
        fail_msg("expected the class %.9g:%d, not %s", value, index, text);
}
