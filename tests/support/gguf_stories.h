/* SPDX-License-Identifier: Apache-2.0 */
/* gguf_stories.h - examples/models/stories260K, a trained model, as a GGUF file. */
#ifndef GGUF_STORIES_H
#define GGUF_STORIES_H

/* Writes the file, parameters and vocabulary. Matrices are of type, "F32" or another, where their
 * rows are whole blocks. */
void gguf_stories_write(const char *type, const char *path);

#endif
