/* normalizer_form.h - the four normal forms of Unicode (UAX 15). */
#ifndef ATTND_NORMALIZER_FORM_H
#define ATTND_NORMALIZER_FORM_H

#include "tokenizer/pieces.h"

struct normalizer_form {
    bool compatible, composed; /* NFKC and NFKD; NFC and NFKC */
};

bool normalizer_form_run(const void *state, struct pieces *pieces, struct fault *fault);

extern const struct normalizer_form NORMALIZER_NFC, NORMALIZER_NFD, NORMALIZER_NFKC,
    NORMALIZER_NFKD;

#endif
