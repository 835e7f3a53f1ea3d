// What runs in pods where nothing else has to: the standard library only, so that there is nothing to pin.
module understudy.dev/e2e/cluster/tiny

go 1.25.0
