/* SPDX-License-Identifier: Apache-2.0 */
/* foreign_form.h - recognizes model files of formats that the server does not read, so that a
 * message can say what a file is. */
#ifndef ATTND_FOREIGN_FORM_H
#define ATTND_FOREIGN_FORM_H

#include <stdbool.h>
#include <stddef.h>

/* What a file is by its name, for a message ("an ONNX graph"); NULL where its format is none of the
 * known ones. */
const char *foreign_form_of_name(const char *name);

/* What a file is by its first bytes ("an HTML page"), and what to do about it ("download the
 * file"). */
struct foreign_form {
    const char *form, *advice;
};

/* False: its format is none of the known ones. */
bool foreign_form_of_bytes(const void *bytes, size_t size, struct foreign_form *form);

/* Of two files of such formats in a directory: whether name tells more about the model than other.
 */
bool foreign_form_is_better(const char *name, const char *other);

#endif
