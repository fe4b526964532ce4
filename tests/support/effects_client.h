/* SPDX-License-Identifier: Apache-2.0 */
/* effects_client.h - effects of POST /v1/effects against what single traces with the same edits
 * answer: the float difference of their values, to the bit. */
#ifndef EFFECTS_CLIENT_H
#define EFFECTS_CLIENT_H

#include "http_client.h"

/* What is asked, as JSON text without braces. */
struct effects_case {
    struct http_client *client;
    const char *model;
    const char *input;  /* "\"tokens\":[1,2]" */
    const char *other;  /* for rows of another pass, of as many rows; NULL: it is not asked for */
    const char *kind;   /* of layers; NULL: the model has one */
    const char *edits;  /* common ones, such as "{\"scale\":2}"; "": none */
    const char *metric; /* of targets too: "\"token\":3,\"against\":5" */
};

/* Asks for each part that the layers have, by every way, and compares every effect. */
void effects_client_expect(const struct effects_case *of);

/* The same for one each, "\"heads\"", and one way. Returns how many effects are not 0. */
int effects_client_expect_one(const struct effects_case *of, const char *each, const char *by);

/* The same for all layers of a kind that stand beside attention, which have no place of their own
 * but what they add. */
void effects_client_expect_beside(const struct effects_case *of);

/* The same for spans that are hidden in layers of the kinds of a list, such as "self". */
void effects_client_expect_hidden(const struct effects_case *of, const int (*spans)[2], int count,
                                  const char *const *kinds);

/* The same for each kind of a model's layers, at a row of what it predicts. */
void effects_client_expect_kinds(struct http_client *client, const char *model, const char *input,
                                 int position);

#endif
