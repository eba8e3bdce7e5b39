# Everything that is done here by hand or by a machine is a target of this file; `make help` lists them.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

BIN := $(CURDIR)/build/bin
# Of the cluster in this machine; never the user's own file.
LOCAL_KUBECONFIG ?= $(CURDIR)/build/kubeconfig
VERSION ?= $(shell sed -n 's/^appVersion: //p' charts/howdah/Chart.yaml)
REVISION ?= $(shell git rev-parse HEAD 2>/dev/null)$(shell git diff --quiet HEAD 2>/dev/null || echo -dirty)

CONTROLLERS := db-controller backup-controller restore-controller upgrade-controller pooler-controller drill-controller
IMAGES := $(CONTROLLERS) agent
GENERATED := apis/v1alpha1/zz_generated.deepcopy.go config/crd config/rbac config/default charts/howdah/files charts/howdah/README.md charts/howdah-cluster/README.md docs/crd docs/protocol.md

##@ Everyday

.PHONY: help
help: ## Show what can be made
	@awk 'BEGIN { FS = ":.*##" } \
		/^##@/ { printf "\n%s\n", substr($$0, 5) } \
		/^[a-zA-Z_-]+:.*##/ { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

.PHONY: demo
demo: ## Show the whole path on a real Kubernetes in this machine, and leave it running
	@mkdir -p $(BIN)
	@go build -o $(BIN)/demo ./test/demo
	@$(BIN)/demo

.PHONY: demo-down
demo-down: kube ## Take away the cluster of the demo and of the tests
	$(BIN)/kube down

.PHONY: test
test: ## Run every test, with a real cluster (KUBECONFIG=... takes yours; KEEP=1 leaves the one it made)
	@mkdir -p $(BIN)
	@go build -o $(BIN)/runtests ./tools/runtests
	@exec $(BIN)/runtests

.PHONY: test-full
test-full: ## Run every test in full: all on each PostgreSQL, all with the race detector, the long ones at their full length
	@mkdir -p $(BIN)
	@go build -o $(BIN)/runtests ./tools/runtests
	@exec $(BIN)/runtests --full

.PHONY: fuzz
fuzz: ## Look for input that breaks a parser, FUZZTIME for each (3s)
	@mkdir -p $(BIN)
	@go build -o $(BIN)/runtests ./tools/runtests
	@exec $(BIN)/runtests --full fuzz

.PHONY: test-unit
test-unit: ## Run the tests that need neither root nor a server; seconds
	@go test -short ./... ./apis/...

.PHONY: explore
explore: ## Try every order of events in the election, STATES=100000 of each exploration
	go test ./cmd/agent/internal/elect -run EveryOrder -explore $(or $(STATES),100000) -timeout 2h -v

.PHONY: test-targets
test-targets: $(if $(PG),kube) ## Restore a history with failovers to TARGETS=30 random points, and compare every value (SEED=... repeats one, PG=17 does it on PostgreSQL 17)
	$(if $(PG),go build -o $(BIN)/inimage ./test/inimage)
	HOWDAH_RESTORE_TARGETS=$(or $(TARGETS),30) HOWDAH_RESTORE_SEED=$(SEED) go test -tags postgres -count=1 -timeout 1h -v \
		$(if $(PG),-exec "$(BIN)/inimage $$($(BIN)/kube images | tr ' ' '\n' | grep /postgresql-$(PG)-)") \
		-run TestWhatIsRestoredIsWhatWasCommittedAtTheTarget ./cmd/agent/internal/restorejob

.PHONY: test-orders
test-orders: kube ## Have two Restores and an Upgrade want one cluster in ORDERS=100 random orders, while controllers die (SEED=... repeats the draws)
	KUBEBUILDER_ASSETS=$$($(BIN)/kube assets) HOWDAH_ORDERS=$(or $(ORDERS),100) HOWDAH_SEED=$(SEED) \
		go test -tags integration -count=1 -timeout 1h -v ./test/integration/together

.PHONY: simulate
simulate: ## Run the controllers in WORLDS=1000 random simulated worlds, from SEED=1 on (STORY=1 tells each one)
	HOWDAH_WORLDS=$(or $(WORLDS),1000) HOWDAH_SEED=$(SEED) HOWDAH_STORY=$(STORY) \
		go test -count=1 -timeout 24h -v -run NoWorld ./test/worlds

.PHONY: verify
verify: verify-generated verify-lint verify-chart verify-docs verify-build verify-vulnerabilities ## Check generated files, lint, import rules, chart and documents

.PHONY: build
build: ## Build every binary into build/bin
	CGO_ENABLED=0 go build -trimpath -o $(BIN)/ ./cmd/...

##@ Generated files

.PHONY: generate
generate: generate-apis generate-rbac generate-chart generate-docs ## Write all that is generated: deepcopy, CRDs, RBAC, chart parts, kustomize, docs

.PHONY: generate-apis
generate-apis: $(BIN)/controller-gen
	cd apis && $(BIN)/controller-gen object:headerFile=../tools/header.go.txt paths=./...
	rm -f config/crd/howdah.dev_*.yaml
	cd apis && $(BIN)/controller-gen crd paths=./... output:crd:dir=../config/crd
	go run ./tools/shortencrds config/crd/howdah.dev_*.yaml

# What a controller may do stands beside the code that does it, in +kubebuilder:rbac markers.
.PHONY: generate-rbac
generate-rbac: $(BIN)/controller-gen
	for name in $(CONTROLLERS); do \
		\
		mkdir -p config/rbac/$$name; \
		$(BIN)/controller-gen rbac:roleName=howdah-$$name paths=./cmd/$$name/... output:rbac:dir=config/rbac/$$name; \
	done

# The chart has copies of the CRDs and roles, because a chart can only read its own files; the rest of config/ is what
# the chart renders, so that the two ways to install never differ.
.PHONY: generate-chart
generate-chart: generate-apis generate-rbac $(BIN)/helm
	rm -rf charts/howdah/files/crds charts/howdah/files/rbac
	mkdir -p charts/howdah/files/crds charts/howdah/files/rbac
	cp config/crd/howdah.dev_*.yaml charts/howdah/files/crds/
	for name in $(CONTROLLERS); do cp config/rbac/$$name/role.yaml charts/howdah/files/rbac/$$name.yaml; done
	$(BIN)/helm template howdah charts/howdah --namespace howdah-system --set crds.install=false | go run ./tools/generate

.PHONY: generate-docs
generate-docs:
	go run ./pkg/protocol/docgen > build/protocol.md
	mv build/protocol.md docs/protocol.md

# Only for a new version of the format, in the change that introduces it: what is there is what old versions have written.
.PHONY: golden
golden: ## Write the small repositories of test/golden for the present version of the backup format
	go run ./test/golden/generate

.PHONY: verify-generated
verify-generated:
	@before=$$(mktemp -d); trap 'rm -rf "$$before"' EXIT; \
	tar -cf - $(GENERATED) | tar -xf - -C "$$before"; \
	$(MAKE) -s generate >/dev/null; \
	for path in $(GENERATED); do \
		diff -r "$$before/$$path" "$$path" || { echo "$$path was not up to date; make generate has now written it: commit it" >&2; exit 1; }; \
	done

# What a person runs on their own machine, and on which.
CLIENTS := ./cmd/kubectl-howdah ./cmd/howdah-backup
PLATFORMS := linux/amd64 linux/arm64 darwin/amd64 darwin/arm64
# As go build does, but without linking forty binaries that nobody wants.
COMPILE := go list -export -f '{{if false}}{{end}}'

.PHONY: verify-build
verify-build:
	@for module in . apis test/kube; do (cd $$module && GOWORK=off $(COMPILE) ./...) || exit 1; done
	@for platform in $(PLATFORMS); do \
		CGO_ENABLED=0 GOOS=$${platform%/*} GOARCH=$${platform#*/} $(COMPILE) $(CLIENTS) || exit 1; \
	done

# The database of vulnerabilities, or a copy: GOVULNDB=file:///path/to/vulndb
export GOVULNDB ?= https://vuln.go.dev

.PHONY: verify-vulnerabilities
verify-vulnerabilities:
	@case "$$GOVULNDB" in \
	http*) if ! curl -fsS --max-time 10 -o /dev/null "$$GOVULNDB/index/db.json" 2>/dev/null; then \
		echo "govulncheck was skipped, because $$GOVULNDB can't be reached from here; GOVULNDB=file:///... names a copy of the database"; exit 0; \
	fi ;; \
	esac; \
	$(MAKE) -s $(BIN)/govulncheck; \
	$(BIN)/govulncheck -db "$$GOVULNDB" ./... ./apis/...

.PHONY: verify-lint
verify-lint: $(BIN)/golangci-lint
	$(BIN)/golangci-lint run ./...
	cd apis && $(BIN)/golangci-lint run --config ../.golangci.yml ./...
	cd test/kube && GOWORK=off $(BIN)/golangci-lint run --config ../../.golangci.yml --build-tags kube ./...

.PHONY: verify-chart
verify-chart: $(BIN)/helm $(BIN)/kustomize $(BIN)/promtool
	$(BIN)/helm lint --strict --quiet charts/howdah charts/howdah-cluster
	$(BIN)/promtool check rules charts/howdah/files/alerts.yaml
	$(BIN)/promtool test rules test/alerts/*.yaml
	go test -tags chart ./test/chart ./cmd/howdah-images/...
	for folder in config/default config/samples; do $(BIN)/kustomize build $$folder >/dev/null; done

.PHONY: verify-docs
verify-docs:
	go test ./test/docs ./test/rules

##@ Chaos

# What is tried, and how often; FAULTS left out is all of them. With ALONE=true there are no controllers meanwhile.
ROUNDS ?= 1
FAULTS ?=
CHANGES ?=
REPLICATION ?= async,sync
ALONE ?= false
MINUTES ?= 60
# The cluster: how many instances, how the primary keeps its lease (APIServer, Members, or APIServer,Members for one after the other), for how many replicas a synchronous commit waits, and whether it does where there are too few.
INSTANCES ?= 3
RENEWAL ?= APIServer
NUMBER ?= 1
PREFERRED ?= false
CHAOS = KUBECONFIG=$(LOCAL_KUBECONFIG) go test -tags=chaos -count=1 -v -timeout=0 ./test/chaos -replication=$(REPLICATION) \
	-instances=$(INSTANCES) -renewal=$(RENEWAL) -number=$(NUMBER) -preferred=$(PREFERRED) $(if $(OLD_AGENT),-old-agent=$(OLD_AGENT_IMAGE))
# A revision whose agent runs beside the present one, in the fault agent-upgrade.
OLD_AGENT ?=
OLD_AGENT_IMAGE = $(shell sed -n 's/^  repository: //p' charts/howdah/values.yaml | head -n1)/agent:old

.PHONY: old-agent
old-agent: kube
	@rm -rf build/old && mkdir -p build/old && git archive $(OLD_AGENT) | tar -x -C build/old
	cd build/old && go run ./cmd/howdah-images build --only agent --version old --revision $$(git rev-parse $(OLD_AGENT))
	$(BIN)/kube load build/old/build/images/agent.tar

.PHONY: chaos
chaos: cluster deploy $(if $(OLD_AGENT),old-agent) ## Try faults on the cluster here and measure what comes of them (ROUNDS=3 FAULTS=switchover,node-kill REPLICATION=sync)
	$(CHAOS) -run=TestFaults -rounds=$(ROUNDS) -faults=$(FAULTS) -alone=$(ALONE)

.PHONY: chaos-pooler
chaos-pooler: cluster deploy ## Change and break a cluster while 50 clients write by way of its Pooler, and others without it (ROUNDS=10 CHANGES=switchover,drain)
	$(CHAOS) -run=TestClientsOfAPooler -rounds=$(ROUNDS) -changes=$(CHANGES)

.PHONY: chaos-ways-back
chaos-ways-back: cluster deploy ## Undo, discard, fail upgrades and cancel restores at each step while 500 rows a second are written (ROUNDS=3 WAYS=undo,discard,upgrade,restore)
	$(CHAOS) -run=TestNoRowIsLostOnAWayBack -rounds=$(ROUNDS) -ways="$(WAYS)"

.PHONY: chaos-random
chaos-random: cluster deploy ## Do random things to a cluster for MINUTES=60, several at a time, and judge (SEED=... repeats a run, WITHOUT=lost-volume,restart leaves faults out)
	$(CHAOS) -run=TestRandomFaults -minutes=$(MINUTES) -seed=$(or $(SEED),0) -without=$(WITHOUT)

.PHONY: simulated-day
simulated-day: cluster deploy ## Have a cluster in which everything is automatic live through a day within an hour, and print what it did
	$(CHAOS) -run=TestADayNeedsNobody

.PHONY: bench-lifecycle
bench-lifecycle: cluster deploy ## Measure what making and changing clusters takes (ROUNDS=5)
	$(CHAOS) -run=TestLifecycle -rounds=$(ROUNDS)

# TestHowFilesAreTransferred takes about four times the size of each database in space on the disk, with two instances.
.PHONY: bench-upgrade
bench-upgrade: INSTANCES = 2
bench-upgrade: cluster deploy ## Measure what clients notice of a major upgrade that copies files, and of one that links them (SCALE=1,5 ROUNDS=3)
	$(CHAOS) -run=TestHowFilesAreTransferred -rounds=$(ROUNDS) -scale=$(if $(filter command\ line environment,$(origin SCALE)),$(SCALE),1,5)

.PHONY: chaos-soak
chaos-soak: cluster deploy ## Keep all processors busy for MINUTES=60; no failover may come of it
	$(CHAOS) -run=TestNoFailoverHappensOnABusyMachine -minutes=$(MINUTES)

##@ Benchmarks

# What is measured; left out is all of it. SCALE=1 is 5.4 GB.
SCALE ?= 0.25
RUNS ?= 3
WORK ?=
TOOLS ?=

.PHONY: bench-backup
bench-backup: kube ## Measure backups beside pgBackRest and pg_basebackup on one MinIO (SCALE=1 RUNS=5 WORK=full TOOLS=howdah,pgbackrest)
	@test/debian-packages
	@go build -o $(BIN)/bench ./test/bench
	@CGO_ENABLED=0 go build -trimpath -o $(BIN)/ ./cmd/agent ./cmd/wal
	@CGO_ENABLED=0 go test -c -trimpath -tags s3 -o $(BIN)/archiver.test ./cmd/agent/internal/archive
	@MINIO=$$($(BIN)/kube s3 program minio) AGENT=$(BIN)/agent WAL=$(BIN)/wal ARCHIVER=$(BIN)/archiver.test SCALE=$(SCALE) RUNS=$(RUNS) WORK=$(WORK) TOOLS=$(TOOLS) $(BIN)/bench

.PHONY: bench-restore
bench-restore: kube ## Measure restores beside pgBackRest, from one MinIO (SCALE=1 RUNS=5 WORK=delta-restore TOOLS=howdah,howdah-undo,pgbackrest)
	@test/debian-packages
	@go build -o $(BIN)/bench ./test/bench
	@CGO_ENABLED=0 go build -trimpath -o $(BIN)/ ./cmd/agent ./cmd/wal
	@MINIO=$$($(BIN)/kube s3 program minio) AGENT=$(BIN)/agent WAL=$(BIN)/wal SCALE=$(SCALE) RUNS=$(RUNS) WORK=$(WORK) TOOLS=$(TOOLS) $(BIN)/bench restore

.PHONY: bench-pooler
bench-pooler: kube ## Measure pgbench directly, by way of PgBouncer alone, and by way of a Pooler's, in turn (RUNS=9 SECONDS_EACH=10)
	@test/debian-packages
	@$(BIN)/kube images pgbouncer >/dev/null
	HOWDAH_BENCH_RUNS=$(RUNS) HOWDAH_BENCH_SECONDS=$(or $(SECONDS_EACH),10) go test -tags postgres -count=1 -timeout 0 -v -run TestWhatAPoolerCosts ./cmd/agent/internal/pgbouncer

.PHONY: bench-settings
bench-settings: ## Measure pgbench and a bulk load with PostgreSQL's own settings, CloudNativePG's and ours, in turn (RUNS=5 SECONDS_EACH=60 MEMORY=2, in GiB)
	@test/debian-packages
	HOWDAH_BENCH_RUNS=$(RUNS) HOWDAH_BENCH_SECONDS=$(or $(SECONDS_EACH),60) HOWDAH_BENCH_MEMORY=$(or $(MEMORY),2) \
		go test -tags postgres -count=1 -timeout 0 -v -run TestWhatTheDefaultsAreWorth ./cmd/agent/internal/settings

# N are numbers of clusters, one run each. SCENARIOS are all, or some of those that docs/benchmarks.md names.
N ?= 100
SCENARIOS ?= all
DEAF ?= 33
BACKUPS ?= 10000

.PHONY: bench-scale
bench-scale: INSTANCES = 1
bench-scale: kube ## Measure what many clusters cost the controllers (N=100,200 INSTANCES=3 DEAF=33 BACKUPS=10000 SCENARIOS=idle,change)
	@CGO_ENABLED=0 go build -trimpath -o build/scale/ ./cmd/db-controller ./cmd/backup-controller ./cmd/restore-controller ./cmd/upgrade-controller ./cmd/pooler-controller ./cmd/drill-controller
	@go build -o $(BIN)/scale ./test/scale
	@minio=$$($(BIN)/kube s3 program minio) && KUBEBUILDER_ASSETS=$$($(BIN)/kube assets) $(BIN)/scale \
		-n $(N) -instances $(INSTANCES) -scenarios $(SCENARIOS) -deaf $(DEAF) -backups $(BACKUPS) -minio $$minio -binaries build/scale

##@ Images

.PHONY: images
images: ## Build the images as OCI archives into build/images, each with its SBOM
	@go build -o $(BIN)/howdah-images ./cmd/howdah-images
	@$(BIN)/howdah-images build --version $(VERSION) --revision "$(REVISION)"

.PHONY: push
push: ## Push the images: make push REGISTRY=registry.example/howdah
	@[ -n "$(REGISTRY)" ] || { echo "say where to: make push REGISTRY=registry.example/howdah" >&2; exit 1; }
	@go build -o $(BIN)/howdah-images ./cmd/howdah-images
	@$(BIN)/howdah-images push --version $(VERSION) --revision "$(REVISION)" --registry "$(REGISTRY)" $(PUSH_FLAGS)

##@ Releases

# Where the images and charts of a release will be: REGISTRY/REPOSITORY. No registry is named in this repository.
REGISTRY ?=
REPOSITORY ?= howdah
# The URL below which the other files of this version will be, for krew.
DOWNLOADS ?= https://howdah.dev/releases/$(VERSION)
# A PEM file with the ECDSA key that signs, and one with its public half, which must not come from the release that it verifies.
KEY ?=
PUBLIC_KEY ?=
DIST ?= dist
# What else the release says or leaves out, as flags of howdah-images release, such as --arches=amd64 or --postgres-images=17=...
RELEASE_FLAGS ?=
# --insecure speaks plain HTTP to the registry.
REGISTRY_FLAGS ?=
SOURCE_DATE_EPOCH ?= $(shell git log -1 --format=%ct 2>/dev/null || echo 0)

.PHONY: release
release: $(BIN)/helm ## Write a release into dist/: make release VERSION=1.2.3 REGISTRY=registry.example REPOSITORY=howdah KEY=howdah.key
	@[ -n "$(REGISTRY)" ] || { echo "say where the images will be: make release VERSION=1.2.3 REGISTRY=registry.example REPOSITORY=howdah" >&2; exit 1; }
	@go build -o $(BIN)/howdah-images ./cmd/howdah-images
	@$(BIN)/howdah-images release --version "$(VERSION)" --revision "$(REVISION)" --time "$(SOURCE_DATE_EPOCH)" --repository "$(REGISTRY)/$(REPOSITORY)" \
		--downloads "$(DOWNLOADS)" --helm $(BIN)/helm --dist "$(DIST)" $(if $(KEY),--key "$(KEY)") $(RELEASE_FLAGS)

.PHONY: publish
publish: ## Push what make release has written to its registry
	@go build -o $(BIN)/howdah-images ./cmd/howdah-images
	@$(BIN)/howdah-images publish $(REGISTRY_FLAGS) "$(DIST)"

.PHONY: verify-release
verify-release: ## Check dist/ and what its registry has: make verify-release PUBLIC_KEY=howdah.pub
	@[ -n "$(PUBLIC_KEY)" ] || { echo "name the public key, from somewhere else than the release: make verify-release PUBLIC_KEY=howdah.pub" >&2; exit 1; }
	@go build -o $(BIN)/howdah-images ./cmd/howdah-images
	@$(BIN)/howdah-images verify --registry --key "$(PUBLIC_KEY)" $(REGISTRY_FLAGS) "$(DIST)"

##@ Cluster in this machine

.PHONY: kube
kube: ## Build build/bin/kube, which starts and stops a real Kubernetes in this machine
	@mkdir -p $(BIN)
	@cd test/kube && GOWORK=off go build -o $(BIN)/kube ./cmd/kube

# Addresses of the cluster: IPv4, IPv6 or DualStack; and its version of Kubernetes, the newest if left out.
IP ?= IPv4
KUBERNETES ?=

.PHONY: cluster
cluster: kube ## Start a real Kubernetes with S3 servers, or find it running (build/kubeconfig)
	$(BIN)/kube images >/dev/null
	$(BIN)/kube up --ip $(IP) $(KUBERNETES:%=--kubernetes %) --s3 minio,versitygw --kubeconfig $(LOCAL_KUBECONFIG)

.PHONY: deploy
deploy: images $(BIN)/helm ## Build the images, put them into that cluster, and install the suite, with one pod per controller
	$(BIN)/kube load $(IMAGES:%=build/images/%.tar)
	$(MAKE) install KUBECONFIG=$(LOCAL_KUBECONFIG) HELM_ARGS="--force-conflicts --values test/kube/howdah.yaml --set replicas=1 --set-string podAnnotations.images=$$(tail -qn1 build/images/*.stamp | sha256sum | cut -c1-16) $(HELM_ARGS)"

.PHONY: install
install: $(BIN)/helm ## Install or upgrade the suite in the cluster of KUBECONFIG, else in the one here (HELM_ARGS="--set ...")
	KUBECONFIG=$(or $(KUBECONFIG),$(LOCAL_KUBECONFIG)) $(BIN)/helm upgrade --install howdah charts/howdah --namespace howdah-system --create-namespace --wait --timeout 3m $(HELM_ARGS)

##@ Tools

# Tools. Each is pinned in a module file of its own, so that none of them weighs on the product's go.mod
# or on another tool's versions: `GOWORK=off go tool -modfile=tools/NAME.mod NAME` runs the same thing.
# They are built once here because `go tool` links such big programs again too often.

$(BIN)/controller-gen: TOOL = sigs.k8s.io/controller-tools/cmd/controller-gen
$(BIN)/helm: TOOL = helm.sh/helm/v4/cmd/helm
$(BIN)/kustomize: TOOL = sigs.k8s.io/kustomize/kustomize/v5
$(BIN)/golangci-lint: TOOL = github.com/golangci/golangci-lint/v2/cmd/golangci-lint
$(BIN)/govulncheck: TOOL = golang.org/x/vuln/cmd/govulncheck
$(BIN)/cosign: TOOL = github.com/sigstore/cosign/v3/cmd/cosign
$(BIN)/operator-verify: TOOL = github.com/operator-framework/api/cmd/operator-verify

$(BIN)/controller-gen $(BIN)/helm $(BIN)/kustomize $(BIN)/golangci-lint $(BIN)/govulncheck $(BIN)/cosign $(BIN)/operator-verify: $(BIN)/%: tools/%.mod
	@echo "building $* (once; minutes for the big ones)"
	@mkdir -p $(BIN)
	@CGO_ENABLED=0 GOWORK=off nice go build -modfile=$< -o $@ $(TOOL)
	@touch $@

# Prometheus is no small thing to build; Debian has it.
$(BIN)/promtool: test/promtool
	@test/promtool $@
	@touch -h $@

.PHONY: tools
tools: $(BIN)/controller-gen $(BIN)/helm $(BIN)/kustomize $(BIN)/golangci-lint $(BIN)/govulncheck $(BIN)/promtool ## Build the pinned tools
