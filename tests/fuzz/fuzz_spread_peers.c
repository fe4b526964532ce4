/* SPDX-License-Identifier: Apache-2.0 */
/* fuzz_spread_peers.c - any bytes as the file of --peers. What is taken has names and addresses,
 * and what is refused leaves nothing behind. */
#include "operations/spread/spread_peers.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void require(bool condition)
{
    if (!condition)
        abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct spread_peers peers;
    struct fault fault = { .code = FAULT_NONE };
    char *copy = malloc(size + 1); /* a sanitizer sees what is read behind it */
    require(copy != NULL);
    if (size > 0)
        memcpy(copy, data, size);
    const bool good = spread_peers_read(&peers, copy, size, &fault);
    free(copy);
    require(good == (peers.count > 0) && good == (fault.code == FAULT_NONE));
    for (int64_t i = 0; i < peers.count; i++) {
        const struct spread_peer *peer = &peers.peers[i];
        require(peer->name[0] && strlen(peer->name) <= SPREAD_NAME_MAX && peer->address.host[0]);
        require(!peer->key || strpbrk(peer->key, " \r\n") == NULL);
        require(!peer->ca || peer->address.is_tls);
    }
    spread_peers_free(&peers);
    return 0;
}
