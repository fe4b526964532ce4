/* SPDX-License-Identifier: Apache-2.0 */
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

/* The lens of the layer at this place of an answer: these logits, of every position. */
void reading_client_expect_lens_at(const char *model, const char *fields, int place,
                                   struct rows logits);

/* The lens of every layer that is not of cross attention and whose kind is that of the last layer
 * of the head's stream, or of every layer of a model some of whose layers have no attention. A
 * model whose norms stand before its parts or behind them, but not behind the residual, goes
 * through its layers unchanged where edits take their parts away: pass computes it so in double. */
void reading_client_expect_lens(const char *model, const char *fields, const struct forward *want,
                                void (*pass)(struct forward *forward));

/* Contributions to the last and the first row's targets, to a difference too, of a pass with these
 * edits, which fields have too; NULL: none. softcap: what pass caps its logits by; 0: nothing. */
void reading_client_expect_contributions(const char *model, const char *fields, const char *edits,
                                         const struct forward *want, double softcap,
                                         void (*pass)(struct forward *forward));

#endif
