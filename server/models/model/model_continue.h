/* SPDX-License-Identifier: Apache-2.0 */
/* model_continue.h - which models go on with a text: sessions are traced with them, and
 * completions are made by them. */
#ifndef ATTND_MODEL_CONTINUE_H
#define ATTND_MODEL_CONTINUE_H

#include "models/model/model.h"

/* Why the model cannot go on where a text ends, its rows one behind the other; NULL: it can. */
const char *model_continue_reason(const struct model *model);

/* The same, where its head is to predict what comes next. */
const char *model_complete_reason(const struct model *model);

/* Whether a text ends with this token, by the model's files. */
bool model_is_end(const struct model *model, int64_t id);

/* The four members that OpenAI's clients read of a model: "id":...,"object":"model",... */
void model_describe_openai(const char *name, int64_t created_s, struct text *text);

#endif
