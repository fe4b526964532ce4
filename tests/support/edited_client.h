/* SPDX-License-Identifier: Apache-2.0 */
/* edited_client.h - edited passes of POST /v1/trace against edited passes in double. */
#ifndef EDITED_CLIENT_H
#define EDITED_CLIENT_H

#include "forward_reference.h"

/* Traces the model, whose layers are all of one kind, with each of a list of edits at every place
 * and of every action, and compares all layers, what leaves the last block, and predictions where
 * the pass has logits. fields are the rest of the request, of at least 7 rows; unedited is the pass
 * without edits, and pass computes it again. The model has 2 heads and 2 layers or more. */
void edited_client_expect(const char *model, const char *fields, const struct forward *unedited,
                          void (*pass)(struct forward *forward));

/* The same for one list of edits, whose $-names forward_edits_text() replaces: those of the layer
 * of this number. */
void edited_client_expect_one(const char *model, const char *fields, const char *edits,
                              const struct forward *unedited, int layer,
                              void (*pass)(struct forward *forward));

#endif
