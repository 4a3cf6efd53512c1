# Everything here is also a script of its own under tests/; this is the list of them.
.DEFAULT_GOAL := help
SHELL := /bin/bash
S := tests/scripts

.PHONY: help demo test lint generate test-unit test-interop conformance tck test-api test-e2e soak bench runtime-binary images clean distclean

help: ## this list
	@sed -n 's/^\([a-z0-9-]*\):.*## /\1|/p' $(MAKEFILE_LIST) | while IFS='|' read -r name text; do printf '  %-16s %s\n' "$$name" "$$text"; done

demo: ## the main job: a cluster, the install, an agent with two MCP servers, a message and its answer
	tests/demo/demo.sh

test: ## everything that must hold: lint, generated files, unit tests, MCP servers that are not ours, MCP conformance, API server suite, one-node suite
	$(S)/test.sh lint generate unit interop conformance api e2e

lint: ## formatting, clippy, dependencies, shell scripts, charts
	$(S)/test.sh lint

generate: ## writes the generated files again: CRDs, chart copies, runtime/CLI.md, manifests/install.yaml
	$(S)/generate.sh

test-unit: ## the tests that need no cluster
	$(S)/test.sh unit

test-interop: ## the MCP client against servers of others, and against one that does everything wrong
	$(S)/test.sh interop

conformance: ## the official MCP conformance suite against agentd's MCP layer; ends with one line of counts
	$(S)/conformance.sh

tck: ## the official A2A TCK against agentd's listener; A2A_TCK=<checkout of its branch 1.0-dev>
	$(S)/tck.sh "$(A2A_TCK)"

test-api: ## the operator and the issuer against a real API server
	$(S)/test.sh api

test-e2e: ## real pods on one node: install, agents, refusals, deletion
	$(S)/test.sh e2e

soak: ## the long versions of tests: more rounds of random input, a stream of an hour, ten minutes without a write; SOAK=SECONDS and PROPTEST_CASES=N for shorter ones, STEPS=soak-unit for one of them
	$(S)/test.sh $(or $(STEPS),soak-unit soak-interop soak-api)

bench: ## one JSON line for each measure: name, value, unit, n; fails above what is promised. PARTS="mcp agent:rounds" for some of them
	@tests/benches/bench.sh $(PARTS)

runtime-binary: ## builds the static release binaries; the last line is the path of agentd
	@folder=$$($(S)/build-static.sh) && echo "$$folder/agentd"

images: ## makes the images of agentd and agentd-operator, for IMAGE_REGISTRY and the chart's version; prints NAME FILE
	@IMAGE_TAG=$$(sed -n 's/^appVersion: //p' charts/agentd/Chart.yaml) $(S)/images.sh product

clean: ## ends the clusters of demo and tests and removes their state; what was built stays
	$(S)/clean.sh

distclean: clean ## also removes what was built and fetched
	$(S)/clean.sh all
