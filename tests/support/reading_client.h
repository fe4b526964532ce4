/* reading_client.h - what is read of a pass beside its maps and rows, against a pass in double. */
#ifndef READING_CLIENT_H
#define READING_CLIENT_H

#include "forward_reference.h"
#include "http_client.h"

/* Traces the model with these fields for all that follows from the maps and rows of the pass: sums
 * over spans, rows and heads. tolerance is that of a weight. Of an edited pass fields have the
 * edits. */
void reading_client_expect(struct http_client *client, const char *model, const char *fields,
                           const struct forward *want, double tolerance);

/* GET /v1/traces/{id}/statistics of the traced model: duplicate and induction of every layer, over
 * these tokens, which are those of the fields. The layers are of one kind, self-attention. */
void reading_client_expect_repeats(const char *model, const char *fields, const int *tokens,
                                   int64_t count, const struct forward *want);

#endif
