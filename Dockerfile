# The same image as `make image` makes, for those who have an engine:
#
#   docker build $(.ci/base-images) .
#
# Both base images have to be given by digest: a tag can be moved, and what it then brings (a compiler, a C library) would
# be in the program. .ci/base-images looks the digests up, and so renews them. The program comes from the same script, the
# files beside it from the same Go program. tools/image/dockerfile_test.go holds what is said here to what that program
# writes.
ARG RUST_IMAGE
ARG GO_IMAGE

FROM ${RUST_IMAGE:?is-given-by-.ci/base-images} AS program
ARG RUST_IMAGE
RUN case "$RUST_IMAGE" in *@sha256:*) ;; *) echo "RUST_IMAGE=$RUST_IMAGE has no digest" >&2; exit 1 ;; esac
WORKDIR /src
COPY . .
RUN mkdir /out && cp "$(.ci/program)" /out/run-operator

FROM ${GO_IMAGE:?is-given-by-.ci/base-images} AS files
ARG GO_IMAGE
RUN case "$GO_IMAGE" in *@sha256:*) ;; *) echo "GO_IMAGE=$GO_IMAGE has no digest" >&2; exit 1 ;; esac
WORKDIR /src
COPY tools/image .
RUN CGO_ENABLED=0 go run . rootfs /out

FROM scratch
ARG VERSION=unreleased
ARG REVISION=unknown
ARG CREATED=1970-01-01T00:00:00Z
LABEL org.opencontainers.image.title="run-operator" \
      org.opencontainers.image.description="A Kubernetes controller that turns a Run object into exactly one run at the Run Orchestration Service" \
      org.opencontainers.image.licenses="Apache-2.0" \
      org.opencontainers.image.version="$VERSION" \
      org.opencontainers.image.revision="$REVISION" \
      org.opencontainers.image.created="$CREATED"
COPY --from=files /out/ /
COPY --from=program /out/run-operator /run-operator
USER 65532:65532
WORKDIR /
ENTRYPOINT ["/run-operator"]
