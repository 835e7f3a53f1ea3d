"""A Kubernetes cluster on this machine, and the choice between it and others."""
