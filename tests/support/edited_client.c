/* SPDX-License-Identifier: Apache-2.0 */
/* edited_client.c - see edited_client.h. */
#include "edited_client.h"
#include "test.h"

#include "fixture.h"
#include "forward_edits.h"
#include "reading_client.h"
#include "request_text.h"
#include "trace_client.h"

/* Rows as far as the seventh, heads 0 and 1, layers 0 and 1. */
static const char *const EDITS[] = {
    "[{\"hide\":[[1,3]],\"layers\":[1],\"heads\":[1],\"rows\":[-1,[4,6]]},"
    "{\"hide\":[[0,1],[2,2]],\"rows\":[3]}]",
    "[{\"weights\":\"uniform\",\"layers\":[0]},"
    "{\"weights\":\"first\",\"heads\":[0],\"rows\":[2,2,-2]},{\"hide\":[[0,2]],\"rows\":[[3,5]]}]",
    "[{\"weights\":\"previous\",\"heads\":[1,0]},{\"weights\":\"self\",\"rows\":[[0,2]],\"layers\":"
    "[1]},"
    "{\"weights\":$2K,\"rows\":[-1,1]},{\"scale\":0.5,\"heads\":[0]}]",
    "[{\"scale\":0,\"heads\":[1],\"layers\":[1]},{\"at\":\"hidden_states\",\"scale\":0.75,"
    "\"layers\":[1]},"
    "{\"at\":\"attention_output\",\"scale\":0,\"layers\":[0]},"
    "{\"at\":\"feed_forward\",\"scale\":-1.5,\"rows\":[0,5]},{\"at\":\"embeddings\",\"scale\":2}]",
    "[{\"add\":$H,\"times\":4,\"rows\":[1]$L},{\"at\":\"hidden_states\",\"add\":$W},"
    "{\"at\":\"attention_output\",\"add\":$W,\"times\":-2,\"rows\":[[2,6]]},"
    "{\"at\":\"feed_forward\",\"add\":$W},{\"at\":\"embeddings\",\"add\":$W,\"rows\":[-1]}]",
    "[{\"set\":$2H,\"rows\":[4,-1]$L},{\"at\":\"hidden_states\",\"set\":$2W,\"rows\":[[1,3]],"
    "\"layers\":[1]},"
    "{\"at\":\"attention_output\",\"set\":$2W,\"rows\":[0,3],\"layers\":[0]},"
    "{\"at\":\"feed_forward\",\"set\":$2W,\"rows\":[-1,-2]},"
    "{\"at\":\"embeddings\",\"set\":$2W,\"rows\":[2,1]}]",
    "[{\"mean\":true,\"heads\":[0]},{\"at\":\"hidden_states\",\"mean\":true,\"rows\":[1,2],"
    "\"layers\":[1]},"
    "{\"at\":\"attention_output\",\"mean\":true,\"rows\":[-1]},"
    "{\"at\":\"attention_output\",\"add\":$W,\"rows\":[-1]},"
    "{\"at\":\"feed_forward\",\"mean\":true,\"rows\":[[0,4]]},"
    "{\"at\":\"embeddings\",\"mean\":true,\"rows\":[0]}]",
};

/* But of heads with a layer of their own, as those of models named masked_... have, and of capped
 * logits, which others compare. */
static void expect_contributions(const char *model, const char *fields, const char *edits,
                                 const struct forward *want, void (*pass)(struct forward *forward))
{
    static const char *const NONE[] = { "bert",    "opt_350m", "gemma2",
                                        "gemma3n", "gemma4",   "mpt_learned" };
    if (strncmp(model, "masked_", 7) == 0)
        return;
    for (size_t i = 0; i < sizeof NONE / sizeof NONE[0]; i++)
        if (strcmp(model, NONE[i]) == 0)
            return;
    if (daemon_slowness() > 1 && want->layer_count > 4)
        return; /* a pass in double for each part of each layer */
    reading_client_expect_contributions(model, fields, edits, want, 0, pass);
}

void edited_client_expect_one(const char *model, const char *fields, const char *edits,
                              const struct forward *unedited, int layer,
                              void (*pass)(struct forward *forward))
{
    static struct forward edited;
    const struct forward_layer *of = &unedited->layers[layer - unedited->first_layer];
    const int64_t keys = of->key_inputs.data ? of->key_inputs.count : of->inputs.count;
    char *text =
        forward_edits_text(edits, of->hidden_states.columns, forward_edits_head_dim(), keys);
    struct request_text body = { .data = NULL };
    published_begin();
    memset(&edited, 0, sizeof edited);
    forward_edits_set(text);
    pass(&edited);
    forward_edits_set(NULL);
    request_text_add(&body, "%s,\"edits\":", fields);
    request_text_add(&body, "%s", text);
    trace_client_expect_edited(&client, model, body.data, &edited);
    if (edited.logits.data) {
        const int positions[] = { 0, (int)edited.logits.count - 1 };
        trace_client_expect_predictions(&client, model, body.data, positions, 2, &edited);
        expect_contributions(model, body.data, text, &edited, pass);
    }
    published_end();
    free(body.data);
    free(text);
}

void edited_client_expect(const char *model, const char *fields, const struct forward *unedited,
                          void (*pass)(struct forward *forward))
{
    for (size_t i = 0; i < sizeof EDITS / sizeof EDITS[0]; i++)
        edited_client_expect_one(model, fields, EDITS[i], unedited, unedited->first_layer, pass);
}
