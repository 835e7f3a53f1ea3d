#!/usr/bin/env bash
# A stack of the bundle, by the `pulumi` on PATH, the way a newcomer wants it done:
#
#   tools/stack.sh up STACK         make the cluster what stacks/Pulumi.STACK.yaml says
#   tools/stack.sh down STACK       take away what runs; HA data, bucket and namespace stay (see docs/bundle.md for purge)
#
# State goes to the local backend (~/.pulumi), unless PULUMI_BACKEND_URL names another. Secrets are encrypted with a passphrase,
# generated once into ~/.config/understudy/passphrase, unless PULUMI_CONFIG_PASSPHRASE or PULUMI_CONFIG_PASSPHRASE_FILE is set.
# Does nothing twice. Exit 2: called wrongly; 3: something is missing.
set -euo pipefail
cd "$(dirname "$0")/.."

say() { echo "stack: $*"; }
fail() {
    local status=$1
    shift
    echo "stack: $*" >&2
    exit "$status"
}

what=${1:-}
stack=${2:-}
case $what in
    up | down) ;;
    *) fail 2 "say up or down, and a stack: make up STACK=dev" ;;
esac
known=$(cd stacks && echo Pulumi.*.yaml | sed 's/Pulumi\.//g; s/\.yaml//g')
[ -f "stacks/Pulumi.$stack.yaml" ] || fail 2 "STACK: there is no stacks/Pulumi.$stack.yaml. There are: $known"
command -v pulumi >/dev/null ||
    fail 3 "pulumi is missing. Install it (https://www.pulumi.com/docs/install/), or see make render STACK=$stack"

export PULUMI_BACKEND_URL=${PULUMI_BACKEND_URL:-file://~} PULUMI_SKIP_UPDATE_CHECK=1
if [ -z "${PULUMI_CONFIG_PASSPHRASE+set}${PULUMI_CONFIG_PASSPHRASE_FILE:-}" ]; then
    export PULUMI_CONFIG_PASSPHRASE_FILE=${XDG_CONFIG_HOME:-$HOME/.config}/understudy/passphrase
    if [ ! -s "$PULUMI_CONFIG_PASSPHRASE_FILE" ]; then
        mkdir -p "$(dirname "$PULUMI_CONFIG_PASSPHRASE_FILE")"
        (umask 077 && od -An -tx1 -N24 /dev/urandom | tr -d ' \n' >"$PULUMI_CONFIG_PASSPHRASE_FILE")
        say "made a passphrase for the stack's secrets: $PULUMI_CONFIG_PASSPHRASE_FILE (keep it)"
    fi
fi

pulumi() { command pulumi --non-interactive "$@"; }

# The SDK, where Pulumi.yaml says: again whenever its lock has changed.
stamp=.venv-infra/.installed
if ! cmp -s infra/requirements.txt "$stamp"; then
    say "installing the program's packages"
    pulumi install --no-plugins >/dev/null
    cp infra/requirements.txt "$stamp"
fi
pulumi stack select --create "$stack"

key() { pulumi config get --stack "$stack" "$1" 2>/dev/null || true; }
if [ "$what" = up ]; then
    if [ "$(key bucketKind)" = incluster ] && [ -z "$(key bucketSecret)$(key bucketAccessKey)" ]; then
        pulumi config set --stack "$stack" --secret bucketAccessKey understudy
        od -An -tx1 -N16 /dev/urandom | tr -d ' \n' | pulumi config set --stack "$stack" --secret bucketSecretKey
        say "made keys for the object store; they are in stacks/Pulumi.$stack.yaml, encrypted"
    fi
    pulumi up --stack "$stack" --yes
else
    pulumi destroy --stack "$stack" --yes --exclude-protected
    say "what holds data is still there: see docs/bundle.md"
fi
