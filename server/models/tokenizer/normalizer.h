/* SPDX-License-Identifier: Apache-2.0 */
/* normalizer.h - the normalizers that have a file of their own: the normal forms of Unicode (UAX
 * 15), and the rules of a SentencePiece model. */
#ifndef ATTND_NORMALIZER_H
#define ATTND_NORMALIZER_H

#include "models/tokenizer/pipeline.h"

struct normal_form {
    bool compatible, composed; /* NFKC and NFKD; NFC and NFKC */
};

extern const struct normal_form NORMAL_FORM_NFC, NORMAL_FORM_NFD, NORMAL_FORM_NFKC,
    NORMAL_FORM_NFKD;

bool normal_form_run(const void *state, struct pieces *pieces, struct fault *fault);

/* The members of the row of Precompiled. */
bool precompiled_rewrite(const void *state, struct pieces *pieces, const struct piece *piece,
                         struct fault *fault);
bool precompiled_changes(const void *state, const struct pieces *pieces, const struct piece *piece);
bool precompiled_read(struct pipeline_build *build, const cJSON *node, struct step *step);

/* Makes the state of the rules as they lie in a SentencePiece model. They must live as long as the
 * step. */
bool precompiled_init(struct pipeline_build *build, const unsigned char *data, size_t size,
                      struct step *step);

#endif
