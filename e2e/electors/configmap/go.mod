module understudy.dev/e2e/electors/configmap

go 1.25

require (
	k8s.io/apimachinery v0.23.17
	k8s.io/client-go v0.23.17
)
