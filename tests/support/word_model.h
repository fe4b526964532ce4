/* SPDX-License-Identifier: Apache-2.0 */
/* word_model.h - a small model that takes text: a Llama of two layers with random parameters, and a
 * tokenizer of ten words in lower case, with the template and the word pieces of BERT. */
#ifndef WORD_MODEL_H
#define WORD_MODEL_H

/* config.json and the tensors of the model, for published_open(). */
extern const char word_model_config[], word_model_tensors[];
enum { WORD_MODEL_LAYERS = 2 };

/* Its tokenizer.json: [UNK] 0, [CLS] 1, [SEP] 2, the 3, cat 4, sat 5, . 6, ##s 7, on 8, mat 9. */
extern const char word_model_tokenizer[];

/* Makes the folder, with the model's files and this tokenizer.json; NULL: without one. */
void word_model_make(const char *folder, const char *tokenizer);

/* Makes a model of the same parts with a head of one class, LlamaForSequenceClassification. */
void word_model_make_judge(const char *folder);

/* A request for a trace of the model "words" with a text of so many words, and more fields behind
 * it (",\"keep\":\"1m\""); malloc'd. */
char *word_model_request(int words, const char *more);

#endif
