/* regex_properties.h - the characters of properties in regular expressions, as the reference has
 * them.
 *
 * Each Oniguruma has the tables of one version of Unicode, and tokens must be the reference's,
 * whose engine has Unicode 16. So the properties of categories, \p{L} or \p{Lu}, and \p{Han}
 * are defined anew in the engine, under the names that patterns use. */
#ifndef ATTND_REGEX_PROPERTIES_H
#define ATTND_REGEX_PROPERTIES_H

#include <stdint.h>

enum { REGEX_PROPERTY_COUNT = 19, REGEX_PROPERTY_RANGES_MAX = 1024 };

struct regex_property {
    const char *name;
    uint32_t ranges[1 + 2 * REGEX_PROPERTY_RANGES_MAX]; /* count, then first and last of each */
};

/* The properties whose characters differ between versions. The call makes them, which takes some
 * milliseconds, and is not for several threads at once. */
struct regex_property *regex_properties(void);

#endif
