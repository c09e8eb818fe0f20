# Everything a developer or CI does. Each target sets up what it needs.

GO ?= go
STATICCHECK = $(GO) run honnef.co/go/tools/cmd/staticcheck@v0.8.2
TSC = npx --yes --package typescript@5.9.3 tsc

.PHONY: run build test test-cluster lint bench bench-store bench-cluster bench-producers fuzz clean

run: build ## start three nodes behind 127.0.0.1:8080, with their store in ./data
	./bin/rillkeep dev

build: ## RELEASE=v1.2.3 is what it then says its version is
	$(GO) build -ldflags "$(if $(RELEASE),-X main.release=$(RELEASE))" -o bin/rillkeep ./cmd/rillkeep

test: ## all tests, race detector on; needs PostgreSQL, PgBouncer, nginx, Chromium and Node.js, and gets them
	.ci/tools
	$(GO) test -race -timeout 15m $$($(GO) list ./... | grep -v /cmd/rillkeep/clustertest)
	$(MAKE) test-cluster

# Without the race detector. With it, and a minute for a drain in place of 20 s, two busy cores took 56 and 59 s
# for drains that take 15 s, had not noticed a cut after a minute that is noticed in 7 s, and were not half through
# after 7 minutes. Its tests wait more than they work, so that more of them run at once than there are cores.
test-cluster: ## part of test, by itself: clusters of real processes under load, in less than 5 minutes
	.ci/tools
	$(GO) test -timeout 8m -count 1 -parallel 4 ./cmd/rillkeep/clustertest

lint: ## what must be silent before a commit; needs Node.js with npm for the types of the JavaScript client, and gets them
	.ci/tools
	@test -z "$$(gofmt -l .)" || { echo "gofmt these files:"; gofmt -l .; exit 1; }
	$(GO) vet ./...
	$(STATICCHECK) ./...
	$(TSC) --project router/web/client/test
	$(TSC) --project router/web/client

bench: ## figures for README's Benchmarks section; the last line is node ÷ floor
	$(GO) test -run '^$$' -bench . -benchmem ./plane ./actor
	$(GO) run ./cmd/fanout -readers 100
	$(GO) run ./cmd/fanout -readers 1000

bench-store: ## checkpoints in PostgreSQL; the last line is ours ÷ the obvious way
	.ci/tools
	$(GO) run ./cmd/checkpoints -product
	$(GO) run ./cmd/checkpoints -seal -rounds 1
	$(GO) run ./cmd/checkpoints

bench-cluster: ## a stream read through another node; the last line is that ÷ read where it is
	$(GO) test -run '^$$' -bench 'Owner|NewTable/members=50' -benchmem ./ring
	$(GO) run ./cmd/relay

bench-producers: ## 100 and 1,000 producers of a node; the last line is a delta by a pump ÷ by an append
	$(GO) run ./cmd/producers -producers 100
	$(GO) run ./cmd/producers

FUZZTIME ?= 30s
fuzz: ## each fuzz target for FUZZTIME
	.ci/fuzz $(FUZZTIME)

clean:
	rm -rf bin
