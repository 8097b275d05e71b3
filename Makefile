# Everything here sets up what it needs on a machine with Rust and Go. `make` alone lists the targets.

CARGO ?= cargo
# Tests mostly wait for each other's programs: two threads a core, four at least.
CORES := $(shell getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)
RUST_TEST_THREADS ?= $(shell n=$$((2 * $(CORES))); [ $$n -ge 4 ] || n=4; echo $$n)
# Sets which tests `make test` runs: make test TESTS='--test client'.
TESTS ?=

.DEFAULT_GOAL := help
# One cargo at a time: two would only wait for each other's lock.
.NOTPARALLEL:

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-20s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## Build the operator and the reference service (target/debug)
	$(CARGO) build --locked --bins

.PHONY: demo
demo: ## Show what is promised, on a real control plane; KEEP=1 stays up until Ctrl-C
	@$(CARGO) build --locked --bins
	@$(CARGO) xtask demo $(if $(KEEP),--keep)

.PHONY: test
test: control-plane ## Run every test that needs no feature, and name those that were left out
	@RUST_TEST_THREADS=$(RUST_TEST_THREADS) .ci/test $(TESTS)

.PHONY: test-unit
test-unit: ## Run the tests that need no control plane
	$(CARGO) test --locked --lib --bins --test policy --test client --test project

.PHONY: kubernetes-compat
kubernetes-compat: ## Run the suites that depend on the API server on another version: KUBERNETES=1.34 or 1.35
	@.ci/kubernetes $(KUBERNETES)

.PHONY: slowest
slowest: control-plane tools ## Run every test and name the ten slowest
	@.ci/slowest $(RUST_TEST_THREADS) $(TESTS)

.PHONY: control-plane
control-plane: ## Build etcd, kube-apiserver and the like, once, where they can't be found
	@$(CARGO) build --locked --tests --bins
	@$(CARGO) xtask cluster build --controller-manager >/dev/null

.PHONY: tools
tools: ## Build the Go programs of the tests (Helm, cosign, promtool, the libraries of Argo CD and Flux), once
	@for tool in tools/*/; do .ci/go-tool "$$(basename "$$tool")" >/dev/null || exit 1; done

.PHONY: test-tools
# With the flags of .ci/go-tool: what is compiled here is not compiled again there.
test-tools: export CGO_ENABLED = 0
test-tools: export GOFLAGS = -trimpath
test-tools: ## Vet and test the project's own Go programs (tools/)
	@unformatted=$$(gofmt -l tools); [ -z "$$unformatted" ] || { echo "gofmt -w $$unformatted" >&2; exit 1; }
	@for tool in tools/*/; do \
	  [ -z "$$(find "$$tool" -name '*.go' | head -1)" ] || \
	  (cd "$$tool" && go vet ./... && go test ./...) || exit 1; \
	done

.PHONY: image
image: ## Make the image, target/image.tar, without a build engine
	@.ci/image

.PHONY: service-image
service-image: ## Make an image of the reference service, target/reference-service-image.tar, for the quickstart
	@.ci/image reference-service

.PHONY: sbom
sbom: ## List what is in the image: target/run-operator.cdx.json (CycloneDX)
	@.ci/sbom

.PHONY: image-reproducible
image-reproducible: ## Make the image twice, the second time from another clone, and compare
	@.ci/image-reproducible

.PHONY: release-platform
release-platform: ## Make this architecture's part of a release, target/dist/VERSION/ARCH, from a clean tag
	@.ci/release-platform $(VERSION)

.PHONY: release
release: ## Make the release VERSION, target/dist/VERSION, from a clean tag (docs/release.md)
	@.ci/release $(VERSION)

.PHONY: release-reproducible
release-reproducible: ## Make the release VERSION twice, in clones, and compare
	@.ci/release-reproducible $(VERSION)

.PHONY: publish
publish: ## Push images and chart of target/dist/VERSION to REGISTRY; no version is overwritten
	@.ci/publish $(VERSION)

.PHONY: sign
sign: ## Sign the release VERSION at REGISTRY with cosign, by KEY or by an identity (OIDC)
	@.ci/sign $(VERSION)

.PHONY: verify
verify: ## Verify files, images and chart of the release VERSION, by PUBLIC_KEY or IDENTITY and ISSUER
	@.ci/verify $(VERSION)

.PHONY: node
node: ## Install and build what a node for real Pods needs: containerd, runc, kubelet, scheduler, Helm
	@.ci/node
	@$(CARGO) build --locked --bin xtask
	@$(CARGO) xtask cluster build --node >/dev/null
	@for tool in helm image loopback pause registry; do .ci/go-tool $$tool >/dev/null; done

.PHONY: previous-release
previous-release: ## Build image and program of the previous release from its commit, once, for the tests of upgrades
	@.ci/previous-release >/dev/null

.PHONY: install-test
install-test: node image previous-release ## Install the image by the chart on a real node, and change it under load
	$(CARGO) test --locked --test install

.PHONY: generate
generate: ## Write every generated file
	$(CARGO) xtask generate

.PHONY: book
book: ## Write the documents as a book, target/book/html, and follow its links
	@.ci/book

.PHONY: check
check: format lint drift deny workflows ## Check format, lints, generated files, licences, dependencies and workflows

.PHONY: format
format:
	$(CARGO) fmt --all --check
	$(CARGO) fmt --check --manifest-path fuzz/Cargo.toml
	bash -n .ci/run .ci/base-images .ci/bench .ci/book .ci/cargo-tool .ci/deny .ci/fuzz .ci/github-release .ci/go-tool .ci/image .ci/image-reproducible .ci/kubernetes .ci/mutants .ci/node .ci/previous-release .ci/program .ci/prove .ci/publish .ci/registry-login .ci/release .ci/release-check .ci/release-files .ci/release-platform .ci/release-reproducible .ci/sbom .ci/schemathesis .ci/sign .ci/signed .ci/slowest .ci/test .ci/verify

.PHONY: lint
lint:
	$(CARGO) clippy --locked --features proofs --all-targets -- -D warnings
	@# What ships is built without `proofs`; of the rest nothing depends on that.
	$(CARGO) clippy --locked --lib --bins -- -D warnings

.PHONY: drift
drift:
	$(CARGO) xtask generate --check

.PHONY: deny
deny: ## Check licences, banned crates and sources; advisories too, where their database can be had
	@.ci/deny

.PHONY: workflows
workflows: ## Check the workflows of GitHub, ours and the recipe's, with actionlint, and with shellcheck where that is
	@"$$(.ci/go-tool actionlint)" -no-color .github/workflows/*.yml deploy/examples/recipes/github-actions.yaml

.PHONY: schemathesis
schemathesis: ## Try contract/openapi.yaml on the reference service with schemathesis (needs Python 3.11)
	@.ci/schemathesis

# The part `breakages`, where it is one of those to run. A test that leaves out the Pod or the previous release, for want
# of a node or of its build, passes whatever is broken: it would count as one that doesn't notice it.
BREAKAGES = $(if $(PARTS),$(filter breakages,$(PARTS)),breakages)

.PHONY: prove
prove: control-plane tools $(if $(BREAKAGES),node previous-release) ## Run every proof of docs/reliability.md in full, PARTS of it if set, and write its figures; hours
	@$(if $(BREAKAGES),RUN_OPERATOR_TEST_NODE=required) .ci/prove full $(PARTS)

.PHONY: prove-bounded
prove-bounded: control-plane ## Run a bounded part of the proofs: what every change must pass
	@.ci/prove bounded $(PARTS)

.PHONY: bench
bench: ## Measure speed and weight beside the control plane's limit; QUICK=1 takes minutes, PARTS names some
	@.ci/bench $(if $(QUICK),--quick) $(foreach part,$(PARTS),--part $(part))

.PHONY: fuzz
fuzz: ## Fuzz what is read from outside, FUZZ_SECONDS (30) for each target
	@.ci/fuzz

.PHONY: mutants-changed
mutants-changed: ## Try the small changes of those lines of src/decide and src/service that differ from BASE
	@.ci/mutants changed $(BASE)

.PHONY: mutants
mutants: ## Try every small change of src/decide and src/service on the tests; hours on two cores, and resumed
	@.ci/mutants
