// Command kube is etcd, every Kubernetes component, kubectl and helm in one binary, chosen by the name it is run as.
// One link instead of eight: 155 MB instead of 600 MB, and minutes instead of a quarter of an hour to build.
package main

import (
	"context"
	"os"
	"path/filepath"

	"go.etcd.io/etcd/server/v3/etcdmain"
	helm "helm.sh/helm/v4/pkg/cmd"
	"k8s.io/component-base/cli"
	kubectl "k8s.io/kubectl/pkg/cmd"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

func main() {
	switch filepath.Base(os.Args[0]) {
	case "etcd":
		etcdmain.Main(os.Args)
	case "kube-apiserver":
		os.Exit(cli.Run(apiserver.NewAPIServerCommand()))
	case "kube-controller-manager":
		os.Exit(cli.Run(controllermanager.NewControllerManagerCommand()))
	case "kube-scheduler":
		os.Exit(cli.Run(scheduler.NewSchedulerCommand()))
	case "kube-proxy":
		os.Exit(cli.Run(proxy.NewProxyCommand()))
	case "kubelet":
		os.Exit(cli.Run(kubelet.NewKubeletCommand(context.Background())))
	case "helm":
		command, err := helm.NewRootCmd(os.Stdout, os.Args[1:], helm.SetupLogging)
		if err != nil || command.Execute() != nil {
			os.Exit(1)
		}
	default:
		os.Exit(cli.Run(kubectl.NewDefaultKubectlCommand()))
	}
}
