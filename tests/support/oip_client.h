/* SPDX-License-Identifier: Apache-2.0 */
/* oip_client.h - a client of the Open Inference Protocol v2 for the tests.
 *
 * The bytes are those that Triton's own Python client sends (tritonclient.http, _utils.py and
 * _infer_input.py): compact JSON, then the binary tensors in the order of the inputs, without
 * gaps. The header Inference-Header-Content-Length is sent if there is a binary tensor. Answers
 * are read as its InferResult reads them. */
#ifndef OIP_CLIENT_H
#define OIP_CLIENT_H

#include "answer.h"
#include "request_text.h"

struct oip_request {
    struct request_text inputs, outputs;
    const char *parameters; /* "\"causal\":true", or NULL */
    const char *id;         /* or NULL */
    unsigned char *tail;
    size_t tail_size;
    bool is_binary; /* an input or an output is */
};

/* Adds an input whose bytes go behind the JSON. */
void oip_add_binary(struct oip_request *request, const char *name, const char *datatype, int rank,
                    const int64_t *shape, const void *bytes, size_t size);

/* Adds an input with data as JSON text. */
void oip_add_json(struct oip_request *request, const char *name, const char *datatype,
                  const char *shape, const char *data);

/* Adds an input whose numbers are where its parameters say. */
void oip_add_placed(struct oip_request *request, const char *name, const char *datatype,
                    const char *shape, const char *parameters);

/* Asks for an output; parameters is "\"binary_data\":true" or NULL. */
void oip_ask(struct oip_request *request, const char *name, const char *parameters);

void oip_request_free(struct oip_request *request);

/* Sends it to /v2/models/{model}/infer. The caller frees the response. */
struct http_response oip_send(struct http_client *client, const char *model,
                              const struct oip_request *request);

/* A request, and its fault in the form of answer_expect_fault(). The message must contain says. */
struct oip_fault {
    const char *model, *body; /* model may end with /versions/...; NULL: sent otherwise */
    long status;
    const char *code, *pointer, *says;
};
void oip_expect_fault(const struct http_response *response, const struct oip_fault *fault);

/* Posts the body to /v2/models/{model}/infer. The daemon must refuse it with this fault. */
void oip_refused(struct http_client *client, const struct oip_fault *fault);

/* An answer, taken apart. */
struct oip_answer {
    struct http_response response;
    cJSON *json;
    const unsigned char *tail; /* the binary outputs */
    size_t tail_size;
};

/* Sends it and takes the answer apart. The answer must be 200. */
struct oip_answer oip_post(struct http_client *client, const char *model,
                           const struct oip_request *request);
struct oip_answer oip_answer_of(struct http_response response);
void oip_answer_free(struct oip_answer *answer);

/* An output, which must exist. */
struct oip_tensor_answer {
    const char *datatype;
    int rank;
    int64_t shape[8];
    int64_t count;
    const void *bytes; /* of a binary one, else NULL */
    size_t size;
    const cJSON *data; /* of one in JSON, else NULL */
};
struct oip_tensor_answer oip_output_of(const struct oip_answer *answer, const char *name);

/* The numbers of an output as doubles, for any datatype. null becomes -INFINITY. The caller
 * frees them. */
double *oip_numbers(const struct oip_tensor_answer *tensor);

/* Checks the datatype, the shape, and that each number is within tolerance * (1 + |want|).
 * Infinities must be equal. */
void oip_expect_numbers(const struct oip_answer *answer, const char *name, const char *datatype,
                        int rank, const int64_t *shape, const double *want, double tolerance);

/* A class is "value:index". The value is the shortest text of its float. */
void oip_expect_class(const char *text, double value, int index);

#endif
