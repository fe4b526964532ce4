/* SPDX-License-Identifier: Apache-2.0 */
/* store_directory.h - a directory of models in /tmp, and what store tests ask of it. */
#ifndef STORE_DIRECTORY_H
#define STORE_DIRECTORY_H

#include "models/store/model_store.h"

/* Before and after a test that has the directory, empty at first, and leaves none. */
int store_directory_make(void **state);
int store_directory_remove(void **state);

extern char store_directory[64];

/* The path of name in the directory. It is valid until the next call. */
const char *store_path(const char *name);

void store_write_text(const char *name, const char *text);
void store_write_model(const char *name, const char *config, float value); /* one 2x2 q_proj */
void store_make_folder(const char *name);
int store_count_files(void); /* hidden ones too */

/* Each of these fails the test if its check fails. */
struct model_store *store_open(const char *model_name, int failed_expected);
float store_value_of(const struct model *model); /* its first parameter */
void store_expect_served(struct model_store *store, const char *name, float value);
void store_expect_refused(struct model_store *store, const char *name, enum fault_code code,
                          const char *words);

/* Does a PUT of a model as store_write_model() makes it. */
bool store_put(struct model_store *store, const char *name, float value, bool *created,
               struct fault *fault);

#endif
