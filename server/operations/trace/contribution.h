/* SPDX-License-Identifier: Apache-2.0 */
/* contribution.h - what each part of a pass adds to the logit of a token, or to the difference of
 * two, as plain data: direct logit attribution. The scale of every norm on the way is held as it
 * was, so the logit is a sum. */
#ifndef ATTND_CONTRIBUTION_H
#define ATTND_CONTRIBUTION_H

#include <stdbool.h>
#include <stdint.h>

/* One layer's parts of the sum. */
struct contribution_part {
    int64_t layer, head_count;
    float *heads; /* [head_count]; of a layer without attention one number, all that it adds */
    float attention_bias, feed_forward, edits;
    bool has_feed_forward; /* not of a second layer of a block */
};

struct contribution {
    int64_t row, place;  /* of the target; place: among the item's rows that have contributions */
    int64_t id, against; /* -1: none */
    float logit, embedding, bias;
    struct contribution_part
        *parts; /* [part_count], of the head's stream, in the order of numbers */
    int64_t part_count;
};

#endif
