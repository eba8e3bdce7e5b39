# Everything that is done here by hand or by a machine is a target of this file; `make help` lists them.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

BIN := $(CURDIR)/build/bin
CONTROLLERS := db-controller backup-controller restore-controller upgrade-controller

##@ Everyday

.PHONY: help
help: ## Show what can be made
	@awk 'BEGIN { FS = ":.*##" } \
		/^##@/ { printf "\n%s\n", substr($$0, 5) } \
		/^[a-zA-Z_-]+:.*##/ { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: build
build: ## Build every binary into build/bin
	CGO_ENABLED=0 go build -trimpath -o $(BIN)/ ./cmd/...

.PHONY: generate
generate: generate-apis generate-rbac generate-chart generate-docs ## Write all that is generated: deepcopy, CRDs, RBAC, chart parts, kustomize, docs

.PHONY: generate-apis
generate-apis: $(BIN)/controller-gen
	cd apis && $(BIN)/controller-gen object:headerFile=../tools/header.go.txt paths=./...
	rm -f config/crd/howdah.dev_*.yaml
	cd apis && $(BIN)/controller-gen crd paths=./... output:crd:dir=../config/crd

# What a controller may do stands beside the code that does it, in +kubebuilder:rbac markers.
.PHONY: generate-rbac
generate-rbac: $(BIN)/controller-gen
	for name in $(CONTROLLERS); do \
		[ -d cmd/$$name ] || continue; \
		mkdir -p config/rbac/$$name; \
		$(BIN)/controller-gen rbac:roleName=howdah-$$name paths=./cmd/$$name/... output:rbac:dir=config/rbac/$$name; \
	done

# The chart has copies of the CRDs and roles, because a chart can only read its own files; the rest of config/ is what
# the chart renders, so that the two ways to install never differ.
.PHONY: generate-chart
generate-chart: generate-apis generate-rbac $(BIN)/helm
	rm -rf charts/howdah/files
	mkdir -p charts/howdah/files/crds charts/howdah/files/rbac
	cp config/crd/howdah.dev_*.yaml charts/howdah/files/crds/
	for name in $(CONTROLLERS); do cp config/rbac/$$name/role.yaml charts/howdah/files/rbac/$$name.yaml; done
	$(BIN)/helm template howdah charts/howdah --namespace howdah-system --set crds.install=false | go run ./tools/generate

.PHONY: generate-docs
generate-docs:
	go run ./pkg/protocol/docgen > build/protocol.md
	mv build/protocol.md docs/protocol.md

# Tools. Each is pinned in a module file of its own, so that none of them weighs on the product's go.mod
# or on another tool's versions: `GOWORK=off go tool -modfile=tools/NAME.mod NAME` runs the same thing.
# They are built once here because `go tool` links such big programs again too often.

$(BIN)/controller-gen: TOOL = sigs.k8s.io/controller-tools/cmd/controller-gen
$(BIN)/helm: TOOL = helm.sh/helm/v4/cmd/helm
$(BIN)/kustomize: TOOL = sigs.k8s.io/kustomize/kustomize/v5
$(BIN)/golangci-lint: TOOL = github.com/golangci/golangci-lint/v2/cmd/golangci-lint

$(BIN)/controller-gen $(BIN)/helm $(BIN)/kustomize $(BIN)/golangci-lint: $(BIN)/%: tools/%.mod
	@echo "building $* (once; minutes for the big ones)"
	@mkdir -p $(BIN)
	@CGO_ENABLED=0 GOWORK=off nice go build -modfile=$< -o $@ $(TOOL)
	@touch $@

.PHONY: tools
tools: $(BIN)/controller-gen $(BIN)/helm $(BIN)/kustomize $(BIN)/golangci-lint ## Build the pinned tools
