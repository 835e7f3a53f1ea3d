module understudy.dev/e2e/electors/lease

go 1.25

require (
	k8s.io/apimachinery v0.36.3
	k8s.io/client-go v0.36.3
)
