/* foreign_form.h - files of models in forms that are not read here, told by name or first bytes. */
#ifndef ATTND_FOREIGN_FORM_H
#define ATTND_FOREIGN_FORM_H

#include <stdbool.h>
#include <stddef.h>

/* What a file of this name, or one that begins with these bytes, is, for a message; NULL where it
 * is of none of these forms. */
const char *foreign_form_of_name(const char *name);
const char *foreign_form_of_bytes(const void *bytes, size_t size);

/* Whether the first name says more of a directory's model than the other, both of such a form. */
bool foreign_form_is_better(const char *name, const char *other);

#endif
