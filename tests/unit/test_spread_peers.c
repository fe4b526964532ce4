/* SPDX-License-Identifier: Apache-2.0 */
/* test_spread_peers.c - the file of --peers: what good ones mean, and the words of what is wrong.
 */
#include "fault_expect.h"
#include "operations/spread/spread_peers.h"
#include "test.h"

TEST(good)
{
    struct spread_peers peers;
    struct fault fault;
    const char *text = JSON({"peers":[{"name":"a","url":"http://127.0.0.1:8081"},
                                      {"name":"B_2.x-","url":"https://b/base","key":"s3cret!",
                                       "ca":"/etc/ca.pem"},
                                      {"name":"c","url":"https://[::1]","key":null}]});
    if (!spread_peers_read(&peers, text, strlen(text), &fault))
        fail_msg("%s", fault.message);
    assert_int_equal(peers.count, 3);
    assert_string_equal(peers.peers[0].name, "a");
    assert_string_equal(peers.peers[0].address.host, "127.0.0.1");
    assert_int_equal(peers.peers[0].address.port, 8081);
    assert_true(!peers.peers[0].key && !peers.peers[0].ca && !peers.peers[0].address.is_tls);
    assert_string_equal(peers.peers[1].key, "s3cret!");
    assert_string_equal(peers.peers[1].ca, "/etc/ca.pem");
    assert_string_equal(peers.peers[1].address.base, "/base");
    assert_true(peers.peers[2].address.is_tls && !peers.peers[2].key);
    spread_peers_free(&peers);
}

TEST(wrong)
{
    static const struct {
        const char *text;
        enum fault_code code;
        const char *words, *pointer;
    } FILES[] = {
        { "", FAULT_JSON, "", "" },
        { "[]", FAULT_TYPE, "", NULL },
        { "{}", FAULT_OPTION, "there are 0 peers; expected 1 to 16", "/peers" },
        { "{\"peers\":1}", FAULT_TYPE, "", "/peers" },
        { "{\"peers\":[],\"ttl\":1}", FAULT_FIELD, "ttl", "/ttl" },
        { "{\"peers\":[{}]}", FAULT_FIELD, "name", NULL },
        { "{\"peers\":[{\"name\":\"a\"}]}", FAULT_FIELD, "url", NULL },
        { "{\"peers\":[{\"name\":\"a\",\"url\":\"http://x\",\"kee\":\"\"}]}", FAULT_FIELD, "key",
          NULL },
        { "{\"peers\":[{\"name\":\"\",\"url\":\"http://x\"}]}", FAULT_OPTION, "name is ''",
          "/peers/0" },
        { "{\"peers\":[{\"name\":\"a b\",\"url\":\"http://x\"}]}", FAULT_OPTION, "name is 'a b'",
          "/peers/0" },
        { "{\"peers\":[{\"name\":\"12345678901234567890123456789012\",\"url\":\"http://x\"}]}",
          FAULT_OPTION, "expected 1 to 31", "/peers/0" },
        { "{\"peers\":[{\"name\":\"a\",\"url\":\"http://x\"},{\"name\":\"a\",\"url\":\"http://"
          "y\"}]}",
          FAULT_DUPLICATE, "two peers have the name 'a'", "/peers/1" },
        { "{\"peers\":[{\"name\":\"a\",\"url\":\"x\"}]}", FAULT_OPTION, "url", NULL },
        { "{\"peers\":[{\"name\":\"a\",\"url\":\"http://x\",\"key\":\"a\\nb\"}]}", FAULT_OPTION,
          "key is not", "/peers/0" },
        { "{\"peers\":[{\"name\":\"a\",\"url\":\"http://x\",\"key\":\"\"}]}", FAULT_OPTION,
          "key is not", "/peers/0" },
        { "{\"peers\":[{\"name\":\"a\",\"url\":\"http://x\",\"ca\":\"y\"}]}", FAULT_OPTION,
          "https://", "/peers/0" },
    };
    for (size_t i = 0; i < sizeof FILES / sizeof FILES[0]; i++) {
        struct spread_peers peers;
        struct fault fault = { .code = FAULT_NONE };
        assert_false(spread_peers_read(&peers, FILES[i].text, strlen(FILES[i].text), &fault));
        assert_int_equal(peers.count, 0);
        fault_expect(FILES[i].text, &fault, FILES[i].code, FILES[i].words, FILES[i].pointer);
    }
}

TEST(too_many)
{
    char text[4096];
    size_t used = (size_t)snprintf(text, sizeof text, "{\"peers\":[");
    for (int i = 0; i <= SPREAD_PEERS_MAX; i++)
        used += (size_t)snprintf(text + used, sizeof text - used,
                                 "%s{\"name\":\"p%d\",\"url\":\"http://x\"}", i > 0 ? "," : "", i);
    used += (size_t)snprintf(text + used, sizeof text - used, "]}");
    struct spread_peers peers;
    struct fault fault;
    assert_false(spread_peers_read(&peers, text, used, &fault));
    fault_expect("17 peers", &fault, FAULT_OPTION, "there are 17 peers", "/peers");
}
