.PHONY: test test-all check engines clusters restarts bench-smoke bench-guard

test: ## all tests, on every engine that is here; needs only Go, and fetches nothing
	@ci/test.sh

test-all: ## the same with every law under every strategy, the long tests and the race detector
	@ci/test.sh all

check: ## format, vet, staticcheck, import rules, generated files
	@ci/check.sh

engines: ## database servers and images for the tests (Debian, as root)
	@ci/engines/all.sh

clusters: ## the suite on clusters of three nodes that are killed (Debian, as root, after make engines)
	@ci/clusters.sh

restarts: ## servers that are restarted and killed while work goes on (Debian, as root, after make engines)
	@ci/restarts.sh

bench-smoke: ## that the benchmarks run, not how fast
	cd bench && go run . -smoke

bench-guard: ## that no ratio of bench/guard.json has fallen far; about a minute, on the servers that DBQ_TEST_*_DSN name
	cd bench && go run . -guard guard.json $(BENCHFLAGS)
