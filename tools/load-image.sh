#!/usr/bin/env bash
# Brings an image from Docker into the cluster of the current context, if that is one on this machine:
#
#   tools/load-image.sh IMAGE
#
# Exit 1: it could not be brought there; 3: another kind of cluster, whose images come from a registry.
set -euo pipefail

image=${1:?"load-image: say which image"}
context=$(kubectl config current-context 2>/dev/null) || {
    echo "load-image: kubectl has no current context. Make a cluster first: kind create cluster" >&2
    exit 3
}
case $context in
    kind-*)
        kind load docker-image "$image" --name "${context#kind-}" || {
            echo "load-image: if a content digest was not found, build $image again with BUILDX_NO_DEFAULT_ATTESTATIONS=1" \
                "in the environment (https://github.com/kubernetes-sigs/kind/issues/3795)" >&2
            exit 1
        }
        ;;
    minikube) minikube image load "$image" ;;
    *)
        echo "load-image: $context takes its images from a registry. Push $image there, and name it in the stack's \`image\`" >&2
        exit 3
        ;;
esac
echo "load-image: $image is in $context"
