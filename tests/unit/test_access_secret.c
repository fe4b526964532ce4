/* SPDX-License-Identifier: Apache-2.0 */
/* test_access_secret.c - keys as clients have them: made at random, hashed, found in headers. */
#include "access/access_secret.h"
#include "test.h"

TEST(hash)
{
    /* FIPS 180-4's examples. */
    static const struct {
        const char *secret, *hash;
    } cases[] = {
        { "abc", "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad" },
        { "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
          "248d6a61d20638b8e5c026930c3e6039a33ce45964ff2167f6ecedd419db06c1" },
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        unsigned char hash[ACCESS_HASH_BYTES];
        char text[2 * ACCESS_HASH_BYTES + 1];
        assert_true(access_secret_hash(cases[i].secret, strlen(cases[i].secret), hash));
        for (int j = 0; j < ACCESS_HASH_BYTES; j++)
            sprintf(text + 2 * j, "%02x", hash[j]);
        assert_string_equal(text, cases[i].hash);
    }
}

TEST(new)
{
    static const char base64url[] =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
    char secrets[64][ACCESS_SECRET_NEW_BYTES], seen[sizeof base64url] = "";
    for (int i = 0; i < 64; i++) {
        assert_true(access_secret_new(secrets[i]));
        assert_int_equal(strlen(secrets[i]), 6 + 43);
        assert_memory_equal(secrets[i], "attnd_", 6);
        assert_int_equal(strspn(secrets[i] + 6, base64url), 43);
        assert_true(access_secret_is_token(secrets[i], strlen(secrets[i])));
        for (int j = 0; j < i; j++)
            assert_string_not_equal(secrets[i], secrets[j]);
        for (const char *c = secrets[i] + 6; *c; c++)
            seen[strchr(base64url, *c) - base64url] = 1;
    }
    for (int i = 0; i < 64; i++)
        assert_true(seen[i]); /* one is missed once in 10^17 runs */
}

/* "": none, "!": refused, else the secret. */
static const struct {
    const char *authorization, *x_api_key, *expected;
} headers[] = {
    { NULL, NULL, "" },
    { "Bearer abc", NULL, "abc" },
    { "bearer abc", NULL, "abc" },
    { "BEARER\t abc \t", NULL, "abc" },
    { NULL, "abc", "abc" },
    { NULL, "  abc ", "abc" },
    { "Bearer abc", "abc", "abc" },
    { "Bearer abc", "abd", "!" },
    { "Bearer abc", "abcd", "!" },
    { "Bearer abc", "", "!" },
    { "Bearer", "abc", "!" },
    { "Basic YTpi", NULL, "" },
    { "Basic YTpi", "abc", "abc" },
    { "Bearerabc", NULL, "" },
    { "Bear", NULL, "" },
    { "", NULL, "" },
    { " ", NULL, "" },
    { "Bearer", NULL, "!" },
    { "Bearer ", NULL, "!" },
    { "Bearer a b", NULL, "!" },
    { "Bearer a,b", NULL, "!" },
    { "Bearer a\"", NULL, "!" },
    { "Bearer \xC3\xA4", NULL, "!" },
    { "Bearer -._~+/aZ09==", NULL, "-._~+/aZ09==" },
    { "Bearer =", NULL, "!" },
    { "Bearer a=b", NULL, "!" },
    { NULL, "", "!" },
    { NULL, "a b", "!" },
    { NULL, "Bearer abc", "!" },
};

TEST(headers)
{
    for (size_t i = 0; i < sizeof headers / sizeof headers[0]; i++) {
        const char *secret = NULL, *expected = headers[i].expected;
        size_t size = 0;
        const enum access_secret_outcome outcome = access_secret_of_headers(
            headers[i].authorization, headers[i].x_api_key, &secret, &size);
        char got[64] = "";
        if (outcome == ACCESS_SECRET_GIVEN)
            snprintf(got, sizeof got, "%.*s", (int)size, secret);
        else if (outcome == ACCESS_SECRET_REFUSED)
            strcpy(got, "!");
        if (strcmp(got, expected) != 0)
            fail_msg("'%s' and '%s' gave '%s', expected '%s'", headers[i].authorization,
                     headers[i].x_api_key, got, expected);
    }
}

TEST(length)
{
    char value[600] = "Bearer ";
    const char *secret;
    size_t size;
    memset(value + 7, 'a', ACCESS_SECRET_BYTES_MAX);
    assert_int_equal(access_secret_of_headers(value, value + 7, &secret, &size),
                     ACCESS_SECRET_GIVEN);
    assert_int_equal(size, ACCESS_SECRET_BYTES_MAX);
    value[7 + ACCESS_SECRET_BYTES_MAX] = 'a';
    assert_int_equal(access_secret_of_headers(value, NULL, &secret, &size), ACCESS_SECRET_REFUSED);
    assert_int_equal(access_secret_of_headers(NULL, value + 7, &secret, &size),
                     ACCESS_SECRET_REFUSED);
}
