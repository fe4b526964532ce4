/* SPDX-License-Identifier: Apache-2.0 */
/* edited_laws.h - laws of edits that hold for every model that can be traced: what changes nothing,
 * and what stays below an edit. */
#ifndef EDITED_LAWS_H
#define EDITED_LAWS_H

#include "http_client.h"

#include <stdint.h>

/* Traces the model with these fields of a request, which name what goes in, and with edits that
 * change nothing, at every place of every kind of its layers: the answers must be the same to the
 * bit. Layers below one whose heads are taken away must keep theirs. */
void edited_laws_expect(struct http_client *client, const char *model, const char *fields);

/* Where the rows that enter the first block of a decoder do not depend on their positions, and its
 * scores depend on distances alone, which norms behind rotary embedding and queries that grow undo:
 * hiding a prefix from all later rows everywhere gives these the rows of a pass without it. */
void edited_laws_expect_prefix(struct http_client *client, const char *model, const int *ids,
                               int64_t count);

#endif
