/* manifest.h - a reader for as much YAML as the files in deploy/ use.
 *
 * Maps, lists and plain or quoted scalars in block style, indented by spaces; no
 * flow style, anchors, or text over several lines. A value is found by its path,
 * members of lists by number: "spec.containers.0.image". */
#ifndef MANIFEST_H
#define MANIFEST_H

#include <stdbool.h>
#include <stddef.h>

struct manifest_entry {
    char *path, *value;
};

struct manifest {
    struct manifest_entry *entries;
    int count;
};

/* Fails the test where the file is not there or has a line that is none of the above. */
void manifest_read(struct manifest *manifest, const char *file);
void manifest_free(struct manifest *manifest);

/* NULL where there is none. */
const char *manifest_find(const struct manifest *manifest, const char *path);
/* Fails the test where there is none. */
const char *manifest_get(const struct manifest *manifest, const char *path);

/* A whole file as text, the caller's to free; fails the test where it is not there. */
char *manifest_file_text(const char *file);

#endif
