# The same image as `make image` makes, for those who have an engine: docker build .
# The program comes from the same script, the files beside it from the same Go program. tools/image/dockerfile_test.go
# holds what is said here to what that program writes.

FROM rust:1.95.0-bookworm AS program
WORKDIR /src
COPY . .
RUN mkdir /out && cp "$(.ci/release)" /out/run-operator

FROM golang:1.26-bookworm AS files
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
