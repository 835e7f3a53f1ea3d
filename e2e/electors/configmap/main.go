// A client-go elector on a ConfigMap, of the last release that has that lock. It says when it leads and when it does not any more.
//
//	configmap -namespace NS -name NAME -id ID [-lease 5s -renew 3s -retry 700ms]
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/clientcmd"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

func main() {
	namespace := flag.String("namespace", "default", "of the lock")
	name := flag.String("name", "", "of the lock")
	id := flag.String("id", "", "whom the record names")
	lease := flag.Duration("lease", 5*time.Second, "")
	renew := flag.Duration("renew", 3*time.Second, "")
	retry := flag.Duration("retry", 700*time.Millisecond, "")
	flag.Parse()

	config, err := clientcmd.BuildConfigFromFlags("", os.Getenv("KUBECONFIG"))
	if err != nil {
		panic(err)
	}
	lock := &resourcelock.ConfigMapLock{
		ConfigMapMeta: metav1.ObjectMeta{Namespace: *namespace, Name: *name},
		Client:     kubernetes.NewForConfigOrDie(config).CoreV1(),
		LockConfig: resourcelock.ResourceLockConfig{Identity: *id},
	}
	ctx, stop := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer stop()
	leaderelection.RunOrDie(ctx, leaderelection.LeaderElectionConfig{
		Lock: lock, LeaseDuration: *lease, RenewDeadline: *renew, RetryPeriod: *retry, ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{
			OnStartedLeading: func(context.Context) { say("leads") },
			OnStoppedLeading: func() { say("stopped") },
		},
	})
}

func say(what string) { fmt.Printf("%d %s\n", time.Now().UnixMicro(), what) }
