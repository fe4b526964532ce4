/* safetensors_body.h - what all calls share that may come or be answered as a safetensors file:
 * which form comes and goes, the fields in the metadata, and the numbers of one tensor. */
#ifndef ATTND_SAFETENSORS_BODY_H
#define ATTND_SAFETENSORS_BODY_H

#include "formats/safetensors.h"
#include "http/http.h"
#include "wire/v1_reader.h"

#define SAFETENSORS_TYPE    "application/x-safetensors"
#define SAFETENSORS_OR_JSON "application/json or " SAFETENSORS_TYPE

/* Which of body and answer are files; the others are JSON. */
struct safetensors_forms {
    bool is_body, is_answer;
};

/* Reads the form of the body from Content-Type, and that of the answer from Accept. An Accept that
 * names neither form leaves the answer in the form of the body. A fault names the types that the
 * path takes. */
bool safetensors_forms_read(struct safetensors_forms *forms, const struct exchange *exchange,
                            const char *types, struct fault *fault);

/* The form of the answer alone, where it is known whether the body is a file. */
bool safetensors_forms_is_answer(const struct exchange *exchange, bool is_body);

/* Writes pairs, which came in a place such as "__metadata__", as a JSON object. The fields in
 * texts, a list that NULL ends, are strings themselves; the string of any other field is its JSON.
 */
bool safetensors_body_fields(struct v1_reader *reader, const struct safetensors_pair *pairs,
                             int64_t pair_count, const char *place, const char *const *texts,
                             struct text *json);

/* The functions below read a tensor, which reader->name names. */

/* Reads shape and numbers. array is a view of the body where the numbers are aligned, else a copy.
 * A tensor whose array is there already came as a field too, which is a fault. */
bool safetensors_body_numbers(struct v1_reader *reader, const struct safetensors_entry *entry,
                              bool may_be_bool, struct array *array);

/* Copies integers of any datatype into the arena. Of shape the rank and the dimensions are set. */
bool safetensors_body_integers(struct v1_reader *reader, const struct safetensors_entry *entry,
                               struct array *shape, int64_t **integers);

/* The fault of a tensor that came as a field too. Returns false. */
bool safetensors_body_twice(struct v1_reader *reader);

#endif
