#!/bin/bash -eu
# SPDX-License-Identifier: Apache-2.0
# build.sh - builds every target of tests/fuzz for ClusterFuzzLite, each with its corpus, into $OUT.
#
# The image of base-builder sets OUT, SRC, WORK, CC, CXX, CFLAGS, CXXFLAGS, SANITIZER and LIB_FUZZING_ENGINE. Targets
# run in an image without our packages, so the libraries that they need lie beside them, in $OUT/lib.
cd "$SRC/attnd"
made=$WORK/fuzz
sanitize=$SANITIZER
[ "$SANITIZER" != coverage ] || sanitize=

make -s -j"$(nproc)" BUILD="$made" CC="$CC" CFLAGS="$CFLAGS" SANITIZE="$sanitize" \
    LDFLAGS="-Wl,-rpath,'\$\$ORIGIN/lib'" fuzz-programs

mkdir -p "$OUT/lib"
for program in "$made"/fuzz_*; do
    name=${program##*/fuzz_}
    cp "$program" "$OUT"
    (cd "tests/fuzz/corpus/$name" && zip -qr - .) >"$OUT/fuzz_${name}_seed_corpus.zip"
    # glibc and what comes with the compiler are those of the image that runs.
    ldd "$program" | awk '$2 == "=>" && $3 ~ /^\// { print $3 }' |
        grep -vE '/(libc|libm|libdl|librt|libpthread|libresolv|libgcc_s|libstdc\+\+)\.so' | xargs -r cp -uLt "$OUT/lib"
done
