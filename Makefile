# Only Go and make are needed, except where a target says otherwise.
# `make` alone lists the targets.

GO          ?= go
STATICCHECK ?= honnef.co/go/tools/cmd/staticcheck@v0.8.2
GORELEASER  ?= github.com/goreleaser/goreleaser/v2@v2.14.0
GOVULNCHECK ?= golang.org/x/vuln/cmd/govulncheck@v1.9.0
FUZZTIME    ?= 20s
JOBS        ?= 10000
CRASHES     ?= 200
CORRUPTIONS ?= 50
RANDOM_JOBS ?= 100000
MUTATED     ?= 1000000
WRONG_PAIRS ?= 300000
RUNS        ?= 500
FRESH       ?= 4m
STACK       ?= torch-2.15
LISTEN      ?= 127.0.0.1:8080
DATABASE    ?= file:vramplan.db

# The driver for SQLite is Go, so nothing needs a C compiler but the race detector.
export CGO_ENABLED ?= 0

# The interpreter whose trees the grammar of Python is held against, and the folders of programs.
PYTHON3     ?= python3
TREES       ?= $(shell $(PYTHON3) -c 'import os; print(os.path.dirname(os.__file__))')

# Every fuzz target as package:name.
FUZZ = $$(grep -rEo --include='*_test.go' '^func Fuzz[A-Za-z0-9_]+' . | sed -E 's|^(.*)/[^/]*:func (.*)|\1:\2|' | sort -u)

# Packages with goroutines of their own, and the tests of theirs that are left out: they ask one thing after another,
# so that nothing runs beside anything, for minutes or on a megabyte for longer than an answer may take, and the detector
# makes a slow network too slow for any write; under the detector a process cannot live within its limit of memory, and its
# pools drop a part of what they are given, so that neither what is allocated nor what an estimate takes of a core is a measure. Of the command line's scripts those stay in which its service runs beside
# the client; each command of the others is a process of its own. `make test` runs all of them.
RACE_ALONE    = FullDisk|EveryExampleIsTrue|HostileTexts|BadNetwork|PageCorruptionsOfAServerAreNoticed|EveryStatementMayBeGivenUp|AnswersFitEightyColumns|LogitsByTheirSizeAlone|FailuresByTheirForms|NoModelIsTooLarge|LeastChangesNoPlan|EveryCallMayFail|CorruptionsAreNoticed|RunsAreGroupedByWhatRan|KeptCalibrationsAreBounded|ReadingsApart|ProductsAreBounded|EstimatesEndWithTheirRequest
RACE_SCRIPTS  = check_submission|check_tools|compare|completion|contrastive|cost|diagnose|diffusion|exit_codes|explain_defaults|layouts|local|objective|output|pictures|qlora|read|recorded|replay|shell|stdin|usage|version|words
RACE_SKIP     ?= ^Test($(RACE_ALONE))$$|^TestScripts$$/^($(RACE_SCRIPTS))$$
RACE_PACKAGES ?= ./cmd/... ./api ./service ./service/catalog ./service/jobdoc ./service/store ./estimator/planner
# Those of the estimator in which estimates run beside each other.
RACE_ESTIMATOR ?= ^(TestSideBySide|TestReplaysChangeNothing|TestStopped)$$

.DEFAULT_GOAL := help
.PHONY: help build run test test-race race race-all lint vulnerabilities fmt bench crash corrupt engines accuracy structure oracle drift generate fuzz random conformance manifests image-check install-check python-grammar cockroach load soak siege mutate sweep cover clean

help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

build: ## Build bin/vramplan, a static binary
	$(GO) build -trimpath -ldflags '-s -w' -o bin/vramplan ./cmd/vramplan

run: build ## Start the service on an SQLite file, ready for curl
	./bin/vramplan serve --listen $(LISTEN) --database $(DATABASE)

test: ## Run all tests
	$(GO) test ./...

test-race: ## Run the tests of concurrent code under the race detector (needs a C compiler)
	CGO_ENABLED=1 RAPID_CHECKS=25 VRAMPLAN_CRASHES=3 $(GO) test -race -timeout 30m -skip '$(RACE_SKIP)' $(RACE_PACKAGES)
	CGO_ENABLED=1 RAPID_CHECKS=25 $(GO) test -race -timeout 30m -run '$(RACE_ESTIMATOR)' ./estimator

race: ## The same for the service, the API, plans and estimates alone, the shorter part
	CGO_ENABLED=1 RAPID_CHECKS=5 $(GO) test -race -timeout 30m -skip '$(RACE_SKIP)' $(filter-out ./cmd/...,$(RACE_PACKAGES))
	CGO_ENABLED=1 RAPID_CHECKS=25 $(GO) test -race -timeout 30m -run '$(RACE_ESTIMATOR)' ./estimator

race-all: ## Run all tests under the race detector; the estimator's, most of which start no goroutines, with fewer random jobs
	CGO_ENABLED=1 RAPID_CHECKS=10 $(GO) test -race -timeout 60m ./...

lint: ## Check formatting, go vet and staticcheck
	@unformatted=$$(gofmt -l .); if [ -n "$$unformatted" ]; then echo "gofmt is needed on:"; echo "$$unformatted"; exit 1; fi
	$(GO) vet ./...
	$(GO) run $(STATICCHECK) ./...

vulnerabilities: ## Look up known vulnerabilities of what is called (needs the database of the Go project)
	$(GO) run $(GOVULNCHECK) ./...

fmt: ## Format the sources
	gofmt -w .

bench: ## Run the benchmarks once, with allocations
	$(GO) test -run '^$$' -bench . -benchmem ./...

crash: ## Kill the service CRASHES (200) times on each store while it writes; fill its disk; take its database and its network away
	VRAMPLAN_CRASHES=$(CRASHES) $(GO) test ./cmd/vramplan -run 'Crashes|FullDisk|ReadOnlyFile|Outage|BadNetwork' -v -timeout 60m -count=1

corrupt: ## Harm each store CORRUPTIONS (50) times, rows, pages and logs (CORRUPTION_SEED chooses which); let every call of a store fail; lose commits
	VRAMPLAN_EVERY_FAULT=1 VRAMPLAN_CORRUPTIONS=$(CORRUPTIONS) VRAMPLAN_CORRUPTION_SEED=$(CORRUPTION_SEED) $(GO) test ./service/store -run 'Corruptions|EveryCallMayFail|LostCommits' -v -timeout 60m -count=1

engines: ## Compare the fast engine with the plain one on JOBS (10000) random jobs and a quarter as many sharded ones, on two cores
	$(GO) test -c -o bin/estimator.test ./estimator
	@cd estimator && running=; for half in 1 2; do \
	  ( export RAPID_SEED=$$(($${RAPID_SEED:-1} + half)); \
	    ../bin/estimator.test -test.run 'FoldedEqualsPlain$$' -test.timeout 30m -rapid.checks=$$(($(JOBS) / 2)) && \
	    ../bin/estimator.test -test.run 'FoldedEqualsPlainSharded$$' -test.timeout 30m -rapid.checks=$$(($(JOBS) / 8)) ) & \
	  running="$$running $$!"; \
	done; for one in $$running; do wait $$one || exit 1; done

accuracy: ## Compare estimates with the reference cases, by model and size
	$(GO) run ./estimator/accuracy

oracle: ## Trace the corpus, or CROSSES=40 drawn jobs, with real PyTorch on a stand-in driver and compare (STACK=torch-2.15; downloads 3 GB once; oracle/README.md)
	CROSSES='$(CROSSES)' SEED='$(SEED)' oracle/run.sh $(STACK) $(JOBS_FILE)

.PHONY: flips
flips: ## Trace FLIPS (1000) jobs of the Trainer in which one key, one set of adapters or one switch is otherwise, and keep what differs (as oracle; SEED=39)
	FLIPS='$(or $(FLIPS),1000)' SEED='$(SEED)' oracle/run.sh $(STACK)

drift: ## Say which rows of the table of releases a stack's traces show (STACK=transformers-5.0 LIBRARY=transformers; as oracle)
	DRIFT='$(LIBRARY)' oracle/run.sh $(STACK) $(JOBS_FILE)

.PHONY: recorder
recorder: ## Record the models of the traced rows from transformers' own code, and compare with the described families (STACK=torch-2.15; downloads 3 GB once; CASES=files and ONLY=types take fewer; COMPILED=1: jobs under torch.compile)
	GO='$(GO)' STACK='$(STACK)' ONLY='$(ONLY)' COMPILED='$(COMPILED)' recorder/compare.sh $(CASES)

.PHONY: answers steady fresh
answers: ## Write the answers to all traced and measured jobs on all cards (CARDS=regexp; PLANS=20: plans of every 20th job) into FILE, and compare with those in OTHER
	$(GO) run ./reliability/answers make -cards '$(CARDS)' -plans '$(or $(PLANS),0)' '$(or $(FILE),bin/answers.gz)'
	$(if $(OTHER),$(GO) run ./reliability/answers compare '$(OTHER)' '$(or $(FILE),bin/answers.gz)')

steady: ## Run the random tests (TEST=regexp) RUNS (500) times, each with a seed of its own, and count failures (TIME=1h at most, BESIDE=2 at once; KEEP=docs/lab/steady.md goes on from that page)
	$(GO) run ./reliability/steady -runs $(RUNS) -test '$(TEST)' -time $(or $(TIME),0) -seed $(or $(SEED),0) -beside $(or $(BESIDE),1) -keep '$(KEEP)'

fresh: ## Draw anew in all random tests for FRESH (4m); BASE=HEAD^ lets pass what fails there too, SEED=N draws again
	$(GO) run ./reliability/steady -runs 1000000 -time $(FRESH) -base '$(BASE)' -seed $(or $(SEED),0)

structure: ## Count what the shape of the replay's code is
	$(GO) run ./reliability/structure

generate: ## Make the generated files anew
	$(GO) generate ./...

.PHONY: mcp
mcp: build ## Ask the tools of the Model Context Protocol by its Python client over both transports (needs Python 3 with venv), and write the conversation to TRANSCRIPT
	@venv=$$(mktemp -d) && trap 'rm -rf '$$venv EXIT && $(PYTHON3) -m venv $$venv && $$venv/bin/pip install -q -r clients/mcp/requirements.txt && \
	$$venv/bin/python clients/mcp/check.py bin/vramplan $(TRANSCRIPT)

python-grammar: ## Hold the grammar of Python against CPython's over TREES (its standard library), with PYTHON3 (python3)
	@trees=$$(mktemp) && trap 'rm -f '$$trees EXIT && $(PYTHON3) service/readers/python/testdata/trees.py $(abspath $(TREES)) > $$trees && \
	$(GO) test ./service/readers/python -count 1 -v -run TestTreesOfCPython -trees=$$trees

fuzz: ## Run every fuzz target for FUZZTIME (20s), little of which goes into making inputs smaller
	@GO='$(GO)' FUZZTIME=$(FUZZTIME) reliability/fuzz.sh $(FUZZ)

.PHONY: scripts answered
scripts: ## Judge SCRIPTS (10000) batch scripts with check and estimate, in which the environment decides a part or none
	$(GO) test ./cmd/vramplan -run '^Test((Known|Open)Scripts|OneReading)$$' -v -count=1 -timeout 4h -rapid.checks=$(or $(SCRIPTS),10000)

answered: ## Print of the scripts in the folders DIR how many get an answer (JUDGE=-judge: of cases that say what is right, how many are, by program)
	$(GO) run ./reliability/answered $(JUDGE) $(DIR)

random: ## Ask for RANDOM_JOBS (100000) random jobs, right and wrong ones (RAPID_SEED=N draws others)
	$(GO) test ./api -run '^TestRandomJobs$$' -v -count=1 -timeout 2h -rapid.checks=$(RANDOM_JOBS)

conformance: ## Hold a running service against its OpenAPI document (needs Python 3 with venv)
	reliability/schemathesis/run.sh

.PHONY: openapi-lint clients python loops
openapi-lint: ## Hold the OpenAPI document against redocly's and spectral's rules (needs Node.js)
	openapi/lint/run.sh

clients: ## Generate clients of the OpenAPI document with seven generators, compile each and make a call (needs Node.js, Python 3.11, a JDK, Maven)
	clients/check/run.sh $(CLIENT)

python: ## Build the Python wheel of this machine into dist/, install it and test it (needs Python 3 with venv)
	clients/python/build.sh

loops: ## Hold what the wheel says of training loops against the Trainer, Lightning and a plain loop on the stand-in driver and the CPU (STACK=torch-2.15; as oracle)
	GO='$(GO)' clients/python/loops.sh $(STACK)

manifests: ## Check the Kubernetes manifests and docker-compose.yml against the types of the programs that read them
	cd deploy/check && $(GO) vet ./... && $(GO) test ./...

image-check: ## Build the image with buildah and run it as an orchestrator would (needs root, buildah and debootstrap)
	deploy/image/check.sh

.PHONY: archives
archives: ## Make release archives for Linux, macOS and Windows in dist/ without a release, check their sums and run this machine's (goreleaser takes minutes to build)
	$(GO) run $(GORELEASER) check
	VERSION=$$(git describe --always --dirty) $(GO) run $(GORELEASER) release --snapshot --clean --skip=publish
	cd dist && sha256sum -c checksums.txt
	GO='$(GO)' deploy/archives-check.sh
	rm -rf bin/licenses

install-check: ## Install the last commit by go install PATH@VERSION, from a module proxy in a folder
	deploy/install-check.sh

cockroach: ## Hold the SQL against CockroachDB's parser (some minutes to build); to be run when a statement or a migration changes
	cd deploy/cockroach && $(GO) vet ./... && $(GO) test ./... -v -run Statements -note && $(GO) test ./...

load: ## Measure throughput and latency beside a bare handler
	$(GO) run ./reliability load

soak: ## Watch the memory under ten minutes of steady load
	$(GO) run ./reliability soak

mutate: ## Ask MUTATED (1000000) requests that are nearly right, each held against its bound
	$(GO) run ./reliability mutate -requests $(MUTATED)

sweep: ## Set every key of every model type to wrong values, one and (WRONG_PAIRS, 300000) two at a time, under a limit of memory
	$(GO) run ./reliability sweep -pairs $(WRONG_PAIRS)

siege: ## Attack a service while honest clients ask
	$(GO) run ./reliability siege

cover: ## Write coverage.out and print the total
	$(GO) test -coverprofile=coverage.out -coverpkg=./... ./...
	$(GO) tool cover -func=coverage.out | tail -n 1

clean: ## Remove what the targets made
	rm -rf bin coverage.out
