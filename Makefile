# Everything a person or CI does, each as one word. All targets are safe to run twice.

.PHONY: demo test lint bench build release deps fmt oracle bench-branch

CARGO ?= cargo
NEEDS := postgresql xfsprogs btrfs-progs

# The main job on real input: three leases on a generated shop, and the walls around them.
# ONCE=1 exits after the tour.
demo: deps release
	target_dir=$$($(CARGO) metadata --format-version 1 --no-deps | sed 's/.*"target_directory":"\([^"]*\)".*/\1/'); \
	"$$target_dir/release/postern" demo $(if $(ONCE),--once) $(ARGS)

build: deps
	$(CARGO) build --locked

release: deps
	$(CARGO) build --locked --release

test: deps
	./tests/run.sh

lint:
	$(CARGO) fmt --all --check
	$(CARGO) clippy --locked --all-targets -- -D warnings
	RUSTDOCFLAGS="-D warnings" $(CARGO) doc --locked --no-deps --document-private-items --quiet
	./ops/deny.sh

fmt:
	$(CARGO) fmt --all

bench: deps
	./bench/run.sh

# Installs what is missing with apt when root; says exactly what to install otherwise.
deps:
	@./ops/install-deps.sh $(NEEDS)
