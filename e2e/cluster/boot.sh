#!/usr/bin/env bash
# What happens when a machine of the test cluster is switched on. machines.py runs it as process 1 of process, mount, network,
# host name and IPC namespaces of its own; killing it is pulling the plug: the kernel takes every process, mount, address and
# firewall rule of the machine along, and nothing of them was ever seen outside.
#
#   boot.sh understudy-machine NAME DISK      NAME is `control` or `node1` to `node9`, DISK becomes its /var
#
# The network: one bridge in `control`, 10.99.0.1. Node N is 10.99.0.(10+N), its pods are 10.244.N.0/24, Services are
# 10.96.0.0/16, the machine outside is 10.99.0.254. Nothing is translated on the way: the API server sees addresses of pods.
# Nor is there a way out: what a pod wants from elsewhere is refused at once instead of timing out.
set -euo pipefail
name=$2
disk=$3

mount --make-rshared /
mount --bind "$disk" /var
mount -t tmpfs -o mode=755 run /run
echo "$name" >/proc/sys/kernel/hostname
export PATH=/var/lib/machine/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root TMPDIR=/var/tmp
cd /var/lib/machine

start() { "$@" >>"/var/log/$1.log" 2>&1 & }
routes_to_pods() { # routes_to_pods OWN
    local n
    for n in {1..9}; do
        [ "$n" = "$1" ] || ip route add "10.244.$n.0/24" via "10.99.0.$((10 + n))"
    done
}

control() {
    ip link add lan type bridge
    ip address add 10.99.0.1/24 dev lan
    ip link set lan up
    routes_to_pods none
    # Everything waits for what it needs by itself, so everything starts at once.
    start etcd --data-dir /var/lib/etcd --unsafe-no-fsync --logger zap \
        --listen-client-urls http://127.0.0.1:2379 --advertise-client-urls http://127.0.0.1:2379 \
        --listen-peer-urls http://127.0.0.1:2380
    start kube-apiserver --etcd-servers=http://127.0.0.1:2379 --advertise-address=10.99.0.1 --secure-port=6443 \
        --service-cluster-ip-range=10.96.0.0/16 --allow-privileged=true \
        --authorization-mode=Node,RBAC --enable-admission-plugins=NodeRestriction --token-auth-file=tokens.csv \
        --tls-cert-file=api.crt --tls-private-key-file=api.key --client-ca-file=ca.crt --cert-dir=/run/api \
        --kubelet-certificate-authority=ca.crt --kubelet-client-certificate=client.crt --kubelet-client-key=client.key \
        --kubelet-preferred-address-types=InternalIP \
        --service-account-issuer=https://kubernetes.default.svc.cluster.local \
        --service-account-key-file=accounts.key --service-account-signing-key-file=accounts.key
    start kube-controller-manager --kubeconfig=kcm.kubeconfig --bind-address=127.0.0.1 --cert-dir=/run/kcm \
        --leader-elect=false --use-service-account-credentials --allocate-node-cidrs=false \
        --flex-volume-plugin-dir=/var/lib/machine/plugins \
        --root-ca-file=ca.crt --service-account-private-key-file=accounts.key \
        --cluster-signing-cert-file=ca.crt --cluster-signing-key-file=ca.key
    start kube-scheduler --kubeconfig=scheduler.kubeconfig --bind-address=127.0.0.1 --cert-dir=/run/scheduler \
        --leader-elect=false
    start coredns -conf etc/Corefile
}

node() { # node NUMBER
    local directory
    until [ -e /proc/sys/net/ipv4/conf/eth0 ]; do sleep 0.05; done # the cable is plugged in from outside
    ip address add "10.99.0.$((10 + $1))/24" dev eth0
    ip link set eth0 up
    routes_to_pods "$1"
    ip route add 10.96.0.0/16 via 10.99.0.1 # never taken: kube-proxy rewrites the address, but a route has to exist first
    ip route add unreachable default
    echo 1 >/proc/sys/net/ipv4/ip_forward

    mkdir -p /run/cni/net.d
    for directory in /usr/lib/cni /usr/libexec/cni /opt/cni/bin; do
        if [ -x "$directory/ptp" ]; then ln -sfn "$directory" /run/cni/bin; fi
    done
    # ptp, not bridge: an answer between two pods of one node then passes the node's own routing, and with it the table that
    # undoes a Service's address, whether or not the kernel shows bridged packets to iptables.
    cat >/run/cni/net.d/10-pods.conflist <<END
{"cniVersion": "1.0.0", "name": "pods", "plugins": [{"type": "ptp", "ipMasq": false, "ipam": {
  "type": "host-local", "dataDir": "/run/cni/addresses", "ranges": [[{"subnet": "10.244.$1.0/24"}]],
  "routes": [{"dst": "0.0.0.0/0"}]}}]}
END
    start containerd --config etc/containerd.toml
    until ctr version >/dev/null 2>&1; do sleep 0.1; done
    ctr --namespace k8s.io images import images/pause.tar >>/var/log/containerd.log 2>&1
    start kube-proxy --config=etc/kube-proxy.yaml
    start kubelet --config=etc/kubelet.yaml --kubeconfig=kubelet.kubeconfig --node-ip="10.99.0.$((10 + $1))" \
        --cgroup-root="/understudy-$name"
}

ip link set lo up
case $name in
    control) control ;;
    *) node "${name#node}" ;;
esac
# Bash as process 1 reaps every orphan while it waits; it never returns by itself.
while :; do
    wait || :
    sleep 1 || :
done
