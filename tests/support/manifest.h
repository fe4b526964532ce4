/* SPDX-License-Identifier: Apache-2.0 */
/* manifest.h - a reader for the part of YAML that the files in deploy/ use.
 *
 * It reads maps, lists, plain or quoted keys and scalars, and text after "|" in block style,
 * indented by spaces. It does not read flow style but {} and [], anchors, or folded text. A path
 * names a value, with a number for a member of a list: "spec.containers.0.image". */
#ifndef MANIFEST_H
#define MANIFEST_H

#include <cjson/cJSON.h>

#include <stdbool.h>
#include <stddef.h>

struct manifest_entry {
    char *path, *value;
};

struct manifest {
    struct manifest_entry *entries;
    int count;
    cJSON *tree; /* the same as JSON: a scalar without quotes is a number, true or false where it
                    can be */
};

/* Fails the test if the file does not exist or has a line of any other form. */
void manifest_read(struct manifest *manifest, const char *file);
/* The same of a text, which is overwritten; name stands in messages. */
void manifest_read_text(struct manifest *manifest, const char *name, char *text);
void manifest_free(struct manifest *manifest);

/* NULL if there is no such value. */
const char *manifest_find(const struct manifest *manifest, const char *path);
/* Fails the test if there is no such value. */
const char *manifest_get(const struct manifest *manifest, const char *path);

/* A whole file as text; the caller frees it. Fails the test if the file does not exist. */
char *manifest_file_text(const char *file);

#endif
