"""What the tests in a cluster are made with: programs called, objects applied, jobs deployed and disturbed."""
