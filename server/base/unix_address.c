/* SPDX-License-Identifier: Apache-2.0 */
/* unix_address.c - see unix_address.h. */
#include "base/unix_address.h"

#include <string.h>

socklen_t unix_address(struct sockaddr_un *address, const char *name)
{
    const size_t length = strlen(name);
    *address = (struct sockaddr_un){ .sun_family = AF_UNIX };
    if ((name[0] != '/' && name[0] != '@') || length > UNIX_NAME_MAX)
        return 0;
    memcpy(address->sun_path, name, length);
    if (name[0] == '@')
        address->sun_path[0] = '\0';
    return (socklen_t)(offsetof(struct sockaddr_un, sun_path) + length);
}
