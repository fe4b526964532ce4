/* SPDX-License-Identifier: Apache-2.0 */
/* traced_families.h - more checkpoints for tests of traces that ask for no numbers (see
 * traced_model.h): "t5", an encoder with a decoder over a vocabulary of 40; "vit", which takes
 * pictures of 6 by 6 pixels; and "clip", which takes both. All have 2 blocks of 2 heads and 12
 * columns. */
#ifndef TRACED_FAMILIES_H
#define TRACED_FAMILIES_H

/* Writes them into a directory of models. */
void traced_families_save(const char *directory);

#endif
