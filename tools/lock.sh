#!/usr/bin/env bash
# Writes requirements/*.txt: versions and hashes for every platform and Python we support, and no download host.
# Pins that still fit are kept; UPGRADE=1 takes the newest of everything.
set -euo pipefail
cd "$(dirname "$0")/.."

uv=.venv/bin/uv
options=(--quiet --no-header --generate-hashes --universal --python-version 3.11)
[ -z "${UPGRADE:-}" ] || options+=(--upgrade)

lock() { # lock OUTPUT INPUT...
    local output=$1
    shift
    echo "lock: $output"
    "$uv" pip compile "${options[@]}" --output-file "$output" "$@"
}

lock requirements/uv.txt requirements/uv.in
lock requirements/build.txt requirements/build.in
lock requirements/go.txt requirements/go.in
lock requirements/fuzz.txt requirements/fuzz.in
lock requirements/delta.txt requirements/delta.in --no-deps
for line in 4.2 4.3; do
    lock "requirements/spark-$line.txt" --group pyproject.toml:dev pyproject.toml requirements/uv.in "requirements/spark-$line.in"
done
# What the container image holds: each backend's client, nothing for development, and no other version than the tests ran with.
lock requirements/image.txt --constraints requirements/spark-4.2.txt --extra zookeeper pyproject.toml requirements/spark-4.2.in
# What `pulumi install` installs, on any laptop: without the configuration that says Linux.
lock infra/requirements.txt --no-config --group pyproject.toml:infra
lock infra/requirements-aws.txt --no-config --group pyproject.toml:infra-aws --constraints infra/requirements.txt
