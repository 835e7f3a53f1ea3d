#!/usr/bin/env bash
# A stack of the bundle, by the `pulumi` on PATH, the way a newcomer wants it done:
#
#   tools/stack.sh up STACK         make the cluster what stacks/Pulumi.STACK.yaml says
#   tools/stack.sh down STACK       take away what runs; what holds data stays
#   tools/stack.sh purge STACK      take away everything but the namespace, data too, for good; asks for SURE=yes
#                                   (a bucket that was not made here stays, and so do the claims of its checkpoints)
#
# All of them look at the cluster first (--refresh) and say which it is. `up` notes its kubeconfig context in the stack's file: with
# another one current, a refresh would find nothing there, and forget what it knows.
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
    purge)
        [ "${SURE:-}" = yes ] || fail 2 "this removes every HA document of $stack, and what was made to hold its data. Add SURE=yes"
        ;;
    *) fail 2 "say up, down or purge, and a stack: make up STACK=dev" ;;
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
context=$(key context)
if [ -z "$context" ] && context=$(kubectl config current-context 2>/dev/null) && [ "$what" = up ]; then
    pulumi config set --stack "$stack" context "$context"
    say "$stack is for the context $context from now on: stacks/Pulumi.$stack.yaml"
fi
say "in the context ${context:-that is current}"
if [ "$what" = up ]; then
    if [ "$(key bucketKind)" = incluster ] && [ -z "$(key bucketSecret)$(key bucketAccessKey)" ]; then
        # Random as well: Pulumi hides a secret's text wherever it appears.
        od -An -tx1 -N10 /dev/urandom | tr -d ' \n' | pulumi config set --stack "$stack" --secret bucketAccessKey
        od -An -tx1 -N16 /dev/urandom | tr -d ' \n' | pulumi config set --stack "$stack" --secret bucketSecretKey
        say "made keys for the object store; they are in stacks/Pulumi.$stack.yaml, encrypted"
    fi
    pulumi up --stack "$stack" --yes --refresh
elif [ "$what" = down ]; then
    [ "$(key purge)" != true ] ||
        fail 2 "$stack is set to purge: its data would go. Go on with make purge, or take purge back and make up first"
    pulumi destroy --stack "$stack" --yes --refresh --exclude-protected
    say "what holds data is still there, unless the stack says otherwise (retain, purge): docs/bundle.md"
else
    # What is to go has to be told so before it can: retention and protection are options of the resources.
    pulumi config set --stack "$stack" purge true
    # With it nothing that runs is declared: the replicas end, and no job that has FAILED is waited for.
    pulumi up --stack "$stack" --yes --refresh ||
        fail 1 "no data was removed yet. Repair what is said above, and make purge again; or pulumi config rm --stack $stack purge, and make up"
    # Until the end the stack's file says so: retention is lifted, and `down` must know.
    pulumi destroy --stack "$stack" --yes --refresh ||
        fail 1 "not everything is gone. make purge again; or pulumi config rm --stack $stack purge, and make up, to keep the rest"
    pulumi config rm --stack "$stack" purge
fi
