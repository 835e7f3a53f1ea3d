#!/usr/bin/env bash
# Checks and formats the fence, hooks/jvm:
#
#   tools/jvm.sh check      compiles it with Error Prone, runs its JUnit tests, and checks its format (google-java-format).
#                           Does nothing while neither the fence nor tests/vectors has changed since the last check passed.
#   tools/jvm.sh format     formats it
set -euo pipefail
cd "$(dirname "$0")/.."
exec </dev/null

# A profile that the build of the jar does without: see pom.xml.
maven() {
    local home find='from understudy.environment import find_java; print(find_java(compiler=True).home)'
    if ! command -v mvn >/dev/null || ! home=$(PYTHONPATH=hooks .venv/bin/python -c "$find" 2>/dev/null); then
        echo "jvm: please install a JDK 17 or 21 and Maven" >&2
        exit 3
    fi
    JAVA_HOME=$home mvn -q -B -ntp -f hooks/jvm/pom.xml -Pcheck "$@"
}

key() {
    find hooks/jvm tests/vectors '(' -name target -o -name s3a ')' -prune -o -type f -print |
        LC_ALL=C sort | tr '\n' '\0' | xargs -0 sha256sum | sha256sum | cut -c1-64
}

check() {
    local stamp=build/.jvm-checked checking
    checking=$(key)
    [ "$(cat "$stamp" 2>/dev/null)" = "$checking" ] && return 0
    echo "jvm: hooks/jvm: Error Prone, JUnit, google-java-format"
    maven verify
    mkdir -p build
    echo "$checking" >"$stamp"
}

case ${1:-} in
    check) check ;;
    format) maven spotless:apply ;;
    *)
        echo "jvm: tools/jvm.sh check, or format" >&2
        exit 2
        ;;
esac
