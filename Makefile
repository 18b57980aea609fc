.PHONY: help test test-all check vulnerabilities fuzz servers engines clusters restarts browser laws
.PHONY: bench bench-smoke bench-guard

help: ## list these commands
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

test: ## run the tests, on SQLite and every engine found; needs only Go, and fetches nothing
	@ci/test.sh

test-all: ## run everything, on all engines, within 90 minutes (Debian, as root)
	@ci/test-all.sh

check: ## check format, imports, sizes, generated files and scripts; lint
	@ci/check.sh

vulnerabilities: ## look for known vulnerabilities
	@ci/vulnerabilities.sh

fuzz: ## run every fuzz test with 10,000 inputs, or FUZZ_INPUTS
	@ci/fuzz.sh

servers: ## install database servers for the tests, without Docker (Debian, as root)
	@ci/engines/all.sh servers

engines: ## install database servers and images for the tests (Debian, as root)
	@ci/engines/all.sh

clusters: ## test clusters whose nodes are killed (Debian, as root, after make servers)
	@ci/clusters.sh

restarts: ## test servers that are restarted and killed under load (Debian, as root, after make servers)
	@ci/restarts.sh

browser: ## test the web console in Chromium, which is installed if it is missing (Debian, as root)
	@ci/browser.sh

laws: ## test every law under every strategy on the engine TARGET, such as sqlite or postgres18
	@DBQ_TEST_REQUIRE=$(TARGET) ci/test.sh -count=1 ./conformance/engines -run 'TestConformance/^$(TARGET)$$'

bench: ## measure everything, on servers that it starts; takes hours (Debian, as root, after make servers)
	@ci/bench.sh

bench-smoke: ## check that the benchmarks run, not how fast
	cd bench && go run . -smoke

bench-guard: ## check the ratios of bench/guard.json, on the servers that DBQ_TEST_*_DSN name; about a minute
	cd bench && go run . -guard guard.json $(BENCHFLAGS)
