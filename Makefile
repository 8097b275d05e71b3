# Everything here sets up what it needs on a machine with Rust and Go. `make` alone lists the targets.

CARGO ?= cargo
# Tests mostly wait for each other's programs: two threads a core, four at least.
CORES := $(shell getconf _NPROCESSORS_ONLN 2>/dev/null || echo 2)
RUST_TEST_THREADS ?= $(shell n=$$((2 * $(CORES))); [ $$n -ge 4 ] || n=4; echo $$n)
# Sets which tests `make test` runs: make test TESTS='--test client'.
TESTS ?=
# The release's.
VERSION ?= $(shell sed -nE 's/^version = "(.*)"$$/\1/p' Cargo.toml)

.DEFAULT_GOAL := help
# One cargo at a time: two would only wait for each other's lock.
.NOTPARALLEL:

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-20s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## Build the operator, the tool and the reference service (target/debug)
	$(CARGO) build --locked --bins

.PHONY: demo
demo: ## Show what is promised, on a real control plane; KEEP=1 stays up until Ctrl-C
	@$(CARGO) build --locked --bin run-operator --bin reference-service --bin xtask
	@$(CARGO) xtask demo $(if $(KEEP),--keep)

.PHONY: test
test: control-plane helm ## Run the tests; needs the control plane and Helm
	@RUST_TEST_THREADS=$(RUST_TEST_THREADS) .ci/test $(TESTS)

.PHONY: test-gitops
test-gitops: control-plane ## Run the tests with Argo CD's and Flux's own libraries
	@for tool in argocd flux; do .ci/go-tool $$tool >/dev/null || exit 1; done
	RUST_TEST_THREADS=$(RUST_TEST_THREADS) $(CARGO) test --locked --test e2e gitops::

.PHONY: test-alerts
test-alerts: ## Run the tests of alert rules and dashboard, with Prometheus's own programs
	@for tool in promtool promql; do .ci/go-tool $$tool >/dev/null || exit 1; done
	$(CARGO) test --locked --test metrics

.PHONY: test-release
test-release: node image service-image ## Run the tests of a release: cosign, krew, Helm 3, kubeconform, a registry, the last tag
	@for tool in cosign helm3 krew kubeconform; do .ci/go-tool $$tool >/dev/null || exit 1; done
	last=$$(.ci/last-release) && RUN_OPERATOR_LAST_RELEASE=$$last \
	  $(CARGO) test --locked --no-fail-fast --test release --test install -- --include-ignored

.PHONY: test-unit
test-unit: ## Run the tests that need no control plane
	$(CARGO) test --locked --lib --bins --test policy --test client --test project

.PHONY: kubernetes-compat
kubernetes-compat: ## Run the suites that depend on the API server on another version: KUBERNETES=1.35 or 1.36
	@.ci/kubernetes $(KUBERNETES)

.PHONY: control-plane
control-plane: ## Build etcd, kube-apiserver and the like, once, where they can't be found
	@$(CARGO) build --locked --tests --bins
	@$(CARGO) xtask cluster build --controller-manager >/dev/null

.PHONY: helm
helm:
	@.ci/go-tool helm >/dev/null

.PHONY: test-tools
# With the flags of .ci/go-tool: what is compiled here is not compiled again there.
test-tools: export CGO_ENABLED = 0
test-tools: export GOFLAGS = -trimpath
test-tools: ## Vet and test the project's own Go programs (tools/)
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

.PHONY: tool-image
tool-image: ## Make an image of the tool, target/kubectl-runop-image.tar, for Jobs
	@.ci/image kubectl-runop

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
release: ## Make the release VERSION, target/dist/VERSION, from a clean tag (CONTRIBUTING.md)
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
	@for tool in helm image loopback pause; do .ci/go-tool $$tool >/dev/null || exit 1; done

.PHONY: install-test
install-test: node image service-image ## Install the image by the chart on a real node, and change it under load
	$(CARGO) test --locked --test install

.PHONY: quickstart
quickstart: ## Follow docs/quickstart.md on a new cluster of kind; needs Docker and kubectl
	@.ci/quickstart

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
	@for script in $(filter-out %.toml,$(wildcard .ci/* tests/bugs/run)); do bash -n "$$script" || exit 1; done
	@unformatted=$$(gofmt -l tools); [ -z "$$unformatted" ] || { echo "gofmt -w $$unformatted" >&2; exit 1; }

.PHONY: lint
lint:
	$(CARGO) clippy --locked --all-targets -- -D warnings
	@# Those that `make test` doesn't build.
	$(CARGO) clippy --locked --test metrics --test release -- -D warnings

.PHONY: drift
drift:
	$(CARGO) xtask generate --check
	tests/bugs/run --check

.PHONY: deny
deny: ## Check licences, banned crates and sources; advisories too, where their database can be had
	@.ci/deny

.PHONY: workflows
workflows: ## Check the workflows of GitHub, ours and the recipe's, with actionlint, and with shellcheck where that is
	@"$$(.ci/go-tool actionlint)" -no-color .github/workflows/*.yml deploy/examples/recipes/github-actions.yaml

.PHONY: nightly
nightly: control-plane helm ## Run what is random, long or measures, or PARTS of it; hours
	@.ci/nightly $(PARTS)

.PHONY: bench
bench: ## Measure speed and weight beside the control plane's limit; QUICK=1 takes minutes, PARTS names some
	@.ci/bench $(if $(QUICK),--quick) $(foreach part,$(PARTS),--part $(part))

.PHONY: fuzz
fuzz: ## Fuzz what is read from outside, FUZZ_SECONDS (30) for each target
	@.ci/fuzz

.PHONY: mutants
mutants: ## Try every small change of src/decide and src/service on the tests; a day on two cores
	@.ci/mutants
