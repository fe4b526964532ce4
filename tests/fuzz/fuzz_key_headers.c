/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_key_headers.c - any bytes as the headers Authorization and X-Api-Key.
 *
 * The first byte says which of the two there are; a newline is between them. A secret that is found
 * lies in one of the values, is a token, and is found in the same way where it is given in the
 * other header, or in both. */
#include "access/access_secret.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

enum { TEXT_BYTES = 2048 };

static void require(bool condition)
{
    if (!condition)
        abort();
}

static bool lies_in(const char *value, const char *secret, size_t size)
{
    return value && secret >= value && secret + size <= value + strlen(value);
}

static void expect(const char *authorization, const char *x_api_key, const char *secret,
                   size_t size)
{
    const char *found;
    size_t found_size;
    require(access_secret_of_headers(authorization, x_api_key, &found, &found_size)
            == ACCESS_SECRET_GIVEN);
    require(found_size == size && memcmp(found, secret, size) == 0);
}

static void check_given(const char *secret, size_t size)
{
    char alone[ACCESS_SECRET_BYTES_MAX + 1], bearer[ACCESS_SECRET_BYTES_MAX + 16];
    const char *found;
    size_t found_size;
    require(size >= 1 && size <= ACCESS_SECRET_BYTES_MAX);
    require(access_secret_is_token(secret, size));
    snprintf(alone, sizeof alone, "%.*s", (int)size, secret);
    snprintf(bearer, sizeof bearer, "bEARER  %s ", alone);
    expect(bearer, NULL, secret, size);
    expect(NULL, alone, secret, size);
    expect(bearer, alone, secret, size);
    alone[0] = alone[0] == 'a' ? 'b' : 'a';
    require(access_secret_of_headers(bearer, alone, &found, &found_size) == ACCESS_SECRET_REFUSED);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    char text[TEXT_BYTES];
    if (size == 0)
        return 0;
    const size_t used = size - 1 < sizeof text - 1 ? size - 1 : sizeof text - 1;
    memcpy(text, data + 1, used);
    text[used] = '\0';
    char *second = strchr(text, '\n');
    if (second)
        *second++ = '\0';
    const char *authorization = data[0] & 1 ? text : NULL;
    const char *x_api_key = data[0] & 2 && second ? second : NULL;
    const char *secret = NULL;
    size_t secret_size = 0;
    switch (access_secret_of_headers(authorization, x_api_key, &secret, &secret_size)) {
    case ACCESS_SECRET_GIVEN:
        require(lies_in(authorization, secret, secret_size)
                || lies_in(x_api_key, secret, secret_size));
        check_given(secret, secret_size);
        break;
    case ACCESS_SECRET_NONE:
        require(!x_api_key && !secret);
        break;
    case ACCESS_SECRET_REFUSED:
        require((authorization || x_api_key) && !secret);
        break;
    }
    return 0;
}
