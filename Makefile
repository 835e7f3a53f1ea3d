# Every target sets up what it needs first (tools/setup.sh), and says so. GNU make 3.81 is enough.
SHELL := /bin/bash
.DEFAULT_GOAL := help
.PHONY: help setup jar junit image load up down purge render demo test test-all e2e e2e-all bench bench-growth bench-hosts bench-k8s bench-electors steady soak hostile zoo prove lint format lock clean

PYTHON := .venv/bin/python
# Takeovers per kind of failure in `make bench`; 100 for figures worth publishing.
N ?= 8
# Histories in `make prove`.
SEEDS ?= 10000
KILLS ?= 20
# The image of `make image`: its name, its base, and the parts to keep (hooks/image/README.md).
IMAGE ?= understudy:dev
BASE_IMAGE ?=
KEEP ?=
# The stack of `make up`, `make down` and `make render`: stacks/Pulumi.$(STACK).yaml.
STACK ?= dev
# Two files of tests at a time. Those with Spark come last: half of their time is waiting, for JVMs to start and for batches.
PARALLEL := -n 2 --dist loadfile
# More arguments for pytest, for example: make test ARGS='tests/unit -k token'
ARGS ?=

help:
	@echo 'make demo          three replicas, six ways to lose a leader, not a row lost (about 6 minutes)'
	@echo 'make test          the tests, on PySpark 4.2, and a few again on 4.3 (at most 25 minutes)'
	@echo 'make test-all      the same with the long ones'
	@echo 'make e2e           in a real Kubernetes cluster: the one KUBECONFIG names, else kind, else one on this machine (as root)'
	@echo 'make e2e-all       the same with all tests'
	@echo 'make bench         takeover times against a restarted script (N=8 per kind; N=100 to publish)'
	@echo 'make bench-growth  takeover times as a job grows: partitions, queries, state, checkpoint, store (N=3 each)'
	@echo 'make bench-hosts   takeover times between two hosts without Kubernetes, on S3 and on ZooKeeper (N=8 per kind; needs root)'
	@echo 'make bench-k8s     takeover times in a cluster, against a Deployment of one pod'
	@echo 'make bench-electors 200 leaders on one API server: what they cost it, and whether it demotes any'
	@echo 'make steady        what it costs while nothing is wrong: batch time, CPU, memory'
	@echo 'make soak          fifty kills at random, then every row compared'
	@echo 'make hostile       an hour of kills, freezes, full disks and 503s with a small log: rows compared, nothing may grow'
	@echo 'make zoo           scripts as users write them, their leaders killed (KILLS=20 each): every sink compared with a plain run'
	@echo 'make prove         thousands of simulated histories, every interleaving of the election, every guard taken out (SEEDS=10000)'
	@echo 'make lint          ruff, mypy, import-linter, deptry, shellcheck'
	@echo 'make format        let ruff and google-java-format rewrite what they can'
	@echo 'make jar           build the fence for the JVM into hooks/understudy/jars/'
	@echo 'make junit         the JUnit tests of the fence, what Error Prone finds in it, and its format; part of make test'
	@echo 'make image         build the container image understudy:dev (BASE_IMAGE=..., IMAGE=..., KEEP=hive,ml)'
	@echo 'make load          load that image into the cluster of the current context (kind, minikube)'
	@echo 'make up            deploy a stack of the bundle with pulumi: STACK=dev, prod, or yours (docs/bundle.md)'
	@echo 'make down          remove it; what holds data stays (make purge SURE=yes removes everything)'
	@echo 'make render        the manifests of a stack, for Argo CD, Flux or kubectl'
	@echo 'make lock          write requirements/*.txt again (UPGRADE=1: with the newest versions)'
	@echo 'make clean         remove what was built; the virtual environments stay'

setup:
	@tools/setup.sh python

jar:
	@tools/setup.sh jar

junit:
	@tools/setup.sh jvm
	@tools/jvm.sh check

image:
	@tools/setup.sh jar s3a
	@IMAGE='$(IMAGE)' BASE_IMAGE='$(BASE_IMAGE)' KEEP='$(KEEP)' hooks/image/build

load:
	@tools/load-image.sh $(or $(IMAGE),understudy:dev)

up:
	@tools/stack.sh up $(STACK)

down:
	@tools/stack.sh down $(STACK)

purge:
	@SURE='$(SURE)' tools/stack.sh purge $(STACK)

render:
	@tools/setup.sh python >&2
	@PYTHONPATH=hooks $(PYTHON) -m infra.render $(STACK)

demo:
	@tools/setup.sh jar
	@$(PYTHON) -m bench.demo

test:
	@tools/setup.sh jar jvm spark43 s3 kafka connectors zookeeper etcd hosts
	@tools/jvm.sh check
	$(if $(ARGS),$(PYTHON) -m pytest -m 'not long' $(ARGS),$(PYTHON) -m pytest -m 'not long' $(PARALLEL) --ignore=tests/spark && $(PYTHON) -m pytest -m 'not long' $(PARALLEL) tests/spark)
	@# The tests that depend on the Spark line, in an environment with the other one; not where arguments choose some.
	$(if $(ARGS),,.venv-4.3/bin/python -m pytest $(PARALLEL) tests/unit/test_spark_patches.py tests/spark -m 'spark43 and not long')

test-all:
	@tools/setup.sh jar jvm spark43 s3 kafka connectors zookeeper etcd hosts
	@tools/jvm.sh check
	$(if $(ARGS),$(PYTHON) -m pytest $(ARGS),$(PYTHON) -m pytest $(PARALLEL) --ignore=tests/spark && $(PYTHON) -m pytest $(PARALLEL) tests/spark)
	.venv-4.3/bin/python -m pytest $(PARALLEL) tests/unit/test_spark_patches.py tests/spark -m spark43

e2e: setup
	@$(PYTHON) -m e2e $(ARGS)

e2e-all: setup
	@$(PYTHON) -m e2e --all $(ARGS)

bench-electors: setup
	@$(PYTHON) -m e2e --run e2e.benchmarks.electors $(ARGS)

bench-k8s: setup
	@$(PYTHON) -m e2e --run e2e.benchmarks.failover -n $(N) $(ARGS)

bench:
	@tools/setup.sh jar
	@$(PYTHON) -m bench.failover -n $(N) $(ARGS)

bench-growth: N = 3
bench-growth:
	@tools/setup.sh jar s3
	@$(PYTHON) -m bench.growth -n $(N) $(ARGS)

bench-hosts:
	@tools/setup.sh jar s3 zookeeper hosts
	@$(PYTHON) -m bench.hosts -n $(N) $(ARGS)

steady:
	@tools/setup.sh jar
	@$(PYTHON) -m bench.steady

soak:
	@tools/setup.sh jar
	@$(PYTHON) -m bench.soak

hostile:
	@tools/setup.sh jar s3
	@$(PYTHON) -m bench.hostile

zoo:
	@tools/setup.sh jar kafka connectors
	@$(PYTHON) -m tests.spark.zoo --kills $(KILLS) $(ARGS)

prove:
	@tools/setup.sh fuzz
	@$(PYTHON) -m tests.simulation.prove --seeds $(SEEDS) $(ARGS)

lint: setup
	.venv/bin/ruff check
	.venv/bin/ruff format --check
	.venv/bin/mypy
	.venv/bin/lint-imports
	.venv/bin/deptry hooks/understudy
	cd examples/understudy-etcd && ../../.venv/bin/deptry understudy_etcd
	.venv/bin/shellcheck tools/*.sh .ci/run e2e/cluster/boot.sh e2e/cluster/cluster \
	    $(addprefix hooks/image/,build packages slim understudy-entry) hooks/understudy/driver/worker_path/understudy-python

format:
	@tools/setup.sh jvm
	.venv/bin/ruff check --fix
	.venv/bin/ruff format
	@tools/jvm.sh format

lock: setup
	@UPGRADE=$(UPGRADE) tools/lock.sh

clean:
	rm -rf build dist hooks/jvm/target hooks/understudy/jars .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find hooks tests testkit bench examples e2e -name __pycache__ -type d -prune -exec rm -rf {} +
