/* npy_body.h - what the calls share whose body or answer may be one array, an .npy file.
 *
 * The array is the only input. All other fields are parameters of the address, as nothing else of
 * the file has room for them. */
#ifndef ATTND_NPY_BODY_H
#define ATTND_NPY_BODY_H

#include "formats/npy.h"
#include "formats/safetensors.h"
#include "http/http.h"
#include "infer/call.h"
#include "wire/v1_reader.h"

#define NPY_TYPE "application/x-npy"

struct npy_forms {
    bool is_body, is_answer;
    struct safetensors_pair *fields; /* of the address, where the body is a file */
    int field_count;
};

/* Reads the form of the body from Content-Type and that of the answer from Accept; an Accept that
 * names neither this form, JSON nor safetensors leaves the answer in the form of the body. Where
 * the body is a file, also reads the fields of these names. What other types the body may have is
 * the caller's. */
bool npy_forms_read(struct npy_forms *forms, const struct exchange *exchange,
                    const char *const *names, int name_count, struct arena *arena,
                    struct fault *fault);

/* Writes the fields as a JSON object. */
bool npy_body_fields(struct v1_reader *reader, const struct npy_forms *forms, struct text *json);

/* Reads the body's array: a view of it where the numbers are aligned, else a copy. */
bool npy_body_numbers(struct v1_reader *reader, struct byte_slice body, struct array *array);

/* Makes the answer's parts: the head, which is the call's text, and the values, sent from their own
 * memory. */
bool npy_answer_make(struct call *call, struct arena *arena, const struct array *array,
                     struct fault *fault);

#endif
