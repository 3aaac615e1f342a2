# The image of the sidecar: one static binary and its configuration.
#
#     docker build -t hermes-sidecar .
#     docker buildx build --platform linux/amd64,linux/arm64,linux/arm/v7 -t hermes-sidecar .
#
# docs/install.md says how to run it, and deploy/image/Caddyfile how to configure it.

# Any image with this Go, a shell and CA certificates will do.
ARG GO_IMAGE=golang:1.26.8-alpine

# The compiler runs natively on the machine that builds, whatever the platform is.
FROM --platform=$BUILDPLATFORM ${GO_IMAGE} AS build
WORKDIR /src

COPY go.mod go.sum ./
RUN --mount=type=cache,target=/go/pkg/mod go mod download

COPY . .
ARG TARGETOS=linux
ARG TARGETARCH
ARG TARGETVARIANT
ARG VERSION=devel
ARG REVISION=unknown
# The same source, version, revision and GO_IMAGE give the same files, bit for bit.
ARG SOURCE_DATE_EPOCH=0
RUN --mount=type=cache,target=/go/pkg/mod --mount=type=cache,target=/root/.cache/go-build set -eu; \
    export CGO_ENABLED=0 GOOS="$TARGETOS" GOARCH="${TARGETARCH:-$(go env GOHOSTARCH)}"; \
    if [ "$GOARCH" = arm ]; then export GOARM="${TARGETVARIANT#v}"; fi; \
    mkdir -p /image/usr/bin /image/etc/ssl/certs /image/etc/hermes-sidecar /image/data; \
    go build -trimpath -buildvcs=false -tags nobadger,nomysql,nopgx \
        -ldflags "-s -w -X github.com/hermes-sidecar/hermes-sidecar/internal/build.version=$VERSION -X github.com/hermes-sidecar/hermes-sidecar/internal/build.commit=$REVISION" -o /image/usr/bin/hermes-sidecar ./cmd/hermes-sidecar; \
    cp deploy/image/Caddyfile /image/etc/hermes-sidecar/Caddyfile; \
    cp LICENSE /image/LICENSE; \
    cp /etc/ssl/certs/ca-certificates.crt /image/etc/ssl/certs/ca-certificates.crt; \
    echo 'hermes:x:65532:65532:hermes-sidecar:/data:/nonexistent' > /image/etc/passwd; \
    echo 'hermes:x:65532:' > /image/etc/group; \
    find /image -type d -exec chmod 0755 {} +; \
    find /image -type f -exec chmod 0644 {} +; \
    chmod 0755 /image/usr/bin/hermes-sidecar; \
    find /image -exec touch -h -d "@$SOURCE_DATE_EPOCH" {} +

FROM scratch
COPY --from=build --chown=0:0 /image/LICENSE /LICENSE
COPY --from=build --chown=0:0 /image/etc /etc
COPY --from=build --chown=0:0 /image/usr /usr
# The only directory that the user may write to. A volume that is mounted there gets
# its owner. The root file system may be read-only.
COPY --from=build --chown=65532:65532 /image/data /data

ARG VERSION=devel
ARG REVISION=unknown
LABEL org.opencontainers.image.title="hermes-sidecar" \
      org.opencontainers.image.description="Repairs the OpenAI-compatible stream of a Hermes agent" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.source="https://github.com/hermes-sidecar/hermes-sidecar" \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.revision="$REVISION"

ENV HOME=/data TMPDIR=/data XDG_DATA_HOME=/data XDG_CONFIG_HOME=/data
USER 65532:65532
EXPOSE 8643 8644
STOPSIGNAL SIGTERM
# This is for deploy/image/Caddyfile. A configuration that serves no /healthz on port
# 8644 needs another health check, or none.
HEALTHCHECK --interval=30s --timeout=5s --start-period=5s --retries=3 \
    CMD ["/usr/bin/hermes-sidecar", "hermes-health"]
ENTRYPOINT ["/usr/bin/hermes-sidecar"]
CMD ["run", "--config", "/etc/hermes-sidecar/Caddyfile", "--adapter", "caddyfile"]
