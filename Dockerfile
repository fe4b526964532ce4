# SPDX-License-Identifier: Apache-2.0
# The daemon, the shared libraries it needs, and their licences: no shell, no package manager.
#
#     docker build -t attnd:local .
#     docker run --rm -p 127.0.0.1:8080:8080 -e ATTND_OPEN=1 --read-only \
#         -v "$PWD/examples/models:/mnt/models:ro" attnd:local
#
# ATTND_OPEN=1 lets everybody who reaches the port do everything: enough for a first try on this machine. To
# serve others, give keys instead: -v "$PWD/keys:/etc/attnd/keys:ro" -e ATTND_KEYS=/etc/attnd/keys. Without
# either the daemon does not start.

FROM debian:bookworm-slim AS build
RUN apt-get update && apt-get install -y --no-install-recommends make
WORKDIR /src
COPY deploy/install-packages.sh deploy/
RUN deploy/install-packages.sh build
COPY Makefile LICENSE ./
COPY lib lib
COPY server server
RUN make -j"$(nproc)" STATIC_BLAS=1
COPY deploy/image-root.sh deploy/linked-packages.sh deploy/make-sbom.sh deploy/
RUN deploy/image-root.sh build/attnd /image libopenblas-pthread-dev

FROM scratch
LABEL org.opencontainers.image.title="attnd" \
      org.opencontainers.image.description="An attention service: context vectors and weight maps over REST" \
      org.opencontainers.image.licenses="Apache-2.0"
COPY --from=build /image /

# What a container differs in: reachable from outside, models from a mount, in the daemon's own
# sandbox, and, when it is told to end, five more seconds for those who have not heard of it yet.
ENV ATTND_LISTEN=0.0.0.0:8080 \
    ATTND_MODELS=/mnt/models \
    ATTND_SANDBOX=1 \
    ATTND_DRAIN_DELAY=5s
USER 65532:65532
EXPOSE 8080
STOPSIGNAL SIGTERM
HEALTHCHECK --interval=10s --timeout=5s --start-period=30s --retries=3 CMD ["/usr/local/bin/attnd", "health"]
ENTRYPOINT ["/usr/local/bin/attnd"]
