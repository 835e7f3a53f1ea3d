// Command coredns is CoreDNS with the few plugins a test cluster needs. A module of its own: it pulls an etcd API newer than
// the server in ../kube.
package main

import (
	"github.com/coredns/coredns/core/dnsserver"
	"github.com/coredns/coredns/coremain"
	_ "github.com/coredns/coredns/plugin/bind"
	_ "github.com/coredns/coredns/plugin/cache"
	_ "github.com/coredns/coredns/plugin/errors"
	_ "github.com/coredns/coredns/plugin/kubernetes"
)

func init() { dnsserver.Directives = []string{"bind", "errors", "cache", "kubernetes"} }

func main() { coremain.Run() }
