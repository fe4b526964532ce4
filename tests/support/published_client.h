/* SPDX-License-Identifier: Apache-2.0 */
/* published_client.h - a published checkpoint of published.h, asked over HTTP. */
#ifndef PUBLISHED_CLIENT_H
#define PUBLISHED_CLIENT_H

#include "answer.h"
#include "http_client.h"
#include "published.h"
#include "request_text.h"

/* Adds ,"name":[[...]] to a request. */
void published_add_rows(struct request_text *text, const char *name, struct rows rows);

/* An answer's tensor of that name and shape against what the source computes. */
void published_expect_near(const cJSON *answer, const char *name, int rank, const int64_t *shape,
                           const double *want);

/* Context and weights of a call; more is the text of further fields, ",\"causal\":true". */
void published_expect_answer(struct http_client *client, const char *model, int layer,
                             struct rows query, struct rows key, const char *more,
                             const struct published_answer *want, int64_t heads);

#endif
