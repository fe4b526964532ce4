/* nearest.h - the known name that a mistyped one was probably meant to be. */
#ifndef ATTND_NEAREST_H
#define ATTND_NEAREST_H

/* The one of count known names that is fewest edits away from given, the first of equals; NULL
 * where none is near. An edit is a letter put in, left out, replaced, or swapped with the next one;
 * upper and lower case are the same letter. */
const char *nearest_name(const char *given, const char *const *known, int count);

#endif
