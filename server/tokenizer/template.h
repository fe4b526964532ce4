/* template.h - the post-processor TemplateProcessing, and the tokens that templates add. */
#ifndef ATTND_TEMPLATE_H
#define ATTND_TEMPLATE_H

#include "tokenizer/pipeline.h"

/* Puts a token before the list, -1: none, and one behind it, both of the type given. */
bool template_put_around(struct encodings *encodings, struct token_list *list, int32_t before,
                         int32_t behind, uint8_t type, struct fault *fault);

bool template_read(struct pipeline_build *build, const cJSON *node, void *step);

#endif
