# The few commands people type.  CMakeLists.txt does the work.
BUILD  ?= build
PREFIX ?= /usr/local
JOBS   ?= $(shell nproc)

all: ## build the libraries, the program weft, the examples and the benchmarks into build/
	@cmake -S . -B "$(BUILD)" -DCMAKE_BUILD_TYPE=Release $(CMAKE_FLAGS)
	@cmake --build "$(BUILD)" -j$(JOBS)
	@[ -x "$(BUILD)/weft" ] || grep -q '^WEFT_NODE:STRING=OFF' "$(BUILD)/CMakeCache.txt" || echo "note: $(BUILD)/weft was not built, because" \
	    "LMDB, Lua 5.4 or jansson was not found; 'tools/deps build' installs them on Debian" >&2

run: ## build, and run a node on ./data until Ctrl-C: make run ARGS='--listen 8080'
	@tools/deps build
	@$(MAKE) --no-print-directory all
	@[ -x "$(BUILD)/weft" ] || { echo "weft was not built: see what cmake says above" >&2; exit 1; }
	@exec "$(BUILD)/weft" node --data data $(ARGS)

test: ## run every test; ends with 'N passed, N failed'
	@tools/deps test
	@tools/deps peers || echo "some tests with other programs will be left out"
	@tools/test

nightly: ## run the long checks, several hours: make nightly ARGS='--only shards,mutants'
	@tools/deps test
	@tools/nightly --jobs $(JOBS) $(ARGS)

bench: all ## run the benchmarks: make bench ARGS='spawn_join --json'
	@"$(BUILD)/weft-bench" $(ARGS)

model: ## model-check the lock-free protocols: make model ARGS='--bound 3'
	@tools/deps test
	@tools/test --build model
	@build/model/weft-model $(ARGS)

cross: ## test the context switch, fibers and nurseries on emulated aarch64 and riscv64
	@tools/deps cross
	@test/cross/check $(JOBS)

mutants: ## weaken every memory order, fence and wake in turn; the tests must notice
	@tools/deps test
	@tools/mutants $(ARGS)

install: all ## install into PREFIX (/usr/local); DESTDIR is respected
	@cmake --install "$(BUILD)" --prefix "$(PREFIX)"
	@printf '%s' "$(DESTDIR)" >"$(BUILD)/install_destdir.txt"
	@PATH="$$PATH:/usr/sbin:/sbin"; folder=$$(sed -n 's|/libweft\.so$$||p' "$(BUILD)/install_manifest.txt"); \
	    [ -n "$(DESTDIR)" ] || ! ldconfig -NXv 2>/dev/null | grep -qF "$$folder:" || \
	    ldconfig || echo "run ldconfig as root: programs will not find libweft.so before" >&2

# CMake's manifest leaves DESTDIR out: `install` writes it down, so that removing a staged tree never touches the system's files.
uninstall: ## remove what the last install put there, below the same DESTDIR
	@[ -f "$(BUILD)/install_manifest.txt" ] || { echo "nothing was installed from $(BUILD)" >&2; exit 1; }
	@[ -f "$(BUILD)/install_destdir.txt" ] || { echo "$(BUILD) was not installed by 'make install': remove the files that" \
	    "$(BUILD)/install_manifest.txt lists by hand" >&2; exit 1; }
	@staged=$$(cat "$(BUILD)/install_destdir.txt"); \
	    [ -z "$(DESTDIR)" ] || [ "$(DESTDIR)" = "$$staged" ] || { echo "the last install went to DESTDIR='$$staged'" >&2; exit 1; }; \
	    while read -r file || [ -n "$$file" ]; do rm -f "$$staged$$file"; done <"$(BUILD)/install_manifest.txt"; \
	    while read -r file || [ -n "$$file" ]; do echo "$$staged$${file%/*}"; done <"$(BUILD)/install_manifest.txt" | \
	    grep '/weft$$' | sort -u | while read -r folder; do rmdir "$$folder" 2>/dev/null || true; done

format: ## format all C sources
	@tools/deps format
	@tools/format

clean: ## remove build/
	@rm -rf "$(BUILD)"

help: ## this list
	@sed -n 's/^\([a-z]*\):.*## /\1\t/p' Makefile | expand -t 10

.PHONY: all run test nightly bench model cross mutants install uninstall format clean help
