// Command probe is what the tests of the cluster itself run in pods.
//
//	probe serve PORT        answer every HTTP request with the host's name
//	probe resolve NAME      print the addresses of NAME
//	probe get URL           print the status, then the body; an https URL is asked with the pod's own service account
//	probe say MESSAGE       leave MESSAGE as the termination message, then wait
//	probe mkdir PATH        make a directory, and those above it
package main

import (
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"time"
)

const account = "/var/run/secrets/kubernetes.io/serviceaccount/"

func main() {
	if len(os.Args) != 3 {
		fail("usage: probe serve|resolve|get|say|mkdir ARGUMENT")
	}
	argument := os.Args[2]
	switch os.Args[1] {
	case "serve":
		name, _ := os.Hostname()
		http.HandleFunc("/", func(answer http.ResponseWriter, _ *http.Request) { fmt.Fprintln(answer, name) })
		fail(http.ListenAndServe(":"+argument, nil))
	case "resolve":
		addresses, err := net.LookupHost(argument)
		if err != nil {
			fail(err)
		}
		fmt.Println(strings.Join(addresses, "\n"))
	case "get":
		get(argument)
	case "say":
		if err := os.WriteFile("/dev/termination-log", []byte(argument), 0o644); err != nil {
			fail(err)
		}
		fmt.Println("said")
		stop := make(chan os.Signal, 1)
		signal.Notify(stop, syscall.SIGTERM)
		<-stop
	case "mkdir":
		if err := os.MkdirAll(argument, 0o755); err != nil {
			fail(err)
		}
	default:
		fail("no such command: " + os.Args[1])
	}
}

func get(url string) {
	request, err := http.NewRequest(http.MethodGet, url, nil)
	if err != nil {
		fail(err)
	}
	client := &http.Client{Timeout: 5 * time.Second}
	if strings.HasPrefix(url, "https:") {
		token, err := os.ReadFile(account + "token")
		if err != nil {
			fail(err)
		}
		authority, err := os.ReadFile(account + "ca.crt")
		if err != nil {
			fail(err)
		}
		pool := x509.NewCertPool()
		pool.AppendCertsFromPEM(authority)
		client.Transport = &http.Transport{TLSClientConfig: &tls.Config{RootCAs: pool}}
		request.Header.Set("Authorization", "Bearer "+string(token))
	}
	answer, err := client.Do(request)
	if err != nil {
		fail(err)
	}
	defer answer.Body.Close()
	fmt.Println(answer.StatusCode)
	if _, err := io.Copy(os.Stdout, answer.Body); err != nil {
		fail(err)
	}
}

func fail(reason any) {
	fmt.Fprintln(os.Stderr, "probe:", reason)
	os.Exit(1)
}
