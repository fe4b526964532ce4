#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# maintainer.sh - who answers for a release: "DEBFULLNAME <DEBEMAIL>", of the environment; nothing if neither is set.
#
#     deploy/maintainer.sh WHAT RELEASE       WHAT begins the messages; RELEASE is not empty where a release is made
#
# Exit status 1, with what is missing, if one of them alone is set, if both are missing for a release, or if they would
# break a line of a package.
set -eu
name=${DEBFULLNAME-} email=${DEBEMAIL-}
if [ -z "$name" ] && [ -z "$email" ]; then
    if [ -n "$2" ]; then
        echo "$1: a release names who answers for it; expected DEBFULLNAME='Your Name' and DEBEMAIL=you@example.org" >&2
        exit 1
    fi
    echo "$1: without DEBFULLNAME and DEBEMAIL nobody answers for this: keep it on this machine" >&2
    exit
fi
if [[ -z $name || -z $email || $name == *[$'\n<>']* || ! $email =~ ^[^[:space:]\<\>\"@]+@[^[:space:]\<\>\"@]+$ ]]; then
    echo "$1: DEBFULLNAME is '$name' and DEBEMAIL '$email'; expected a name and an address, as you@example.org" >&2
    exit 1
fi
echo "$name <$email>"
