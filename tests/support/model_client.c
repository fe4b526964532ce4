/* SPDX-License-Identifier: Apache-2.0 */
/* model_client.c - requests on models. The context of demo shows which version answered. */
#include "model_client.h"
#include "test.h"

#include "answer.h"

static struct http_response send_to(struct http_client *client, const char *name,
                                    struct http_request request)
{
    char path[300];
    snprintf(path, sizeof(path), "/v1/models/%s", name);
    request.path = path;
    return http_client_send(client, &request);
}

struct http_response model_put(struct http_client *client, const char *name,
                               struct model_bytes file)
{
    static const char *const headers[] = { "Content-Type: application/x-safetensors", NULL };
    struct http_response response = send_to(
        client, name,
        (struct http_request){
            .method = "PUT", .body = file.data, .body_size = file.size, .headers = headers });
    free(file.data);
    return response;
}

struct http_response model_put_json(struct http_client *client, const char *name, const char *body)
{
    return send_to(client, name, (struct http_request){ .method = "PUT", .body = body });
}

struct http_response model_delete(struct http_client *client, const char *name)
{
    return send_to(client, name, (struct http_request){ .method = "DELETE" });
}

void model_put_demo(struct http_client *client, const char *name, float factor, long status)
{
    struct http_response response = model_put(client, name, model_bytes_demo(factor, ""));
    cJSON *model = answer_json(&response, status);
    assert_string_equal(cJSON_GetStringValue(cJSON_GetObjectItem(model, "name")), name);
    cJSON_Delete(model);
    http_response_free(&response);
}

void model_delete_well(struct http_client *client, const char *name)
{
    struct http_response response = model_delete(client, name);
    assert_int_equal(response.status, 204);
    assert_int_equal(response.body_size, 0);
    http_response_free(&response);
}

double model_factor(struct http_client *client, const char *name)
{
    static const double first[] = MODEL_BYTES_CONTEXT;
    const int64_t shape[] = { 4, 3 };
    char body[256];
    snprintf(body, sizeof(body), "{\"model\":\"%s\",\"query\":" MODEL_BYTES_WORDS "}", name);
    cJSON *answer = answer_post(client, "/v1/attention", body);
    double *context = answer_numbers(answer, "context", 2, shape);
    double factor = round(context[0] / first[0]);
    for (int d = 0; d < 3; d++)
        assert_true(fabs(context[d] - factor * first[d]) < 1e-5 * factor);
    free(context);
    cJSON_Delete(answer);
    return factor;
}

bool model_is_listed(struct http_client *client, const char *name)
{
    struct http_response response = http_client_get(client, "/v1/models");
    cJSON *root = answer_json(&response, 200);
    bool found = false;
    for (const cJSON *model = cJSON_GetObjectItem(root, "models")->child; model;
         model = model->next)
        found =
            found || strcmp(cJSON_GetStringValue(cJSON_GetObjectItem(model, "name")), name) == 0;
    cJSON_Delete(root);
    http_response_free(&response);
    return found;
}
