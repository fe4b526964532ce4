#!/bin/bash
# SPDX-License-Identifier: Apache-2.0
# make-sbom.sh - the bill of materials of a program: what is linked into it, as SPDX 2.3 in JSON.
#
#     deploy/make-sbom.sh PROGRAM [PACKAGE...]     to standard output
#
# The shared libraries are those that ldd names; PACKAGE is one that is linked into the program
# itself. Equal programs with equal packages give equal bytes: the date is that of SOURCE_DATE_EPOCH,
# or of the last commit.
#
# Source: https://spdx.github.io/spdx-spec/v2.3/ and, for the package URLs,
# https://github.com/package-url/purl-spec.
set -euo pipefail
program=$1
shift
here=$(dirname "$0")

version=$("$program" --version)
version=${version#attnd }
digest=$(sha256sum "$program" | cut -d' ' -f1)
epoch=${SOURCE_DATE_EPOCH:-$(git -C "$here" log -1 --format=%ct 2>/dev/null || stat -c %Y "$program")}
created=$(date -u -d "@$epoch" +%Y-%m-%dT%H:%M:%SZ)
distribution=$(. /etc/os-release && echo "${ID:-debian}-${VERSION_ID:-}")

linked=$("$here/linked-packages.sh" "$program")
dynamic=$(cut -d' ' -f2 <<<"$linked" | sort -u)

# An SPDX identifier has letters, digits, dots and dashes only.
identifier() { # PACKAGE
    printf 'SPDXRef-%s' "${1//[^A-Za-z0-9.-]/-}"
}

package() { # PACKAGE VERSION ARCHITECTURE SOURCE
    local version=$2 architecture=$3 source=$4 url
    # A plus sign and a colon of a version are escaped in a package URL.
    url=${version//+/%2B}
    url=${url//:/%3A}
    cat <<END
    ,{"SPDXID": "$(identifier "$1")", "name": "$1", "versionInfo": "$version",
      "supplier": "Organization: Debian", "downloadLocation": "NOASSERTION", "filesAnalyzed": false,
      "sourceInfo": "built from Debian's source package $source",
      "licenseConcluded": "NOASSERTION", "licenseDeclared": "NOASSERTION", "copyrightText": "NOASSERTION",
      "comment": "licence: /usr/share/doc/$1/copyright",
      "externalRefs": [{"referenceCategory": "PACKAGE-MANAGER", "referenceType": "purl",
        "referenceLocator": "pkg:deb/debian/$1@$url?arch=$architecture&distro=$distribution"}]}
END
}

relationship() { # KIND PACKAGE
    printf '    ,{"spdxElementId": "SPDXRef-attnd", "relationshipType": "%s", "relatedSpdxElement": "%s"}\n' \
        "$1" "$(identifier "$2")"
}

cat <<END
{
  "spdxVersion": "SPDX-2.3",
  "dataLicense": "CC0-1.0",
  "SPDXID": "SPDXRef-DOCUMENT",
  "name": "attnd-$version",
  "documentNamespace": "https://attnd.invalid/spdx/attnd-$version-$digest",
  "creationInfo": {"created": "$created", "creators": ["Tool: attnd-deploy-make-sbom"]},
  "packages": [
    {"SPDXID": "SPDXRef-attnd", "name": "attnd", "versionInfo": "$version",
      "primaryPackagePurpose": "APPLICATION", "supplier": "NOASSERTION", "downloadLocation": "NOASSERTION",
      "filesAnalyzed": false, "licenseConcluded": "Apache-2.0", "licenseDeclared": "Apache-2.0",
      "copyrightText": "NOASSERTION", "checksums": [{"algorithm": "SHA256", "checksumValue": "$digest"}]}
END
# Of a package that is there for several architectures, the first.
dpkg-query -W -f '${Package} ${Version} ${Architecture} ${source:Package}\n' $dynamic "$@" |
    LC_ALL=C sort -s -u -k 1,1 |
    while read -r name version architecture source; do
        package "$name" "$version" "$architecture" "$source"
    done
cat <<END
  ],
  "relationships": [
    {"spdxElementId": "SPDXRef-DOCUMENT", "relationshipType": "DESCRIBES", "relatedSpdxElement": "SPDXRef-attnd"}
END
for name in $dynamic; do
    relationship DYNAMIC_LINK "$name"
done
for name; do
    relationship STATIC_LINK "$name"
done
printf '  ]\n}\n'
