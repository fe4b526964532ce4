/* random_id.c - see random_id.h. */
#include "base/random_id.h"

#include <stddef.h>
#include <sys/random.h>

bool random_id_make(char id[RANDOM_ID_LENGTH + 1])
{
    static const char DIGITS[] = "0123456789abcdef";
    unsigned char bytes[RANDOM_ID_LENGTH / 2];
    if (getrandom(bytes, sizeof bytes, 0) != sizeof bytes)
        return false;
    for (size_t i = 0; i < sizeof bytes; i++) {
        id[2 * i] = DIGITS[bytes[i] >> 4];
        id[2 * i + 1] = DIGITS[bytes[i] & 15];
    }
    id[RANDOM_ID_LENGTH] = '\0';
    return true;
}
