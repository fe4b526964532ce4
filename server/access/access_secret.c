/* SPDX-License-Identifier: Apache-2.0 */
/* access_secret.c - see access_secret.h. All cryptography is GnuTLS's, which libmicrohttpd is
 * linked with. */
#include "access/access_secret.h"

#include <gnutls/crypto.h>
#include <gnutls/gnutls.h>

#include <assert.h>
#include <string.h>
#include <strings.h>

enum { RANDOM_BYTES = 32 };

static const char prefix[] = { 'a', 't', 't', 'n', 'd', '_' };

/* Overwrites what the functions that the caller has called left on its stack. */
static __attribute__((noinline)) void forget_stack(void)
{
    unsigned char below[4096];
    explicit_bzero(below, sizeof below);
}

/* The state of a hash has its last block, which is the secret. */
bool access_secret_hash(const void *secret, size_t size, unsigned char hash[ACCESS_HASH_BYTES])
{
    const bool good = gnutls_hash_fast(GNUTLS_DIG_SHA256, secret, size, hash) == 0;
    forget_stack();
    return good;
}

bool access_secret_new(char text[ACCESS_SECRET_NEW_BYTES])
{
    unsigned char bytes[RANDOM_BYTES];
    const gnutls_datum_t random = { bytes, sizeof bytes };
    gnutls_datum_t base64;
    if (gnutls_rnd(GNUTLS_RND_KEY, bytes, sizeof bytes) != 0)
        return false;
    const bool good = gnutls_base64_encode2(&random, &base64) == 0;
    gnutls_memset(bytes, 0, sizeof bytes);
    if (!good)
        return false;
    memcpy(text, prefix, sizeof prefix);
    char *to = text + sizeof prefix;
    for (unsigned i = 0; i < base64.size && base64.data[i] != '='; i++) {
        const char c = (char)base64.data[i];
        assert(to < text + ACCESS_SECRET_NEW_BYTES - 1);
        *to++ = (char)(c == '+' ? '-' : c == '/' ? '_' : c);
    }
    *to = '\0';
    gnutls_memset(base64.data, 0, base64.size);
    gnutls_free(base64.data);
    return true;
}

/* ---------------------------------------------------------------- headers -- */

static bool is_token_character(char c)
{
    return (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z') || (c >= '0' && c <= '9')
           || (c != '\0' && strchr("-._~+/", c));
}

bool access_secret_is_token(const char *text, size_t size)
{
    size_t used = 0;
    while (used < size && is_token_character(text[used]))
        used++;
    if (used == 0)
        return false;
    while (used < size && text[used] == '=')
        used++;
    return used == size && size <= ACCESS_SECRET_BYTES_MAX;
}

/* A value without the blanks around it. */
struct value {
    const char *text;
    size_t size;
};

static struct value trimmed(const char *text)
{
    text += strspn(text, " \t");
    size_t size = strlen(text);
    while (size > 0 && (text[size - 1] == ' ' || text[size - 1] == '\t'))
        size--;
    return (struct value){ text, size };
}

/* Cuts "Bearer" and the blanks behind it off. False where the scheme is another. A value that is
 * nothing but the scheme becomes empty. */
static bool cut_scheme(struct value *value)
{
    static const char scheme[] = "Bearer";
    const size_t length = sizeof scheme - 1;
    if (value->size < length || strncasecmp(value->text, scheme, length) != 0)
        return false;
    const char *rest = value->text + length;
    if (*rest != '\0' && *rest != ' ' && *rest != '\t')
        return false;
    const struct value token = trimmed(rest);
    *value = token;
    return true;
}

enum access_secret_outcome access_secret_of_headers(const char *authorization,
                                                    const char *x_api_key, const char **secret,
                                                    size_t *size)
{
    struct value bearer = { NULL, 0 }, given = { NULL, 0 };
    if (authorization) {
        bearer = trimmed(authorization);
        if (!cut_scheme(&bearer))
            bearer.text = NULL;
        else if (!access_secret_is_token(bearer.text, bearer.size))
            return ACCESS_SECRET_REFUSED;
    }
    if (x_api_key) {
        given = trimmed(x_api_key);
        if (!access_secret_is_token(given.text, given.size))
            return ACCESS_SECRET_REFUSED;
    }
    if (bearer.text && given.text
        && (bearer.size != given.size || memcmp(bearer.text, given.text, given.size) != 0))
        return ACCESS_SECRET_REFUSED;
    if (!bearer.text && !given.text)
        return ACCESS_SECRET_NONE;
    const struct value found = bearer.text ? bearer : given;
    *secret = found.text;
    *size = found.size;
    return ACCESS_SECRET_GIVEN;
}
